// Stored sub-models against the budget, now and over time.

import { erasureMarks } from "./accuracy.js";
import { byId, details, h, memo, put, svg, table } from "./dom.js";
import { bytes, number, stamp } from "./format.js";
import { T } from "./texts.js";
import { timeChart } from "./timechart.js";

const FEW = 16; // slots that are drawn with their names
const MOST = 512;

export function startMemory() {
  const draw = memo((memory, storage, subModels, history) => {
    const share = memory.budget_bytes === null ? null : memory.used_bytes / memory.budget_bytes;
    const budget = share === null ? T.memory.unlimited : T.memory.share(memory.budget_bytes, share);
    const kept = storage.budget_bytes === null ? bytes(storage.used_bytes) : T.memory.of(bytes(storage.used_bytes), bytes(storage.budget_bytes));
    const { columns } = T.memory;
    put(
      byId("memory"),
      h("p", { class: "small" }, T.memory.used(memory.sub_models, bytes(memory.used_bytes), budget, kept)),
      share === null ? null : bar(share),
      slots(memory, subModels),
      overTime(history, memory.budget_bytes),
      details(
        T.memory.table,
        h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": T.memory.table }, table(T.memory.caption, [
          [columns.slot, (row) => number(row.slot), "number"],
          [columns.shard, (row) => String(row.segment[0]), "number"],
          [columns.upto, (row) => T.lineages.roundOf(row.segment, row.segment[2] > 0)],
          [columns.size, (row) => bytes(row.size_bytes), "number"],
          [columns.votes, (row) => (row.head ? T.memory.yes : T.memory.no)],
        ], subModels)),
      ),
    );
  });
  return ({ status, subModels, history }) => draw(status.memory, status.storage, subModels.sub_models, history);
}

function overTime(history, budget) {
  const { points } = history;
  if (points.length < 2) return h("p", { class: "muted small" }, T.memory.since);
  return timeChart({
    label: T.memory.chart(points[0].memory_bytes, points.at(-1).memory_bytes), text: (value) => bytes(Math.round(value)), steps: true, limit: budget, ceiling: budget === null ? null : 1.1 * Math.max(budget, ...points.map((each) => each.memory_bytes)),
    points: points.map((each) => [Date.parse(each.at), each.memory_bytes, T.memory.point(each.memory_bytes, each.sub_models, stamp(each.at))]),
    marks: erasureMarks(history).filter(([time]) => time >= Date.parse(points[0].at)),
  });
}

function bar(share) {
  return svg(
    "svg",
    { class: "meter", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": T.memory.meter(share) },
    svg("rect", { class: "under", width: 100, height: 4 }),
    svg("rect", { class: share > 1 ? "over" : "used", width: Math.min(100, 100 * share), height: 4 }),
  );
}

function slots(memory, subModels) {
  if (memory.slots === null || memory.slots > MOST) return null;
  const taken = new Map(subModels.map((each) => [each.slot, each]));
  const many = memory.slots > FEW;
  const name = (each) => `${T.memory.shard(each.segment[0])} ${T.lineages.roundOf(each.segment, each.segment[2] > 0)}${each.head ? T.memory.votes : ""}`;
  return h("ol", { class: many ? "slots many" : "slots", "aria-label": T.memory.slots(memory.slots) }, Array.from({ length: memory.slots }, (_, at) => {
    const each = taken.get(at);
    const kind = { class: each ? (each.head ? "full head" : "full") : "" };
    if (many) return h("li", { ...kind, title: T.memory.slot(at, each ? name(each) : T.memory.free) }, h("span", { class: "hidden" }, each ? name(each) : T.memory.free));
    return each
      ? h("li", kind, T.memory.shard(each.segment[0]), h("span", {}, T.lineages.roundOf(each.segment, each.segment[2] > 0)), each.head ? h("span", { class: "hidden" }, T.memory.votes) : null)
      : h("li", {}, T.memory.free);
  }));
}

// Stored sub-models against the budget.

import { byId, details, h, memo, put, svg, table } from "./dom.js";
import { bytes, number, percent, plural, roundText } from "./format.js";

const MOST = 96;

export function startMemory() {
  const draw = memo((memory, storage, subModels) => {
    const share = memory.budget_bytes === null ? null : memory.used_bytes / memory.budget_bytes;
    const budget = memory.budget_bytes === null ? "without a limit" : `of ${bytes(memory.budget_bytes)} (${percent(share)})`;
    const kept = storage.budget_bytes === null ? bytes(storage.used_bytes) : `${bytes(storage.used_bytes)} of ${bytes(storage.budget_bytes)}`;
    put(
      byId("memory"),
      h("p", {}, `${plural(memory.sub_models, "sub-model")} take ${bytes(memory.used_bytes)} ${budget}. Samples take ${kept}.`),
      share === null ? null : bar(share),
      slots(memory, subModels),
      details(
        "Stored sub-models as a table",
        h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Stored sub-models as a table" }, table("Stored sub-models", [
          ["Slot", (row) => number(row.slot), "number"],
          ["Shard", (row) => String(row.segment[0]), "number"],
          ["Upto", (row) => roundText(row.segment, row.segment[2] > 0)],
          ["Size", (row) => bytes(row.size_bytes), "number"],
          ["Votes", (row) => (row.head ? "yes" : "no")],
        ], subModels)),
      ),
    );
  });
  return ({ status, subModels }) => draw(status.memory, status.storage, subModels.sub_models);
}

function bar(share) {
  return svg(
    "svg",
    { class: "meter", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": `${percent(share)} of the budget is used` },
    svg("rect", { class: "under", width: 100, height: 4 }),
    svg("rect", { class: share > 1 ? "over" : "used", width: Math.min(100, 100 * share), height: 4 }),
  );
}

function slots(memory, subModels) {
  if (memory.slots === null || memory.slots > MOST) return null;
  const taken = new Map(subModels.map((each) => [each.slot, each]));
  return h("ol", { class: "slots", "aria-label": `${plural(memory.slots, "slot")}` }, Array.from({ length: memory.slots }, (_, at) => {
    const each = taken.get(at);
    return each
      ? h("li", { class: each.head ? "full head" : "full" }, `shard ${each.segment[0]}`, h("span", {}, roundText(each.segment, each.segment[2] > 0)), each.head ? h("span", { class: "hidden" }, ", votes") : null)
      : h("li", {}, "free");
  }));
}

// Samples that were trained again, over time, and the energy that they took where it is known.

import { erasureMarks } from "./accuracy.js";
import { byId, details, h, memo, put, table } from "./dom.js";
import { compact, decimal, number, stamp } from "./format.js";
import { T } from "./texts.js";
import { timeChart } from "./timechart.js";

// The sum over time: at the end of each round from the home, and at each point that the service kept.
function sums(history) {
  let sum = 0;
  const byRound = history.rounds.map((each) => ({ at: each.at, total: (sum += each.rsn), joules: null }));
  const rounds = byRound.map((each, index) => ({ ...each, at: byRound[index + 1]?.at ?? history.until })); // while it was the newest
  const first = history.points[0]?.at ?? history.until;
  return [...rounds.filter((each) => each.at < first), ...history.points.map((each) => ({ at: each.at, total: each.rsn, joules: each.joules }))];
}

export function startRetrained() {
  const draw = memo((history) => {
    const found = sums(history);
    const total = found.at(-1)?.total ?? 0;
    const { columns } = T.retrained;
    const joules = found.at(-1)?.joules ?? null;
    put(
      byId("retrained"),
      total
        ? timeChart({
            label: T.retrained.chart(total), text: compact, steps: true, marks: erasureMarks(history),
            points: found.map((each) => [Date.parse(each.at), each.total, T.retrained.point(each.total, each.joules, stamp(each.at))]),
          })
        : h("p", { class: "muted empty" }, T.retrained.empty),
      h("p", { class: "muted small" }, joules !== null ? T.retrained.energy(joules) : T.retrained.unknown(history.energy_unknown)),
      details(T.retrained.table, h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": T.retrained.table }, table(T.retrained.caption, [
        [columns.round, (row) => String(row.round), "number"],
        [columns.closed, (row) => h("time", { datetime: row.at }, stamp(row.at))],
        [columns.retrained, (row) => number(row.rsn), "number"],
        [columns.joules, (row) => (row.joules === null ? "–" : decimal(row.joules)), "number"],
      ], [...history.rounds].reverse()))),
    );
  });
  return ({ history }) => draw(history);
}

// Retrained samples, and what they take in energy, against the paper's systems on this device's own history.

import { byId, details, h, memo, put, table } from "./dom.js";
import { bars } from "./charts.js";
import { capital, decimal, number } from "./format.js";
import { T } from "./texts.js";

const text = (row) => [number(row.rsn), row.joules === null ? null : T.baselines.joules(row.joules)].filter(Boolean).join(" · ");

export function startBaselines() {
  const draw = memo((answer, energy) => {
    const own = { system: T.baselines.own, rsn: answer.rsn, joules: answer.joules, seconds: answer.seconds, floor_rsn: null, unknown: null, own: true };
    const rows = [own, ...answer.systems.map((each) => ({ ...each, own: false }))];
    const known = rows.filter((row) => row.rsn !== null);
    const missing = rows.filter((row) => row.rsn === null);
    const note = answer.state === "computing" ? T.baselines.computing : answer.state === "failed" ? T.baselines.failed(answer.detail) : !answer.systems.length ? T.baselines.none : null;
    const meter = energy.meter === null ? T.baselines.noMeter(energy.unavailable) : T.baselines.meter(energy.meter);
    const { columns } = T.baselines;
    put(
      byId("baselines"),
      h("p", { class: "muted small" }, T.baselines.intro, answer.energy_unknown ? T.baselines.unknown(answer.energy_unknown) : T.baselines.calibrated),
      note ? h("p", { class: "muted" }, note) : null,
      bars(T.baselines.bars, known.map((row) => [row.system, row.rsn, text(row), row.own])),
      missing.map((row) => h("p", { class: "muted small" }, T.baselines.cannot(row.system, row.unknown))),
      details(T.baselines.table, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": T.baselines.table }, table(T.baselines.caption, [
        [columns.system, (row) => capital(row.system)],
        [columns.retrained, (row) => number(row.rsn), "number"],
        [columns.floor, (row) => number(row.floor_rsn), "number"],
        [columns.seconds, (row) => (row.seconds === null ? "–" : decimal(row.seconds)), "number"],
        [columns.joules, (row) => (row.joules === null ? "–" : decimal(row.joules)), "number"],
        [columns.byRound, (row) => row.rsn_per_round?.map(number).join(", ") ?? "–"],
      ], rows)), h("p", { class: "muted small" }, meter)),
    );
  });
  return ({ baselines, energy }) => draw(baselines, energy);
}

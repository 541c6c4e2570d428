// Retrained samples, and what they take in energy, against the paper's systems on this device's own history.

import { byId, details, h, memo, put, table } from "./dom.js";
import { bars } from "./charts.js";
import { capital, decimal, number } from "./format.js";

const text = (row) => [number(row.rsn), row.joules === null ? null : `${decimal(row.joules)} J`].filter(Boolean).join(" · ");

export function startBaselines() {
  const draw = memo((told, energy) => {
    const own = { system: "this device", rsn: told.rsn, joules: told.joules, seconds: told.seconds, floor_rsn: null, unknown: null, own: true };
    const rows = [own, ...told.systems.map((each) => ({ ...each, own: false }))];
    const known = rows.filter((row) => row.rsn !== null);
    const missing = rows.filter((row) => row.rsn === null);
    const note = told.state === "computing" ? "The paper's systems are being simulated…" : told.state === "failed" ? `The simulation failed: ${told.detail}` : !told.systems.length ? "There is no history yet to simulate." : null;
    const meter = energy.meter === null ? `No meter: ${energy.unavailable}.` : `Meter: ${energy.meter}.`;
    put(
      byId("baselines"),
      h("p", { class: "muted small" }, "Every system on this device's own history. ", told.energy_unknown ? `Joules are not known: ${told.energy_unknown}. ` : "Joules by this device's calibration."),
      note ? h("p", { class: "muted" }, note) : null,
      bars("Retrained samples", known.map((row) => [row.system, row.rsn, text(row), row.own])),
      missing.map((row) => h("p", { class: "muted small" }, `${row.system} cannot run on this history: ${row.unknown}`)),
      details("Retrained samples as a table", h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Retrained samples as a table" }, table("Retrained samples", [
        ["System", (row) => capital(row.system)],
        ["Retrained", (row) => number(row.rsn), "number"],
        ["With unlimited memory", (row) => number(row.floor_rsn), "number"],
        ["Seconds", (row) => (row.seconds === null ? "–" : decimal(row.seconds)), "number"],
        ["Joules", (row) => (row.joules === null ? "–" : decimal(row.joules)), "number"],
        ["By round", (row) => row.rsn_per_round?.map(number).join(", ") ?? "–"],
      ], rows)), h("p", { class: "muted small" }, meter)),
    );
  });
  return ({ baselines, energy }) => draw(baselines, energy);
}

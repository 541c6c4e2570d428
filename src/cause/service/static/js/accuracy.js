// Accuracy over rounds, as evaluations found it.

import { api } from "./api.js";
import { byId, details, h, memo, put, say, table } from "./dom.js";
import { lines } from "./charts.js";
import { capital, number, percent, stamp } from "./format.js";
import { typeOf } from "./files.js";

export function startAccuracy(context) {
  const fail = (error) => say(byId("evaluate-error"), error ? capital(error.message) : "");
  byId("evaluate-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    fail(null);
    const file = byId("evaluate-file").files[0];
    try {
      await api.evaluate(file, typeOf(file));
    } catch (error) {
      context.failed(error, fail);
    }
  });

  const draw = memo((items) => {
    if (!items.length) return put(byId("accuracy"), h("p", { class: "muted empty" }, "Nothing has been evaluated yet."));
    const oldest = [...items].reverse();
    const newest = items[0];
    const label = `Accuracy over rounds: ${percent(newest.accuracy)} in round ${newest.round}, ${percent(oldest[0].accuracy)} in round ${oldest[0].round}; the table has all`;
    put(
      byId("accuracy"),
      lines(label, oldest.map((each) => [each.round, each.accuracy]), (y) => `${Math.round(100 * y)} %`),
      details("Evaluations as a table", h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Evaluations as a table" }, table("Evaluations, newest first", [
        ["Round", (row) => String(row.round), "number"],
        ["Accuracy", (row) => percent(row.accuracy), "number"],
        ["Samples", (row) => number(row.samples), "number"],
        ["Voters", (row) => number(row.voters), "number"],
        ["Heads", (row) => row.heads.map((each) => `${each.shard}: ${percent(each.accuracy)}`).join(", ")],
        ["At", (row) => h("time", { datetime: row.at }, stamp(row.at))],
      ], items))),
    );
  });
  return ({ evaluations }) => draw(evaluations.items);
}

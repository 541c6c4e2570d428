// Accuracy over time with the voters of each moment, and where something was erased.

import { api } from "./api.js";
import { byId, details, h, memo, once, put, say, svg, table } from "./dom.js";
import { capital, number, percent, stamp } from "./format.js";
import { typeOf } from "./files.js";
import { T } from "./texts.js";
import { timeChart } from "./timechart.js";

export const erasureMarks = (history) => history.erasures.map((each) => [Date.parse(each.at), T.accuracy.erased(each.requests, each.samples, stamp(each.at))]);

export function startAccuracy(context) {
  const fail = (error) => say(byId("evaluate-error"), error ? capital(error.message) : "");
  byId("evaluate-form").addEventListener("submit", once(async () => {
    fail(null);
    const file = byId("evaluate-file").files[0];
    try {
      await api.evaluate(file, typeOf(file));
    } catch (error) {
      context.failed(error, fail);
    }
  }));

  const draw = memo((history) => {
    const items = history.evaluations;
    if (!items.length) return put(byId("accuracy"), h("p", { class: "muted empty" }, T.accuracy.empty));
    const most = Math.max(...items.map((each) => each.voters));
    const least = Math.min(...items.map((each) => each.accuracy));
    const { columns, legend } = T.accuracy;
    const key = (name, ...parts) => h("li", {}, svg("svg", { class: "key", viewBox: "0 0 20 14", "aria-hidden": "true" }, parts), legend[name]);
    put(
      byId("accuracy"),
      timeChart({
        label: T.accuracy.chart(items.at(-1), items[0]), text: T.accuracy.percent, ceiling: 1, floor: Math.max(0, Math.floor(least * 10 - 0.5) / 10),
        points: items.map((each) => [Date.parse(each.at), each.accuracy, T.accuracy.point(each, stamp(each.at)), each.voters < most]),
        strip: items.map((each) => [Date.parse(each.at), each.voters]), marks: erasureMarks(history),
      }),
      h(
        "ul", { class: "legend" },
        key("all", svg("circle", { class: "point", cx: 10, cy: 7, r: 3.5 })), key("fewer", svg("circle", { class: "point old", cx: 10, cy: 7, r: 3.5 })),
        key("voters", svg("path", { class: "count-line", d: "M2 11H10V4H18" })), key("erasures", svg("path", { class: "mark", d: "M10 2v10" })),
      ),
      details(T.accuracy.table, h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": T.accuracy.table }, table(T.accuracy.caption, [
        [columns.at, (row) => h("time", { datetime: row.at }, stamp(row.at))],
        [columns.round, (row) => String(row.round), "number"],
        [columns.accuracy, (row) => percent(row.accuracy), "number"],
        [columns.samples, (row) => number(row.samples), "number"],
        [columns.voters, (row) => number(row.voters), "number"],
      ], [...items].reverse()))),
    );
  });
  return ({ history }) => draw(history);
}

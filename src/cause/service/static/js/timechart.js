// A line over time, with ticks where something happened, and a thin line of counts below it. Each point says what it is
// when it is pointed at; the table beside each chart has them all.

import { svg } from "./dom.js";
import { tick } from "./format.js";

const [WIDE, HIGH, LEFT, LOW, STRIP] = [480, 172, 76, 22, 26];

// `points` are [time, value, text, hollow]; `marks` [time, text]; `strip` [time, count]; `limit` a line across, or null. The line
// is drawn as steps where `steps` is true. `text` makes the texts of the axis.
export function timeChart({ label, points, marks = [], strip = [], limit = null, steps = false, floor = 0, ceiling = null, text }) {
  const all = [...points, ...marks, ...strip].map(([time]) => time);
  const [first, last] = [Math.min(...all), Math.max(...all)];
  const bottom = HIGH - LOW - (strip.length ? STRIP : 0);
  const top = ceiling ?? niceTop(Math.max(...points.map(([, value]) => value), limit ?? 0));
  const at = (time) => LEFT + 6 + (WIDE - LEFT - 14) * (last > first ? (time - first) / (last - first) : 0.5);
  const up = (value) => 8 + (bottom - 12) * (1 - (value - floor) / (top - floor || 1));
  const levels = [floor, (floor + top) / 2, top];
  const times = last > first ? [0, 1 / 3, 2 / 3, 1].map((share) => first + share * (last - first)) : [first];
  const anchor = (index) => (times.length === 1 ? "middle" : index === 0 ? "begin" : index === times.length - 1 ? "end" : "middle");
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label },
    levels.map((value) => [svg("line", { class: "grid", x1: LEFT, x2: WIDE, y1: up(value), y2: up(value) }), svg("text", { class: "axis end", x: LEFT - 6, y: up(value) + 4 }, text(value))]),
    times.map((time, index) => svg("text", { class: `axis ${anchor(index)}`, x: at(time), y: HIGH - 5 }, tick(time, last - first))),
    limit === null ? null : svg("line", { class: "limit", x1: LEFT, x2: WIDE, y1: up(limit), y2: up(limit) }),
    marks.map(([time, title]) => svg("path", { class: "mark", d: `M${at(time)} ${bottom - 8}v8` }, svg("title", {}, title))),
    svg("path", { class: "curve", d: path(points.map(([time, value]) => [at(time), up(value)]), steps) }),
    points.map(([time, value, title, hollow]) => svg("circle", { class: hollow ? "point old" : "point", cx: at(time), cy: up(value), r: points.length > 80 ? 2 : 3 }, svg("title", {}, title))),
    strip.length ? counts(strip, at, bottom) : null,
  );
}

// How many there were, as steps in a strip below the chart, with the most at its side.
function counts(strip, at, bottom) {
  const most = Math.max(1, ...strip.map(([, count]) => count));
  const up = (count) => bottom + STRIP - 3 - (STRIP - 8) * (count / most);
  return svg(
    "g",
    { class: "strip" },
    svg("path", { class: "count-line", d: path(strip.map(([time, count]) => [at(time), up(count)]), true) }),
    svg("text", { class: "axis end", x: LEFT - 6, y: bottom + STRIP - 6 }, String(most)),
  );
}

function path(points, steps) {
  return points.map(([x, y], index) => (index === 0 ? `M${x} ${y}` : steps ? `H${x}V${y}` : `L${x} ${y}`)).join("");
}

function niceTop(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((each) => each * size).find((each) => each >= value);
}

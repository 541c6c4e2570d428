// Two kinds of charts, each with its table beside it.

import { h, svg } from "./dom.js";

// A line through [x, y] with y from 0 to 1; `dots` are drawn too, the line goes through the last dot of each x.
export function lines(label, dots, yText) {
  const [wide, high, left, low] = [480, 180, 44, 24];
  const xs = [...new Set(dots.map(([x]) => x))].sort((a, b) => a - b);
  const least = Math.min(...dots.map(([, y]) => y));
  const floor = Math.max(0, Math.floor(least * 10 - 0.5) / 10);
  const at = (x) => left + 12 + ((wide - left - 24) * (xs.length < 2 ? 0.5 : (x - xs[0]) / (xs.at(-1) - xs[0])));
  const up = (y) => 8 + (high - low - 8) * (1 - (y - floor) / (1 - floor || 1));
  const last = new Map(dots); // the later of two with one x stays
  const marks = [floor, (1 + floor) / 2, 1];
  const every = Math.ceil(xs.length / 10);
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": label },
    marks.map((y) => [svg("line", { class: "grid", x1: left, x2: wide, y1: up(y), y2: up(y) }), svg("text", { class: "axis end", x: left - 6, y: up(y) + 4 }, yText(y))]),
    xs.filter((_, index) => index % every === 0).map((x) => svg("text", { class: "axis middle", x: at(x), y: high - 6 }, String(x))),
    svg("polyline", { class: "curve", points: xs.map((x) => `${at(x)},${up(last.get(x))}`).join(" ") }),
    dots.map(([x, y]) => svg("circle", { class: last.get(x) === y ? "point" : "point old", cx: at(x), cy: up(y), r: 3.5 })),
  );
}

// Bars of [name, value or null, text, own].
export function bars(label, rows) {
  const most = Math.max(1, ...rows.map(([, value]) => value ?? 0));
  return h("ul", { class: "bars", "aria-label": label }, rows.map(([name, value, text, own]) =>
    h(
      "li",
      { class: own ? "own" : "" },
      h("span", { class: "name" }, name),
      svg("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { class: "under", width: 100, height: 6 }), svg("rect", { class: "used", width: (100 * (value ?? 0)) / most, height: 6 })),
      h("span", { class: "value" }, text),
    ),
  ));
}

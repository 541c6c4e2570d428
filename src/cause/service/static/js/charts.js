// Bars, with their table beside them.

import { h, svg } from "./dom.js";

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

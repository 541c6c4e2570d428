// What the words on this page mean, with the place in the documentation that says more.

import { byId, h, put } from "./dom.js";
import { T } from "./texts.js";

export function startGlossary() {
  const dialog = byId("glossary");
  put(byId("glossary-terms"), T.glossary.terms.map(([term, meaning, file]) => [
    h("dt", {}, term),
    h("dd", {}, meaning, " ", h("a", { href: `/docs/${file}`, target: "_blank", "aria-label": T.glossary.read(file) }, T.page.more)),
  ]));
  byId("glossary-open").addEventListener("click", () => dialog.showModal());
  byId("glossary-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

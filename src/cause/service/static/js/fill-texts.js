// Puts the texts of texts.js into index.html, which has none itself: data-text is what an element says, data-label its
// name for screen readers, data-hint what an empty field shows.

import { T } from "./texts.js";

function text(path) {
  const found = path.split(".").reduce((at, name) => at?.[name], T);
  if (typeof found !== "string") throw new Error(`texts.js has no text ${path}`);
  return found;
}

export function fillTexts(root = document) {
  for (const element of root.querySelectorAll("[data-text]")) element.textContent = text(element.dataset.text);
  for (const element of root.querySelectorAll("[data-label]")) element.setAttribute("aria-label", text(element.dataset.label));
  for (const element of root.querySelectorAll("[data-hint]")) element.setAttribute("placeholder", text(element.dataset.hint));
}

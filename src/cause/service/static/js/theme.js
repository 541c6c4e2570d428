// Light or dark: as the system says, or as chosen here.

import { byId } from "./dom.js";

const NAME = "cause-theme";

export function startTheme() {
  const choice = byId("theme");
  choice.value = document.documentElement.dataset.theme ?? "auto";
  choice.addEventListener("change", () => {
    if (choice.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice.value;
    try {
      localStorage.setItem(NAME, choice.value);
    } catch {
      // storage is switched off: the choice lasts as long as the page
    }
  });
}

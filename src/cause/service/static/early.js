// Before anything is drawn, so that the page does not flash in the other colours.
try {
  const kept = localStorage.getItem("cause-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch {
  // storage is switched off: the system's colours then
}

// A part of the page that did not arrive, as where a phone changes its network, would leave it blank: load it again.
addEventListener("error", ({ target }) => target instanceof HTMLScriptElement && setTimeout(() => location.reload(), 3000), true);

// Before anything is drawn, so that the page does not flash in the other colours.
try {
  const kept = localStorage.getItem("cause-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch {
  // storage is switched off: the system's colours then
}

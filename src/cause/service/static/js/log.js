// What happens, one sentence each: seen here, and read out by screen readers (role="log").

import { byId, h } from "./dom.js";
import { clock, stamp } from "./format.js";

const MOST = 60;

export function tell(sentence, kind = "") {
  const list = byId("log");
  byId("log-empty").hidden = true;
  // many uploads in a row are one line, the newest
  if (kind === "upload" && list.lastElementChild?.className === kind) list.lastElementChild.remove();
  const now = new Date();
  list.append(h("p", { class: kind }, h("time", { datetime: now.toISOString(), title: stamp(now) }, clock(now)), " ", sentence));
  while (list.children.length > MOST) list.firstElementChild.remove();
  list.scrollTop = list.scrollHeight;
}

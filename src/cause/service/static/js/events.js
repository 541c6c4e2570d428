// The events of the service for this tab: one stream for all tabs, by a shared worker where the browser has them. A tab
// that is out of sight for a while leaves the stream and comes back when it is seen again.

import { token } from "./session.js";
import { openStream } from "./stream.js";

const HIDDEN_MS = 30_000;
const ALIVE_MS = 20_000;

// `on.event(kind, data)`, `on.up()`, `on.down()`, `on.busy(why)`, `on.refused(status)`. Returns a function that ends it.
export function listen(on) {
  let leave = null;
  let timer = null;
  let ended = false;

  const begin = () => {
    if (ended || leave) return;
    leave = typeof SharedWorker === "undefined" ? openStream(token.get(), on) : joined(on);
  };
  const end = () => {
    leave?.();
    leave = null;
  };
  const seen = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(end, HIDDEN_MS);
    else begin();
  };

  document.addEventListener("visibilitychange", seen);
  addEventListener("pagehide", end);
  addEventListener("pageshow", seen);
  begin();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
    removeEventListener("pagehide", end);
    removeEventListener("pageshow", seen);
    end();
  };
}

// Joins the stream that all tabs share; returns a function that leaves it.
function joined(on) {
  const worker = new SharedWorker("/js/stream-worker.js", { type: "module", name: "cause-events" });
  const { port } = worker;
  let fallback = null;
  worker.onerror = () => (fallback ??= openStream(token.get(), on)); // a browser without module workers
  port.onmessage = ({ data }) => {
    if (data.what === "event") on.event(data.kind, data.data);
    else if (data.what === "busy") on.busy(data.why);
    else if (data.what === "refused") on.refused(data.status);
    else on[data.what]();
  };
  port.postMessage({ what: "join", secret: token.get() });
  const alive = setInterval(() => port.postMessage({ what: "alive" }), ALIVE_MS);
  return () => {
    clearInterval(alive);
    fallback?.();
    port.postMessage({ what: "leave" });
    port.close();
  };
}

// One stream of server-sent events, read with fetch, because an EventSource cannot send a token. It comes back by
// itself after a loss. Used by the page and by the worker that all tabs share.

const SILENT_MS = 40_000; // the service sends a line at least every 15 seconds
const FIRST_MS = 500;
const MOST_MS = 10_000;

// `on.event(kind, data)`, `on.up()`, `on.down()`, `on.busy(why)`, `on.refused(status)`. Returns a function that ends it.
export function openStream(secret, on) {
  let ended = false;
  let last = null;
  let wait = FIRST_MS;
  let abort = new AbortController();

  // What ended one connection: null, or how the service refused it.
  async function once() {
    abort = new AbortController();
    let timer = setTimeout(() => abort.abort(), SILENT_MS);
    try {
      const headers = { Authorization: `Bearer ${secret}`, ...(last === null ? {} : { "Last-Event-ID": last }) };
      const answer = await fetch("/v1/events", { headers, signal: abort.signal, cache: "no-store", credentials: "omit" });
      if (!answer.ok) {
        const problem = await answer.json().catch(() => ({}));
        return { status: answer.status, why: problem.detail ?? answer.statusText };
      }
      wait = FIRST_MS;
      on.up();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return null;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), SILENT_MS);
        const blocks = (text + value).split("\n\n");
        text = blocks.pop();
        for (const block of blocks) take(block);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  function take(block) {
    const fields = {};
    for (const line of block.split("\n")) {
      const at = line.indexOf(": ");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
    }
    if (fields.id !== undefined) last = fields.id;
    if (fields.event !== undefined) on.event(fields.event, JSON.parse(fields.data));
  }

  async function run() {
    while (!ended) {
      let refused = null;
      let lost = false;
      try {
        refused = await once();
        lost = refused === null;
      } catch {
        lost = true;
      }
      if (ended) return;
      if (refused && (refused.status === 401 || refused.status === 403)) return on.refused(refused.status);
      if (refused && (refused.status === 429 || refused.status === 503)) on.busy(refused.why);
      else if (refused || lost) on.down();
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(MOST_MS, 2 * wait);
    }
  }

  run();
  return () => {
    ended = true;
    abort.abort();
  };
}

// Server-sent events read with fetch, because an EventSource cannot send a token. Comes back after a loss by itself.

import { headers } from "./api.js";

const SILENT_MS = 40_000; // the service sends a line at least every 15 seconds
const FIRST_MS = 500;
const MOST_MS = 10_000;

// `on.event(kind, data)`, `on.up()`, `on.down(retryMs)`, `on.refused(status)`. Returns a function that ends it.
export function listen(on) {
  let ended = false;
  let last = null;
  let wait = FIRST_MS;
  let abort = new AbortController();

  async function once() {
    abort = new AbortController();
    let timer = setTimeout(() => abort.abort(), SILENT_MS);
    try {
      const more = last === null ? {} : { "Last-Event-ID": last };
      const answer = await fetch("/v1/events", { headers: headers(more), signal: abort.signal, cache: "no-store" });
      if (!answer.ok) {
        if (answer.status === 401 || answer.status === 403) return answer.status;
        throw new Error(String(answer.status));
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
      try {
        const refused = await once();
        if (refused !== null) {
          on.refused(refused);
          return;
        }
      } catch {
        // gone: told below
      }
      if (ended) return;
      on.down(wait);
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

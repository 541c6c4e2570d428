// One verdict on top: healthy, degraded or overdue, why, and the button that mends it.

import { api } from "./api.js";
import { away } from "./away.js";
import { byId, memo, say } from "./dom.js";
import { T } from "./texts.js";

const FULL = 0.95; // of the room for samples
const WAITS = /: repair now$/; // a problem that is said below in other words: overdue, or without a vote for long
const FEW = 4; // shards that are named one by one

// Everything that is not as it should be, the worst first: { state, text, mend } with mend "repair", "quarantine" or null.
export function reasons(status) {
  const { requests, degraded, quarantine, storage } = status;
  const found = [];
  const add = (state, text, mend = null) => found.push({ state, text, mend });
  if (requests.overdue) add("overdue", T.verdict.overdue(requests.overdue), "repair");
  if (status.problem && !WAITS.test(status.problem)) add("degraded", T.verdict.problem(status.problem), status.repair.waiting.length ? "repair" : null);
  if (degraded) {
    const silent = degraded.not_voting;
    add("degraded", silent.length > FEW ? T.verdict.silentMany(silent.length, degraded.of) : T.verdict.silent(silent, degraded.of), "repair");
  }
  if (requests.due_soon && !requests.overdue) add("degraded", T.verdict.soon(requests.due_soon), "repair");
  if (quarantine.uploads) add("degraded", T.verdict.quarantine(quarantine.uploads, quarantine.samples), "quarantine");
  if (status.clock) add("degraded", T.verdict.clock(status.clock));
  if (status.tainted_exports) add("degraded", T.verdict.exports(status.tainted_exports));
  if (storage.budget_bytes !== null && storage.used_bytes > FULL * storage.budget_bytes) add("degraded", T.verdict.full(storage.used_bytes / storage.budget_bytes));
  return found;
}

function healthy(status) {
  if (!status.samples) return T.verdict.empty;
  if (status.training) return T.verdict.training;
  if (status.requests.open && status.requests.next_deadline) return T.verdict.waiting(status.requests.open, away(status.requests.next_deadline));
  return T.verdict.healthy;
}

export function startVerdict(context) {
  const button = byId("verdict-mend");
  let mend = null;

  button.addEventListener("click", async () => {
    if (mend === "quarantine") {
      byId("quarantine-card").scrollIntoView({ block: "center" });
      return byId("quarantine").focus();
    }
    try {
      await api.repair();
    } catch (error) {
      context.failed(error, (shown) => say(byId("verdict-reason"), shown.message));
    }
  });

  const draw = memo((status, may) => {
    const found = reasons(status);
    const worst = found[0] ?? { state: "healthy", text: healthy(status), mend: null };
    byId("verdict").className = `verdict-bar ${worst.state}`;
    byId("verdict").dataset.state = worst.state;
    say(byId("verdict-state"), T.verdict.states[worst.state]);
    const busy = worst.mend === "repair" && status.training !== null;
    const rest = found.length > 1 ? ` ${found.slice(1).map((each) => each.text).join(" ")}` : "";
    say(byId("verdict-reason"), worst.text + rest + (busy ? ` ${T.verdict.repairing}` : ""));
    mend = found.find((each) => each.mend)?.mend ?? null;
    button.hidden = mend === null || (mend === "repair" && (!may || busy));
    say(button, mend === "quarantine" ? T.verdict.show : T.verdict.repair);
  });
  return ({ status }, may) => draw({ ...status, shown: healthy(status) }, may);
}

// Requests with their deadlines, and repairing now.

import { api } from "./api.js";
import { byId, h, memo, put, say, table } from "./dom.js";
import { Pages } from "./pages.js";
import { away, capital, decimal, number, plural, shardsText, stamp } from "./format.js";

const STATES = { accepted: "accepted", in_effect: "in effect, repair waits", repaired: "repaired" };
const POLICY = { now: "Repairs start by themselves, at once.", idle: "Repairs start when the machine is idle.", deadline: "Repairs start when a deadline comes near.", never: "Repairs start only when asked for." };

export function startRepairs(context) {
  const fail = (error) => say(byId("repairs-error"), error ? capital(error.message) : "");
  byId("repair-now").addEventListener("click", async () => {
    fail(null);
    try {
      const done = await api.repair();
      if (done.state !== "started") context.tell("Nothing waits for a repair.");
    } catch (error) {
      context.failed(error, fail);
    }
  });

  const pages = new Pages("/v1/requests", "id", context);
  const draw = memo((items, more) => {
    if (!items.length) return put(byId("repairs"), h("p", { class: "muted empty" }, "No erasure has been asked for."));
    put(
      byId("repairs"),
      table("Requests, newest first", [
        ["Request", (row) => h("code", { title: row.id }, row.id.slice(0, 8))],
        ["State", (row) => h("span", { class: `state ${row.state}` }, STATES[row.state])],
        ["Samples", (row) => number(row.samples), "number"],
        ["Shards", (row) => row.shards.join(", ") || "–", "wide"],
        ["To replay", (row) => number(row.rsn_planned), "number wide"],
        ["Received", (row) => h("time", { datetime: row.received }, stamp(row.received)), "wide"],
        ["When", (row) => due(row)],
      ], items),
      pages.button(more, "Older requests"),
    );
  });

  return ({ status, requests }, may) => {
    const { repair, schedule } = status;
    const training = repair.waiting.length > 0 && repair.rsn === 0; // new samples alone: nothing was forgotten
    const cost = repair.waiting.length
      ? `${capital(shardsText(repair.waiting))} ${repair.waiting.length === 1 ? "waits" : "wait"}: ${plural(repair.trainings, "training")}, ${plural(repair.samples, "sample")}${repair.seconds === null ? "" : `, about ${decimal(repair.seconds)} s`}${repair.joules === null ? "" : ` and ${decimal(repair.joules)} J`}.`
      : "No shard waits.";
    say(byId("repairs-line"), `${cost} ${training ? "New samples are trained at once; nothing waits for a repair." : POLICY[schedule.repair]}`);
    byId("repair-now").hidden = !may || repair.waiting.length === 0 || training || status.training !== null;
    // relative times belong to what is compared: they change by themselves
    draw(pages.items(requests).map((row) => ({ ...row, shown: away(row.repaired ?? row.deadline) })), pages.next(requests));
  };
}

function due(row) {
  const time = row.repaired ?? row.deadline;
  const late = row.repaired === null && Date.parse(row.deadline) < Date.now();
  return h("time", { datetime: time, title: stamp(time), class: late ? "late" : "" }, late ? `overdue since ${row.shown.replace(" ago", "")}` : row.repaired ? row.shown : `due ${row.shown}`);
}

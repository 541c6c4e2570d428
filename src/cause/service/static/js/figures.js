// The device at a glance.

import { byId, h, memo, put } from "./dom.js";
import { away, bytes, number, percent, plural } from "./format.js";

export function startFigures() {
  const draw = memo((figures) => {
    put(byId("figures"), figures.map(([title, value, note, kind]) => h("div", { class: kind ?? "" }, h("dt", {}, title), h("dd", {}, value, h("span", { class: "note" }, note)))));
  });
  return ({ status, shards, evaluations }) => {
    const { memory, requests, repair } = status;
    const newest = evaluations.items[0];
    const waiting = repair.waiting.length;
    const outdated = newest && newest.voters !== status.voting;
    const silent = status.degraded?.not_voting.length ?? 0;
    draw([
      ["Round", number(status.round), status.staged.samples ? `${number(status.staged.samples)} samples wait` : "nothing waits"],
      ["Samples held", number(status.samples), plural(shards.length, "shard")],
      ["Voting", `${number(status.voting)} of ${number(shards.length)}`, silent ? `${plural(silent, "shard")} without a vote` : waiting ? `${plural(waiting, "shard")} behind` : "all up to date", silent ? "bad" : waiting ? "warn" : ""],
      ["Memory", memory.slots === null ? number(memory.sub_models) : `${number(memory.sub_models)} of ${number(memory.slots)}`, memory.budget_bytes === null ? bytes(memory.used_bytes) : `${percent(memory.used_bytes / memory.budget_bytes)} of ${bytes(memory.budget_bytes)}`],
      ["Retrained", number(status.rsn.total), "samples so far"],
      ["Accuracy", newest ? percent(newest.accuracy) : "–", !newest ? "not evaluated" : outdated ? `round ${newest.round}, with ${plural(newest.voters, "voter")}; now ${number(status.voting)} vote` : `round ${newest.round}, with ${plural(newest.voters, "voter")}`, outdated ? "warn" : ""],
      ["Open requests", number(requests.open), requests.overdue ? `${number(requests.overdue)} overdue` : requests.next_deadline ? `due ${away(requests.next_deadline)}` : "none is due", requests.overdue ? "bad" : requests.open ? "warn" : ""],
    ]);
  };
}

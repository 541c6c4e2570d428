// The device at a glance.

import { away } from "./away.js";
import { byId, h, memo, put } from "./dom.js";
import { bytes, number, percent } from "./format.js";
import { T } from "./texts.js";

export function startFigures() {
  const draw = memo((figures) => {
    put(byId("figures"), figures.map(([title, value, note, kind]) => h("div", { class: kind ?? "" }, h("dt", {}, title), h("dd", {}, value, h("span", { class: "note" }, note)))));
  });
  const text = T.figures;
  return ({ status, shards, evaluations }) => {
    const { memory, requests, repair } = status;
    const newest = evaluations.items[0];
    const waiting = repair.waiting.length;
    const outdated = newest && newest.voters !== status.voting;
    const silent = status.degraded?.not_voting.length ?? 0;
    const expected = newest ? null : status.expected_accuracy; // without an evaluation, what the held samples say
    draw([
      [text.round, number(status.round), status.staged.samples ? text.waits(status.staged.samples) : text.noneWaits],
      [text.held, number(status.samples), text.shards(shards.length)],
      [text.voting, text.votes(status.voting, shards.length), silent ? text.silent(silent) : waiting ? text.behind(waiting) : text.upToDate, silent ? "bad" : waiting ? "warn" : ""],
      [text.memory, memory.slots === null ? number(memory.sub_models) : text.slots(memory.sub_models, memory.slots), memory.budget_bytes === null ? bytes(memory.used_bytes) : text.share(memory.used_bytes / memory.budget_bytes, memory.budget_bytes)],
      [text.retrained, number(status.rsn.total), text.soFar],
      [text.accuracy, newest ? percent(newest.accuracy) : expected ? percent(expected.accuracy) : "–", expected ? text.expected(expected.samples, expected.held, away(expected.at)) : !newest ? text.notEvaluated : outdated ? text.outdated(newest.round, newest.voters, status.voting) : text.evaluated(newest.round, newest.voters), outdated ? "warn" : ""],
      [text.open, number(requests.open), requests.overdue ? text.overdue(requests.overdue) : requests.next_deadline ? text.due(away(requests.next_deadline)) : text.noneDue, requests.overdue ? "bad" : requests.open ? "warn" : ""],
    ]);
  };
}

// Rounds, newest first.

import { h } from "./dom.js";
import { number, stamp } from "./format.js";
import { List } from "./list.js";
import { T } from "./texts.js";

export function startRounds(context) {
  const { columns } = T.rounds;
  const list = new List({
    name: "rounds", route: "/v1/rounds", size: 6, caption: T.rounds.caption, region: T.rounds.region, empty: T.rounds.empty, none: T.rounds.none,
    columns: [
      [columns.round, (row) => String(row.round), "number"],
      [columns.closed, (row) => (row.closed === null ? "–" : h("time", { datetime: row.closed }, stamp(row.closed))), "wide"],
      [columns.state, (row) => h("span", { class: `state ${row.state}` }, T.rounds.states[row.state] ?? row.state)],
      [columns.users, (row) => number(row.users), "number"],
      [columns.held, (row) => number(row.retained), "number"],
      [columns.segments, (row) => T.rounds.of(row.trained, row.segments), "number wide"],
      [columns.retrained, (row) => number(row.rsn), "number"],
    ],
  }, context.failed);
  return { load: () => list.load() };
}

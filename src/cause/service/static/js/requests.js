// Requests with their deadlines, and repairing now.

import { api } from "./api.js";
import { away, distance } from "./away.js";
import { byId, h, say } from "./dom.js";
import { capital, number, stamp } from "./format.js";
import { List, searchId } from "./list.js";
import { T } from "./texts.js";

const MANY = 3; // shards that are named one by one

export function startRequests(context) {
  const fail = (error) => say(byId("repairs-error"), error ? capital(error.message) : "");
  byId("repair-now").addEventListener("click", async () => {
    fail(null);
    try {
      const done = await api.repair();
      if (done.state !== "started") context.tell(T.requests.nothing);
    } catch (error) {
      context.failed(error, fail);
    }
  });

  const { columns } = T.requests;
  const list = new List({
    name: "repairs", route: "/v1/requests", size: 6, caption: T.requests.caption, region: T.requests.region, empty: T.requests.empty, none: T.requests.none,
    filter: { name: "state", choices: T.requests.filters }, search: { hint: T.requests.search, query: searchId }, dates: true,
    more: (row) => ({ shown: due(row), late: isLate(row) }), // relative times belong to what is compared: they change by themselves
    columns: [
      [columns.id, (row) => h("code", { title: row.id }, row.id.slice(0, 8))],
      [columns.state, (row) => h("span", { class: `state ${row.state}` }, T.requests.states[row.state])],
      [columns.samples, (row) => number(row.samples), "number wide"],
      [columns.shards, (row) => (row.shards.length > MANY ? h("span", { title: row.shards.join(", ") }, T.requests.many(row.shards.length)) : row.shards.join(", ") || "–"), "wide"],
      [columns.received, (row) => h("time", { datetime: row.received }, stamp(row.received)), "wide"],
      [columns.when, (row) => h("time", { datetime: row.repaired ?? row.deadline, title: stamp(row.repaired ?? row.deadline), class: row.late ? "late" : "" }, row.shown)],
    ],
  }, context.failed);

  const render = ({ status }, may) => {
    const { repair, schedule } = status;
    const training = repair.waiting.length > 0 && repair.rsn === 0; // new samples alone: nothing was forgotten
    const cost = repair.waiting.length ? T.requests.waits(repair) : T.requests.noneWaits;
    say(byId("repairs-line"), `${cost} ${training ? T.requests.fresh : T.requests.policies[schedule.repair]}`);
    byId("repair-now").hidden = !may || repair.waiting.length === 0 || training || status.training !== null;
    list.redraw();
  };
  return { render, load: () => list.load() };
}

const isLate = (row) => row.repaired === null && Date.parse(row.deadline) < Date.now();

function due(row) {
  if (row.repaired !== null) return away(row.repaired);
  return isLate(row) ? T.requests.overdue(distance(row.deadline)) : T.requests.due(away(row.deadline));
}

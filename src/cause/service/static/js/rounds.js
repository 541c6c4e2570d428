// Rounds, newest first.

import { api } from "./api.js";
import { byId, h, memo, put, table } from "./dom.js";
import { number } from "./format.js";

export function startRounds(context) {
  let older = [];
  let next = null;

  const draw = memo((items, more) => {
    if (!items.length) return put(byId("rounds"), h("p", { class: "muted empty" }, "No round has been closed yet."));
    put(
      byId("rounds"),
      table("Rounds, newest first", [
        ["Round", (row) => String(row.round), "number"],
        ["State", (row) => h("span", { class: `state ${row.state}` }, row.state)],
        ["Users", (row) => number(row.users), "number"],
        ["Arrived", (row) => number(row.samples), "number wide"],
        ["Held", (row) => number(row.retained), "number"],
        ["Segments", (row) => `${number(row.trained)} of ${number(row.segments)}`, "number wide"],
        ["Retrained", (row) => number(row.rsn), "number"],
      ], items),
      more ? h("button", { type: "button", "data-focus": "older rounds", onclick: () => older_(more) }, "Older rounds") : null,
    );
  });

  async function older_(before) {
    try {
      const page = await api.get(`/v1/rounds?limit=20&before=${before}`);
      older = [...older, ...page.items];
      next = page.next;
      context.redraw();
    } catch (error) {
      context.failed(error);
    }
  }

  return ({ rounds }) => {
    const shown = new Set(rounds.items.map((each) => each.round));
    const rest = older.filter((each) => !shown.has(each.round));
    draw([...rounds.items, ...rest], rest.length ? next : rounds.next);
  };
}

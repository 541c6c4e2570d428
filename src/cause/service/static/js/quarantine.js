// Uploads that no training can bear: who may know sees whose they are, operators can drop them.

import { api } from "./api.js";
import { byId, h, isDouble, memo, once, put, say, table } from "./dom.js";
import { capital, number } from "./format.js";
import { T } from "./texts.js";

export function startQuarantine(context) {
  const fail = (error) => say(byId("quarantine-error"), error ? capital(error.message) : "");

  const button = (row) => {
    const made = h("button", { type: "button", class: "danger", "aria-label": T.quarantine.dropOne(row.upload) }, T.quarantine.drop);
    let sure = false;
    made.addEventListener("click", once(async (event) => {
      if (isDouble(event)) return;
      if (!sure) {
        sure = true;
        return say(made, T.quarantine.sure);
      }
      fail(null);
      try {
        await api.drop(row.upload);
      } catch (error) {
        context.failed(error, fail);
      }
    }));
    return made;
  };

  const { columns } = T.quarantine;
  const draw = memo(({ items, uploads, next, may }) => {
    const shown = [
      [columns.upload, (row) => number(row.upload), "number"],
      [columns.user, (row) => row.user ?? "–"],
      [columns.round, (row) => number(row.round), "number"],
      [columns.shard, (row) => number(row.shard), "number wide"],
      [columns.samples, (row) => number(row.samples), "number"],
      [columns.verdict, (row) => row.verdict, "wide"],
    ];
    if (may) shown.push([columns.action, button]);
    const first = next === null ? [] : [h("p", { class: "muted" }, T.quarantine.first(new Set(items.map((row) => row.upload)).size, uploads))];
    put(byId("quarantine"), table(T.quarantine.caption, shown, items), ...first);
  });

  return ({ status }, may) => {
    byId("quarantine-card").hidden = !status.quarantine.items.length;
    if (status.quarantine.items.length) draw({ ...status.quarantine, may });
  };
}

// Uploads that no training can bear: who may know sees whose they are, operators can drop them.

import { api } from "./api.js";
import { byId, h, memo, put, say, table } from "./dom.js";
import { capital, number } from "./format.js";

export function startQuarantine(context) {
  const fail = (error) => say(byId("quarantine-error"), error ? capital(error.message) : "");

  const button = (row) => {
    const made = h("button", { type: "button", class: "danger", "aria-label": `Drop upload ${row.upload}` }, "Drop");
    made.addEventListener("click", async () => {
      if (made.textContent === "Drop") return void (made.textContent = "Destroy these samples?");
      fail(null);
      try {
        await api.drop(row.upload);
      } catch (error) {
        context.failed(error, fail);
      }
    });
    return made;
  };

  const draw = memo(({ items, may }) => {
    const columns = [
      ["Upload", (row) => number(row.upload), "number"],
      ["User", (row) => row.user ?? "–"],
      ["Round", (row) => number(row.round), "number"],
      ["Shard", (row) => number(row.shard), "number wide"],
      ["Samples", (row) => number(row.samples), "number"],
      ["Alone it ends with", (row) => row.verdict, "wide"],
    ];
    if (may) columns.push(["", button]);
    put(byId("quarantine"), table("Uploads in quarantine", columns, items));
  });

  return ({ status }, may) => {
    byId("quarantine-card").hidden = !status.quarantine.items.length;
    if (status.quarantine.items.length) draw({ items: status.quarantine.items, may });
  };
}

// The next round: what waits for it, uploads, and closing it.

import { api } from "./api.js";
import { byId, say } from "./dom.js";
import { bytes, capital, plural } from "./format.js";
import { isPicture, typeOf } from "./files.js";

export function startArrivals(context) {
  const file = byId("upload-file");
  const fail = (error) => say(byId("upload-error"), error ? capital(error.message) : "");

  file.addEventListener("change", () => {
    byId("upload-label-row").hidden = !(file.files[0] && isPicture(file.files[0]));
  });

  byId("upload-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    fail(null);
    const given = file.files[0];
    try {
      const label = isPicture(given) ? byId("upload-label").value : null;
      const user = byId("upload-user").value;
      const done = user ? await api.upload(user, given, typeOf(given), label) : await api.uploadAll(given, typeOf(given));
      say(byId("upload-told"), `${plural(done.samples, "sample")} uploaded, sealed and waiting.`);
      file.value = "";
      byId("upload-label-row").hidden = true;
    } catch (error) {
      context.failed(error, fail);
    }
  });

  const button = byId("close-round");
  let expiring = null; // what closing the next round deletes
  let asking = false; // the first press only says so

  const label = () => say(button, asking ? `Close it and delete ${whose(expiring)}` : "Close the round");
  button.addEventListener("blur", () => {
    asking = false;
    label();
  });
  button.addEventListener("click", async () => {
    fail(null);
    if (expiring?.samples && !asking) {
      asking = true;
      return label();
    }
    asking = false;
    label();
    try {
      await api.closeRound();
      say(byId("upload-told"), "");
    } catch (error) {
      context.failed(error, fail);
    }
  });

  return ({ status }) => {
    const { staged, schedule, retention } = status;
    if (JSON.stringify(retention.next_round) !== JSON.stringify(expiring)) asking = false; // it would delete something else now
    expiring = retention.next_round;
    label();
    button.disabled = staged.samples === 0; // an empty round would make every sample a round older
    say(byId("retention"), retentionText(retention));
    const waits = staged.samples
      ? `${plural(staged.samples, "sample")} of ${plural(staged.users, "user")} in ${plural(staged.uploads, "upload")} (${bytes(staged.bytes)}) wait for round ${status.round + 1}.`
      : `Nothing waits for round ${status.round + 1}.`;
    const rules = [
      schedule.close_every_s === null ? null : `every ${plural(Math.round(schedule.close_every_s), "second")}`,
      schedule.close_samples === null ? null : `at ${plural(schedule.close_samples, "sample")}`,
    ].filter(Boolean);
    say(byId("staged"), rules.length ? `${waits} It closes by itself ${rules.join(" or ")}.` : waits);
  };
}

const whose = (each) =>
  `${plural(each.samples, "sample")} of ${plural(each.users, "user")}${each.rounds.length ? ` (${each.rounds.length === 1 ? "round" : "rounds"} ${each.rounds.join(", ")})` : ""}`;

function retentionText({ retain, next_round: soon, next }) {
  if (retain === null) return "";
  const lines = [`Samples are kept for ${retain}.`];
  lines.push(soon.samples ? `Closing the next round deletes ${whose(soon)}.` : "Closing the next round deletes nothing.");
  if (next) lines.push(`Next to expire, from ${next.at.slice(0, 16).replace("T", " ")} UTC on: ${whose(next)}.`);
  return lines.join(" ");
}

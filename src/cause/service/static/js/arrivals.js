// The next round: what waits for it, uploads of one file or many, and closing it.

import { Attempts, api } from "./api.js";
import { byId, isDouble, once, say } from "./dom.js";
import { capital, stamp } from "./format.js";
import { isPicture, typeOf } from "./files.js";
import { T } from "./texts.js";

export function startArrivals(context) {
  const file = byId("upload-file");
  const fail = (error) => say(byId("upload-error"), error ? capital(error.message) : "");

  const uploads = new Attempts();
  const rounds = new Attempts();
  let round = null; // the one that is closed next

  const chosen = () => {
    byId("upload-label-row").hidden = ![...file.files].some(isPicture);
  };
  file.addEventListener("change", () => {
    uploads.drop();
    chosen();
  });

  byId("upload-form").addEventListener("submit", once(async () => {
    fail(null);
    const files = [...file.files];
    const user = byId("upload-user").value;
    let samples = 0;
    for (const [at, each] of files.entries()) {
      try {
        if (files.length > 1) say(byId("upload-message"), T.arrivals.uploading(at + 1, files.length, each.name));
        const label = isPicture(each) ? byId("upload-label").value : null;
        const type = typeOf(each);
        const done = await uploads.send(JSON.stringify([at, user, label]), (key) =>
          user ? api.upload(user, each, type, label, key) : api.uploadAll(each, type, key));
        samples += done.samples;
      } catch (error) {
        say(byId("upload-message"), "");
        // nothing of the files after it was sent
        const show = files.length > 1 ? () => say(byId("upload-error"), T.arrivals.stopped(each.name, error.message, at, files.length)) : fail;
        return context.failed(error, show);
      }
    }
    say(byId("upload-message"), T.arrivals.uploaded(samples, files.length));
    file.value = "";
    chosen();
  }));

  const button = byId("close-round");
  let expiring = null; // what closing the next round deletes
  let asking = false; // the first press only says so

  const label = () => say(button, asking ? T.arrivals.closeAndDelete(expiring) : T.arrivals.close);
  button.addEventListener("blur", () => {
    asking = false;
    label();
  });
  button.addEventListener("click", once(async (event) => {
    if (isDouble(event)) return;
    fail(null);
    if (expiring?.samples && !asking) {
      asking = true;
      return label();
    }
    asking = false;
    label();
    try {
      await rounds.send(String(round), (key) => api.closeRound(key));
      say(byId("upload-message"), "");
    } catch (error) {
      context.failed(error, fail);
    }
  }));

  return ({ status }) => {
    const { staged, schedule, retention } = status;
    if (JSON.stringify(retention.next_round) !== JSON.stringify(expiring)) asking = false; // it would delete something else now
    expiring = retention.next_round;
    round = status.round + 1;
    label();
    button.disabled = staged.samples === 0; // an empty round would make every sample a round older
    say(byId("retention"), retentionText(retention));
    const waits = staged.samples ? T.arrivals.waits(staged, status.round + 1) : T.arrivals.nothing(status.round + 1);
    const rules = [
      schedule.close_every_s === null ? null : T.arrivals.every(Math.round(schedule.close_every_s)),
      schedule.close_samples === null ? null : T.arrivals.at(schedule.close_samples),
    ].filter(Boolean);
    say(byId("staged"), rules.length ? waits + T.arrivals.closes(rules) : waits);
  };
}

function retentionText({ retain, next_round: soon, next }) {
  if (retain === null) return "";
  return [T.arrivals.kept(retain), T.arrivals.deletes(soon), next ? T.arrivals.expires(stamp(next.at), next) : null].filter(Boolean).join(" ");
}

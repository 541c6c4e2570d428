// One sentence for each event.

import { capital, number, percent, plural, shardsText } from "./format.js";

const of = ([shard, round]) => `shard ${shard}, round ${round}`;

export const SENTENCES = {
  "upload.staged": (e) => `${plural(e.samples, "sample")} arrived; ${number(e.staged)} wait for the next round.`,
  "round.closed": (e) => `Round ${e.round} is closed: ${plural(e.samples, "sample")} of ${plural(e.users, "user")}.`,
  "training.started": (e) => `${e.what === "repair" ? "Replay" : "Training"} of ${shardsText(e.shards)} begins.`,
  "upload.quarantined": (e) => `${capital(of(e.segment))}: ${plural(e.uploads, "upload")} fail alone and are in quarantine.`,
  "segment.trained": (e) =>
    e.retrained ? `${capital(of(e.segment))} was trained again on ${plural(e.retrained, "sample")}.` : `${capital(of(e.segment))} was trained.`,
  "sub_model.dropped": (e) =>
    e.why === "evicted" ? `The sub-model of ${of(e.segment)} made room.` : e.why === "damaged" ? `The sub-model of ${of(e.segment)} was damaged and is dropped.` : null,
  "training.finished": (e) =>
    e.waiting.length ? `Training stopped; ${shardsText(e.waiting)} still ${e.waiting.length === 1 ? "waits" : "wait"}.` : e.what === "repair" ? `The replay is done: ${plural(e.rsn, "sample")} trained again.` : "All shards are up to date.",
  "request.repaired": (e) => `Request ${e.request.slice(0, 8)} is repaired and its receipt is signed.`,
  "evaluation.made": (e) => `Accuracy is ${percent(e.accuracy)} on ${plural(e.samples, "sample")}.`,
};

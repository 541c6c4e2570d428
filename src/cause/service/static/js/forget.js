// The picture of a forget, step by step: samples vanish, tainted sub-models go, the shard falls back, replay rebuilds.

import { byId, h, put } from "./dom.js";
import { T } from "./texts.js";

export class Story {
  constructor() {
    this.step = null;
    this.notes = ["", "", "", "", ""];
    this.replayed = 0;
    this.draw();
  }

  // What a status says of shards that wait from before this page was opened.
  resume(waiting, deadline) {
    if (this.step !== null || waiting.length === 0) return;
    this.notes = [T.story.before, T.story.before, T.story.shards(waiting), deadline, ""];
    this.at(3);
  }

  at(step, note) {
    this.step = step;
    if (note !== undefined) this.notes[step] = note;
    this.draw();
  }

  deleted(samples) {
    this.notes = ["", "", "", "", ""];
    this.replayed = 0;
    this.at(0, T.story.lost(samples));
  }

  destroyed(count) {
    this.at(1, T.story.destroyed(count));
  }

  fellBack(shards, picture) {
    const texts = shards.map((shard) => {
      const found = picture.shards.find((each) => each.shard === shard);
      if (!found) return T.story.empty(shard);
      return found.head === null ? T.story.pauses(shard) : T.story.votes(shard, found.head[1]);
    });
    this.at(2, T.story.fallen(texts));
  }

  // Of an additive device: nothing is replayed.
  subtracted(shards, picture) {
    this.at(2, T.story.fallen(shards.map((shard) => (picture.shards.some((each) => each.shard === shard) ? T.story.without(shard) : T.story.empty(shard)))));
  }

  waits(planned) {
    this.at(3, T.story.toReplay(planned));
  }

  replaying(samples) {
    this.replayed += samples;
    this.at(3, T.story.again(this.replayed));
  }

  repaired() {
    this.at(5);
  }

  signed(number) {
    this.notes[4] = T.story.receipt(number);
    this.draw();
  }

  draw() {
    byId("story").hidden = this.step === null; // it is shown once there is a step
    const items = T.story.steps.map((title, index) => {
      const state = this.step === null ? "idle" : index < this.step ? "done" : index === this.step ? "now" : "next";
      return h(
        "li",
        { class: state, "aria-current": state === "now" ? "step" : null },
        h("span", { class: "mark", "aria-hidden": "true" }, state === "done" ? "✓" : String(index + 1)),
        h("span", { class: "what" }, title, h("span", { class: "step-note" }, this.notes[index] || (state === "done" ? T.story.done : "\u00a0"))),
      );
    });
    put(byId("story"), items);
  }
}

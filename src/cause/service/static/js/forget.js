// The picture of a forget, step by step: samples vanish, tainted sub-models go, the shard falls back, replay rebuilds.

import { byId, h, put } from "./dom.js";
import { capital, listed, number, plural, shardsText } from "./format.js";

const STEPS = ["Samples deleted", "Tainted sub-models destroyed", "Fall back to the clean", "Replay", "Repaired, receipt signed"];

export class Story {
  constructor() {
    this.idle();
  }

  idle() {
    this.step = null;
    this.told = ["", "", "", "", ""];
    this.replayed = 0;
    this.draw();
  }

  // What a status says of shards that wait from before this page was opened.
  resume(waiting, deadline) {
    if (this.step !== null || waiting.length === 0) return;
    this.told = ["before", "before", capital(shardsText(waiting)), deadline, ""];
    this.at(3);
  }

  at(step, told) {
    this.step = step;
    if (told !== undefined) this.told[step] = told;
    this.draw();
  }

  deleted(samples) {
    this.told = ["", "", "", "", ""];
    this.replayed = 0;
    this.at(0, `−${number(samples)}`);
  }

  destroyed(count) {
    this.at(1, count ? plural(count, "sub-model") : "none was tainted");
  }

  fellBack(shards, picture) {
    const texts = shards.map((shard) => {
      const found = picture.shards.find((each) => each.shard === shard);
      if (!found) return `shard ${shard} is empty`;
      return found.head === null ? `shard ${shard} pauses` : `shard ${shard} votes with round ${found.head[1]}`;
    });
    this.at(2, texts.length ? capital(listed(texts)) : "no shard is touched");
  }

  waits(planned) {
    this.at(3, `${plural(planned, "sample")} to replay`);
  }

  replaying(samples) {
    this.replayed += samples;
    this.at(3, `${plural(this.replayed, "sample")} trained again`);
  }

  repaired() {
    this.at(5);
  }

  signed(number) {
    this.told[4] = `receipt ${number}`;
    this.draw();
  }

  draw() {
    const items = STEPS.map((title, index) => {
      const state = this.step === null ? "idle" : index < this.step ? "done" : index === this.step ? "now" : "next";
      return h(
        "li",
        { class: state, "aria-current": state === "now" ? "step" : null },
        h("span", { class: "mark", "aria-hidden": "true" }, state === "done" ? "✓" : String(index + 1)),
        h("span", { class: "what" }, title, h("span", { class: "told" }, this.told[index] || (state === "done" ? "done" : "\u00a0"))),
      );
    });
    put(byId("story"), items);
  }
}

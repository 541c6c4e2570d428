// Events are shown one after the other, each long enough to be seen; after the last one the picture is set right by
// what the service says, not more often than makes sense. When too many wait they are not shown one by one.

const MANY = 60;
const REST_MS = 250;
const nap = (ms) => new Promise((done) => setTimeout(done, ms));

export class Timeline {
  // `play(kind, data, hurried)` returns how many milliseconds the event is to stay; `settle()` follows the last.
  constructor(play, settle) {
    this.play = play;
    this.settle = settle;
    this.waiting = [];
    this.running = false;
  }

  push(kind, data) {
    this.waiting.push([kind, data]);
    if (!this.running) this.run();
  }

  async run() {
    this.running = true;
    try {
      for (;;) {
        while (this.waiting.length) {
          const hurried = this.waiting.length > MANY || document.hidden;
          const [kind, data] = this.waiting.shift();
          const stay = await this.play(kind, data, hurried);
          if (stay && !hurried) await nap(stay);
        }
        await this.settle();
        await nap(REST_MS);
        if (!this.waiting.length) break;
      }
    } finally {
      this.running = false;
    }
  }
}

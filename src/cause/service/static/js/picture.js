// The lineages as they are drawn: a snapshot, and what events change in it until the next one.

export const name = (segment) => segment.join(".");
const upTo = (a, b) => a[1] < b[1] || (a[1] === b[1] && a[2] <= b[2]);

export class Picture {
  constructor() {
    this.shards = [];
    this.training = null;
    this.additive = false; // whether a forget subtracts and replays nothing
  }

  // What the service says; segments under way keep how far they are.
  take(shards, training) {
    const known = new Map(this.all().map((each) => [each.name, each]));
    this.shards = shards.map((shard) => ({
      shard: shard.shard,
      active: shard.active,
      head: shard.head,
      since: shard.since,
      segments: shard.segments.map((each) => ({
        name: name(each.segment),
        segment: each.segment,
        samples: each.samples,
        trained: each.trained,
        stored: each.stored,
        share: known.get(name(each.segment))?.share ?? 0,
        lost: 0,
        goes: false,
      })),
    }));
    if (training) this.epoch(training);
    for (const shard of this.shards) for (const each of shard.segments) if (!this.waits(shard, each)) each.share = 0;
  }

  all() {
    return this.shards.flatMap((shard) => shard.segments);
  }

  find(segment) {
    const shard = this.shards.find((each) => each.shard === segment[0]);
    return [shard, shard?.segments.find((each) => each.name === name(segment))];
  }

  // Whether a segment is after what its shard votes with.
  waits(shard, each) {
    return shard.head === null || !upTo(each.segment, shard.head);
  }

  behind(shard) {
    return shard.segments.filter((each) => this.waits(shard, each));
  }

  get sliced() {
    return this.all().some((each) => each.segment[2] > 0);
  }

  // What a forget in this segment would do: from where it restarts and what it replays.
  cost(shard, each) {
    if (this.additive) return { restart: null, replay: [], rsn: 0 };
    const at = shard.segments.indexOf(each);
    const before = shard.segments.slice(0, at).filter((other) => other.stored && !this.waits(shard, other));
    const restart = before.at(-1) ?? null;
    const replay = shard.segments.slice(restart === null ? 0 : shard.segments.indexOf(restart) + 1);
    return { restart, replay, rsn: replay.filter((other) => other.trained).reduce((sum, other) => sum + other.samples, 0) };
  }

  // The samples go: what the service holds now of the segments that are drawn.
  lose(shards) {
    const now = new Map(shards.flatMap((shard) => shard.segments.map((each) => [name(each.segment), each.samples])));
    for (const each of this.all()) {
      const left = now.get(each.name) ?? 0;
      if (left < each.samples) [each.lost, each.samples] = [each.samples - left, left];
    }
  }

  // The tainted sub-models go.
  taint(dropped) {
    for (const key of dropped) {
      const [, each] = this.find(key);
      if (each) each.goes = true;
    }
  }

  // The shards fall back to the newest clean sub-model; what is empty goes.
  fallBack(shards) {
    for (const shard of this.shards.filter((each) => shards.includes(each.shard))) {
      for (const each of shard.segments) {
        if (each.goes) [each.stored, each.goes] = [false, false];
        [each.lost, each.share] = [0, 0];
      }
      const clean = shard.segments.filter((each) => each.stored && !this.waits(shard, each));
      shard.head = clean.at(-1)?.segment ?? null;
      shard.segments = shard.segments.filter((each) => each.samples > 0);
    }
    this.shards = this.shards.filter((each) => each.segments.length > 0);
  }

  epoch(step) {
    this.training = step;
    const [, each] = this.find(step.segment);
    if (each) each.share = step.epochs ? step.epoch / step.epochs : 0;
  }

  trained(segment) {
    const [, each] = this.find(segment);
    if (each) [each.trained, each.share] = [true, 1];
  }

  admitted(segment) {
    const [shard, each] = this.find(segment);
    if (!each) return;
    each.stored = true;
    shard.head = segment;
    each.share = 0;
  }

  dropped(segment) {
    const [, each] = this.find(segment);
    if (each) each.stored = false;
  }
}

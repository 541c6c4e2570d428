// What both pictures of the lineages share: a pane that scrolls, and segments that can be chosen, by pointer and by
// arrow keys. A picture of its own kind has the methods `draw` and `follow`, which keeps names in sight when it scrolls.

import { byId, h, say, svg } from "./dom.js";
import { T } from "./texts.js";

export class SegmentView {
  constructor(picture, kind = "") {
    this.picture = picture;
    this.plan = null;
    this.chosen = null;
    this.parts = new Map(); // by name: { group, where: [row, shard, segment] }
    this.rows = new Map(); // by shard
    this.back = svg("g", {});
    this.front = svg("g", {});
    this.root = svg("svg", { class: `picture ${kind}`.trim(), role: "group", "aria-label": T.lineages.keys }, this.back, this.front);
    this.place = h("div", { class: kind ? `pane ${kind}-pane` : "pane" }, this.root);
    this.place.addEventListener("scroll", () => this.follow(), { passive: true });
    this.root.addEventListener("keydown", (event) => this.walk(event));
  }

  // Gives the picture its size in a pane of this width; one that is wider begins with the newest rounds.
  resize(wide, width, height) {
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.root.setAttribute(name, value);
    if (width > wide && !this.scrolled) {
      this.scrolled = true;
      requestAnimationFrame(() => (this.place.scrollLeft = width));
    }
  }

  // To be called for each new group: it can be chosen.
  selectable(part, each) {
    const choose = () => {
      this.chosen = each.name;
      this.tabStops();
      this.detail();
    };
    part.group.addEventListener("click", choose);
    part.group.addEventListener("focus", choose);
    this.parts.set(each.name, part);
    return part;
  }

  // What every group tells of its segment.
  describe(part, shard, each, row, extra) {
    const waits = this.picture.waits(shard, each);
    const kinds = ["segment", waits && "waits", each.goes && "tainted", each.lost && "losing", each.share > 0 && "training", ...this.marks(each), ...extra];
    part.group.setAttribute("class", kinds.filter(Boolean).join(" "));
    part.where = [row, shard, each];
    Object.assign(part.group.dataset, { samples: each.samples, stored: each.stored, share: each.share.toFixed(2) });
    const label = this.sentence(shard, each);
    if (part.label !== label) part.group.setAttribute("aria-label", (part.label = label));
  }

  // What a plan that is being looked at says of a segment.
  marks(each) {
    if (!this.plan) return [];
    const same = (key) => key !== null && key.join(".") === each.name;
    const found = [];
    for (const shard of this.plan.shards) {
      if (shard.replay.some(same) || (same(shard.first) && !this.picture.additive)) found.push("would-replay");
      if (same(shard.restart)) found.push("would-restart");
    }
    if (this.plan.destroyed.some(same)) found.push("would-go");
    return found;
  }

  sentence(shard, each) {
    const { picture } = this;
    const { restart, replay, rsn } = picture.cost(shard, each);
    const head = shard.head !== null && shard.head.join(".") === each.name;
    return T.lineages.sentence({
      shard: shard.shard, segment: each.segment, sliced: picture.sliced, count: each.samples, waits: picture.waits(shard, each), trained: each.trained,
      head, stored: each.stored, restart: restart?.segment ?? null, replay: replay.length, rsn, additive: picture.additive,
    });
  }

  detail() {
    const part = this.parts.get(this.chosen);
    for (const [name, each] of this.parts) each.group.classList.toggle("chosen", name === this.chosen);
    say(byId("lineage-detail"), part?.where ? this.sentence(part.where[1], part.where[2]) : T.lineages.choose);
  }

  tabStops() {
    if (!this.parts.has(this.chosen)) this.chosen = null;
    const stop = this.chosen ?? this.picture.shards[0]?.segments[0]?.name;
    for (const [name, part] of this.parts) part.group.setAttribute("tabindex", name === stop ? 0 : -1);
  }

  walk(event) {
    const part = this.parts.get(event.target.dataset?.segment);
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!part || !move) return;
    event.preventDefault();
    const { shards } = this.picture;
    const [row, shard, each] = part.where;
    const next = shards[Math.min(shards.length - 1, Math.max(0, row + move[0]))];
    const at = next.segments[next === shard ? shard.segments.indexOf(each) + move[1] : this.closest(next.segments, this.x(each.segment))];
    if (at) this.parts.get(at.name).group.focus();
  }

  closest(segments, x) {
    const far = segments.map((each) => Math.abs(this.x(each.segment) - x));
    return far.indexOf(Math.min(...far));
  }

  forgetOthers(seen) {
    for (const [name, part] of this.parts) {
      if (seen.has(name)) continue;
      part.group.remove();
      this.parts.delete(name);
    }
  }

  // Rounds, or their slices, as columns.
  findColumns() {
    const columns = new Map();
    for (const each of this.picture.all()) columns.set(`${each.segment[1]}.${each.segment[2]}`, each.segment);
    this.columns = [...columns.values()].sort((a, b) => a[1] - b[1] || a[2] - b[2]);
  }

  x(segment) {
    return this.at.get(`${segment[1]}.${segment[2]}`);
  }
}

export function box(rect, x, y, width, height) {
  for (const [name, value] of Object.entries({ x, y, width: Math.max(0, width), height: Math.max(0, height) })) rect.setAttribute(name, value);
}

// The lineages as a picture: a row for each shard, a column for each round. Elements are kept from one drawing to the
// next, so that what changes moves (dashboard.css says how, and not at all where motion is not wanted).

import { say, svg } from "./dom.js";
import { number } from "./format.js";
import { SegmentView, box } from "./segment-view.js";
import { T } from "./texts.js";

const BAR = 46;
const TOP = 20;
const NARROW = 640;
const LEFT = 156;
const LEAST = 30; // of a column

export class Lineages extends SegmentView {
  constructor(picture) {
    super(picture);
    this.heads = new Map();
  }

  draw(wide) {
    this.measure(wide);
    const seen = new Set();
    this.picture.shards.forEach((shard, row) => {
      this.drawRow(shard, row);
      for (const each of shard.segments) {
        seen.add(each.name);
        this.drawSegment(shard, each, row);
      }
      this.drawHead(shard, row);
    });
    this.forgetOthers(seen);
    this.follow();
    this.drawColumns();
    this.tabStops();
    this.detail();
  }

  measure(wide) {
    const { picture } = this;
    this.findColumns();
    // without room beside the rows their names are above them, and stay in sight when the picture is scrolled
    this.narrow = wide < NARROW || LEFT + this.columns.length * LEAST > wide;
    this.left = this.narrow ? 4 : LEFT;
    this.high = (this.narrow ? 18 : 0) + 24 + BAR + 30;
    this.step = Math.min(this.narrow ? 84 : 170, Math.max(LEAST, (wide - this.left - 8) / this.columns.length));
    this.at = new Map(this.columns.map((key, index) => [`${key[1]}.${key[2]}`, this.left + (index + 0.5) * this.step]));
    this.most = Math.max(1, ...picture.all().map((each) => each.samples + each.lost));
    const width = Math.max(wide, this.left + this.columns.length * this.step + 8);
    const height = TOP + picture.shards.length * this.high;
    this.resize(wide, width, height);
  }

  follow() {
    const moved = this.place.scrollLeft;
    for (const row of this.rows.values()) for (const text of [row.title, row.note]) text.style.transform = `translate(${moved}px, 0)`;
  }

  base(row) {
    return TOP + row * this.high + this.high - 28;
  }

  drawColumns() {
    this.columnTexts?.remove();
    this.columnTexts = svg("g", { class: "columns", "aria-hidden": "true" });
    const sliced = this.picture.sliced;
    for (const key of this.columns) {
      const text = sliced ? `${key[1]}.${key[2]}` : this.step < 58 ? String(key[1]) : T.lineages.round(key[1]);
      this.columnTexts.append(svg("text", { x: this.x(key), y: 13 }, text));
    }
    this.back.append(this.columnTexts);
  }

  drawRow(shard, row) {
    let part = this.rows.get(shard.shard);
    if (!part) {
      part = { group: svg("g", { "aria-hidden": "true" }), title: svg("text", { class: "shard" }), note: svg("text", { class: "note" }), line: svg("line", { class: "line" }), late: svg("line", { class: "line late" }), rule: svg("line", { class: "rule" }) };
      part.group.append(part.rule, part.line, part.late, part.title, part.note);
      this.back.append(part.group);
      this.rows.set(shard.shard, part);
    }
    const top = TOP + row * this.high;
    const y = this.base(row) + 13;
    const behind = this.picture.behind(shard).length;
    const samples = shard.segments.reduce((sum, each) => sum + each.samples, 0);
    part.title.textContent = T.lineages.shard(shard.shard, shard.active);
    part.note.textContent = T.lineages.row(samples, shard.head === null ? T.lineages.silent : behind ? T.lineages.behind(behind) : T.lineages.upToDate);
    part.group.setAttribute("class", behind ? "row behind" : "row");
    const place = this.narrow ? [[4, top + 17], [84, top + 17]] : [[4, y - 26], [4, y - 9]];
    [part.title, part.note].forEach((text, index) => ["x", "y"].forEach((axis, at) => text.setAttribute(axis, place[index][at])));
    const first = this.x(shard.segments[0].segment);
    const last = this.x(shard.segments.at(-1).segment);
    const head = shard.head === null ? first : this.x(shard.head) ?? first;
    line(part.rule, 0, top + 3, this.root.getAttribute("width"), top + 3);
    line(part.line, first, y, head, y);
    line(part.late, head, y, last, y);
  }

  drawSegment(shard, each, row) {
    const part = this.parts.get(each.name) ?? this.makeSegment(each);
    const base = this.base(row);
    const high = Math.max(each.samples ? 4 : 0, (BAR * each.samples) / this.most);
    const ghost = (BAR * (each.samples + each.lost)) / this.most - high;
    const wide = Math.min(this.step - 8, this.narrow ? 44 : 76);
    this.describe(part, shard, each, row, []);
    part.group.style.transform = `translate(${this.x(each.segment)}px, ${base}px)`;
    box(part.hit, -this.step / 2 + 1, -BAR - 16, this.step - 2, BAR + 19);
    box(part.replay, -wide / 2 - 3, -BAR - 16, wide + 6, BAR + 19); // the number above the bar is inside the frame
    box(part.bar, -wide / 2, -high, wide, high);
    box(part.fill, -wide / 2, -high * each.share, wide, high * each.share);
    box(part.ghost, -wide / 2, -high - ghost, wide, ghost);
    part.count.setAttribute("y", -high - ghost - 4);
    say(part.count, each.lost ? T.story.lost(each.lost) : this.step >= 40 ? number(each.samples) : "");
    part.dot.setAttribute("class", each.stored ? "dot" : "tick");
    part.dot.setAttribute("r", each.stored ? 5 : 2);
  }

  makeSegment(each) {
    const part = {
      hit: svg("rect", { class: "hit", rx: 4 }),
      replay: svg("rect", { class: "replayed", rx: 3 }),
      bar: svg("rect", { class: "bar", rx: 1.5 }),
      fill: svg("rect", { class: "fill", rx: 1.5 }),
      ghost: svg("rect", { class: "ghost", rx: 1.5 }),
      count: svg("text", { class: "count", y: -4 }),
      dot: svg("circle", { cy: 13 }),
      cross: svg("path", { class: "cross", d: "M-5 8l10 10M5 8l-10 10" }),
    };
    part.group = svg("g", { role: "button", tabindex: -1, "data-segment": each.name }, Object.values(part));
    this.front.append(part.group);
    return this.selectable(part, each);
  }

  drawHead(shard, row) {
    let ring = this.heads.get(shard.shard);
    if (!ring) {
      ring = svg("circle", { class: "ring", r: 9, "aria-hidden": "true", "data-head": shard.shard });
      this.front.append(ring);
      this.heads.set(shard.shard, ring);
    }
    const first = shard.segments[0].segment;
    const place = shard.head === null ? this.x(first) - this.step / 2 : this.x(shard.head) ?? this.x(first);
    ring.setAttribute("class", shard.head === null ? "ring nobody" : "ring");
    ring.style.transform = `translate(${place}px, ${this.base(row) + 13}px)`;
    ring.dataset.at = shard.head === null ? "" : shard.head.join(".");
  }

  forgetOthers(seen) {
    super.forgetOthers(seen);
    const shards = new Set(this.picture.shards.map((each) => each.shard));
    for (const map of [this.heads, this.rows]) {
      for (const [shard, part] of map) {
        if (shards.has(shard)) continue;
        (part.group ?? part).remove();
        map.delete(shard);
      }
    }
  }
}

function line(element, x1, y1, x2, y2) {
  for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) element.setAttribute(name, value);
}

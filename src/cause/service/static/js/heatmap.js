// The lineages of many shards as a compact map: a row for each shard, a cell for each segment, its colour the stronger
// the more samples it has. A dot is a stored sub-model, a ring the head.

import { svg } from "./dom.js";
import { SegmentView, box } from "./segment-view.js";
import { T } from "./texts.js";

const ROW = 18;
const TOP = 18;
const LEFT = 164;
const NARROW_LEFT = 40;
const NARROW = 640;
const LEAST = 15; // of a column
const MOST = 46;
const SHADES = 5;

export class HeatMap extends SegmentView {
  constructor(picture) {
    super(picture, "map");
    this.back.setAttribute("aria-hidden", "true");
    this.heads = svg("g", { "aria-hidden": "true" });
    this.corner = svg("rect", { class: "row-back", x: 0, y: 0, height: TOP }); // numbers of rounds are not seen behind the names
    this.names = svg("g", { "aria-hidden": "true" }, this.corner);
    this.root.append(this.heads, this.names);
  }

  draw(wide) {
    this.measure(wide);
    const seen = new Set();
    this.picture.shards.forEach((shard, row) => {
      this.drawRow(shard, row);
      for (const each of shard.segments) {
        seen.add(each.name);
        this.drawCell(shard, each, row);
      }
    });
    this.forgetOthers(seen);
    const shards = new Set(this.picture.shards.map((each) => each.shard));
    for (const [shard, part] of this.rows) {
      if (shards.has(shard)) continue;
      part.group.remove();
      part.head.remove();
      this.rows.delete(shard);
    }
    this.drawColumns();
    this.follow();
    this.tabStops();
    this.detail();
    this.reveal();
  }

  measure(wide) {
    this.findColumns();
    this.left = wide < NARROW ? NARROW_LEFT : LEFT;
    this.step = Math.min(MOST, Math.max(LEAST, (wide - this.left - 4) / this.columns.length));
    this.corner.setAttribute("width", this.left - 3);
    this.at = new Map(this.columns.map((key, index) => [`${key[1]}.${key[2]}`, this.left + index * this.step]));
    this.most = Math.max(1, ...this.picture.all().map((each) => each.samples));
    const width = Math.max(wide, this.left + this.columns.length * this.step + 4);
    const height = TOP + this.picture.shards.length * ROW + 2;
    this.resize(wide, width, height);
  }

  // The names of the shards stay in sight when the map is scrolled.
  follow() {
    this.names.style.transform = `translate(${this.place.scrollLeft}px, 0)`;
  }

  drawColumns() {
    this.columnTexts?.remove();
    this.columnTexts = svg("g", { class: "columns" });
    const every = Math.ceil(26 / this.step);
    this.columns.forEach((key, index) => {
      if ((this.columns.length - 1 - index) % every !== 0) return; // the newest has its number
      this.columnTexts.append(svg("text", { x: this.x(key) + this.step / 2, y: 12 }, this.picture.sliced ? `${key[1]}.${key[2]}` : String(key[1])));
    });
    this.back.append(this.columnTexts);
  }

  drawRow(shard, row) {
    let part = this.rows.get(shard.shard);
    if (!part) {
      part = { group: svg("g", {}), back: svg("rect", { class: "row-back", x: 0, height: ROW }), text: svg("text", { x: 2 }), head: svg("rect", { "data-head": shard.shard, class: "map-head", rx: 3 }) };
      part.group.append(part.back, part.text);
      this.names.append(part.group);
      this.heads.append(part.head);
      this.rows.set(shard.shard, part);
    }
    const behind = this.picture.behind(shard).length;
    const top = TOP + row * ROW;
    const touched = this.plan?.shards.some((each) => each.shard === shard.shard);
    part.group.setAttribute("class", ["row", behind && "behind", shard.head === null && "silent", touched && "touched"].filter(Boolean).join(" "));
    const state = shard.head === null ? T.lineages.silent : behind ? T.lineages.behind(behind) : "";
    part.text.textContent = this.left < LEFT ? `${shard.shard}${behind || shard.head === null ? " !" : ""}` : [T.lineages.shard(shard.shard, shard.active), state].filter(Boolean).join(", ");
    part.text.setAttribute("y", top + ROW - 5);
    part.back.setAttribute("y", top);
    part.back.setAttribute("width", this.left - 3);
    const head = shard.head === null ? undefined : this.x(shard.head);
    part.head.dataset.at = shard.head === null ? "" : shard.head.join(".");
    part.head.style.display = head === undefined ? "none" : "";
    if (head !== undefined) box(part.head, head + 1, top + 1, this.step - 2, ROW - 2);
  }

  drawCell(shard, each, row) {
    const part = this.parts.get(each.name) ?? this.makeCell(each);
    const shade = each.samples ? Math.max(1, Math.ceil((SHADES * each.samples) / this.most)) : 0;
    this.describe(part, shard, each, row, [`shade-${shade}`]);
    const [left, top] = [this.x(each.segment), TOP + row * ROW];
    part.group.style.transform = `translate(${left}px, ${top}px)`;
    box(part.cell, 1, 1, this.step - 2, ROW - 2);
    box(part.fill, 1, 1, (this.step - 2) * each.share, ROW - 2);
    box(part.replay, 1, 1, this.step - 2, ROW - 2);
    part.dot.setAttribute("cx", this.step / 2);
    part.dot.setAttribute("class", each.stored ? "dot" : "none");
    part.cross.setAttribute("transform", `translate(${this.step / 2}, ${ROW / 2})`);
  }

  makeCell(each) {
    const part = {
      cell: svg("rect", { class: "cell", rx: 2 }),
      fill: svg("rect", { class: "fill", rx: 2 }),
      dot: svg("circle", { cy: ROW / 2, r: 3 }),
      replay: svg("rect", { class: "replayed", rx: 2 }),
      cross: svg("path", { class: "cross", d: "M-4 -4l8 8M4 -4l-8 8" }),
    };
    part.group = svg("g", { role: "button", tabindex: -1, "data-segment": each.name }, Object.values(part));
    this.front.append(part.group);
    return this.selectable(part, each);
  }

  // Scrolls the map to what a plan touches, once for each plan.
  reveal() {
    if (!this.plan || this.revealed === this.plan) return;
    this.revealed = this.plan;
    const touched = this.plan.shards.flatMap((each) => [each.first, ...each.replay]);
    const rows = this.picture.shards.flatMap((shard, row) => (this.plan.shards.some((each) => each.shard === shard.shard) ? [row] : []));
    const xs = touched.map((key) => this.x(key)).filter((x) => x !== undefined);
    if (!rows.length || !xs.length) return;
    const view = this.place;
    const top = TOP + rows[0] * ROW - ROW;
    if (top < view.scrollTop || top + 3 * ROW > view.scrollTop + view.clientHeight) view.scrollTop = top;
    const left = Math.min(...xs) - this.left - this.step;
    if (left < view.scrollLeft || left + view.clientWidth > this.root.clientWidth) view.scrollLeft = Math.max(0, left);
  }
}

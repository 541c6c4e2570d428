// The lineages as a picture: a row for each shard, a column for each round. Elements are kept from one drawing to the
// next, so that what changes moves (dashboard.css says how, and not at all where motion is not wanted).

import { byId, h, memo, put, say, svg, table } from "./dom.js";
import { capital, number, plural, roundText } from "./format.js";

const BAR = 46;
const TOP = 20;
const NARROW = 640;
const LEFT = 156;
const LEAST = 30; // of a column

export class Lineages {
  constructor(picture) {
    this.picture = picture;
    this.plan = null;
    this.chosen = null;
    this.parts = new Map();
    this.heads = new Map();
    this.rows = new Map();
    this.root = svg("svg", { class: "picture", role: "group", "aria-label": "Lineages: arrow keys go from segment to segment" });
    this.back = svg("g", {});
    this.front = svg("g", {});
    this.root.append(this.back, this.front);
    this.place = h("div", { class: "pane" }, this.root);
    this.nothing = h("p", { class: "muted empty" });
    byId("lineages").append(this.nothing, this.place);
    this.table = memo(() => this.drawTable());
    this.place.addEventListener("scroll", () => this.follow(), { passive: true });
    this.root.addEventListener("keydown", (event) => this.walk(event));
    new ResizeObserver(() => this.draw()).observe(byId("lineages"));
  }

  show(plan) {
    this.plan = plan;
    this.draw();
  }

  draw() {
    const { picture } = this;
    const some = picture.shards.length > 0;
    this.place.hidden = !some;
    this.nothing.hidden = some;
    if (!some) {
      say(this.nothing, "Nothing has been learned yet. Upload samples and close a round: each shard then appears here as a row.");
      this.clear();
      say(byId("lineage-detail"), "");
      return put(byId("lineages-table"));
    }
    this.measure();
    const seen = new Set();
    picture.shards.forEach((shard, row) => {
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
    this.table(picture.shards, this.plan);
  }

  clear() {
    for (const part of [...this.parts.values(), ...this.heads.values(), ...this.rows.values()]) (part.group ?? part).remove();
    for (const map of [this.parts, this.heads, this.rows]) map.clear();
    this.columnTexts?.remove();
  }

  measure() {
    const { picture } = this;
    const wide = byId("lineages").clientWidth || 600;
    const columns = new Map();
    for (const each of picture.all()) columns.set(`${each.segment[1]}.${each.segment[2]}`, each.segment);
    this.columns = [...columns.values()].sort((a, b) => a[1] - b[1] || a[2] - b[2]);
    // without room beside the rows their names are above them, and stay in sight when the picture is scrolled
    this.narrow = wide < NARROW || LEFT + this.columns.length * LEAST > wide;
    this.left = this.narrow ? 4 : LEFT;
    this.high = (this.narrow ? 18 : 0) + 24 + BAR + 30;
    this.step = Math.min(this.narrow ? 84 : 170, Math.max(LEAST, (wide - this.left - 8) / this.columns.length));
    this.at = new Map(this.columns.map((key, index) => [`${key[1]}.${key[2]}`, this.left + (index + 0.5) * this.step]));
    this.most = Math.max(1, ...picture.all().map((each) => each.samples + each.lost));
    const width = Math.max(wide, this.left + this.columns.length * this.step + 8);
    const height = TOP + picture.shards.length * this.high;
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.root.setAttribute(name, value);
    if (width > wide && !this.scrolled) {
      this.scrolled = true;
      requestAnimationFrame(() => (this.place.scrollLeft = width)); // the newest rounds first
    }
  }

  follow() {
    const moved = this.place.scrollLeft;
    for (const row of this.rows.values()) for (const text of [row.title, row.note]) text.style.transform = `translate(${moved}px, 0)`;
  }

  x(segment) {
    return this.at.get(`${segment[1]}.${segment[2]}`);
  }

  base(row) {
    return TOP + row * this.high + this.high - 28;
  }

  drawColumns() {
    this.columnTexts?.remove();
    this.columnTexts = svg("g", { class: "columns", "aria-hidden": "true" });
    const sliced = this.picture.sliced;
    for (const key of this.columns) {
      const text = sliced ? `${key[1]}.${key[2]}` : this.step < 58 ? String(key[1]) : `round ${key[1]}`;
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
    part.title.textContent = `Shard ${shard.shard}${shard.active ? "" : " · frozen"}`;
    const state = shard.head === null ? "does not vote" : behind ? `${behind} behind` : "up to date";
    part.note.textContent = `${number(samples)} samples, ${state}`;
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
    const waits = this.picture.waits(shard, each);
    const base = this.base(row);
    const high = Math.max(each.samples ? 4 : 0, (BAR * each.samples) / this.most);
    const ghost = (BAR * (each.samples + each.lost)) / this.most - high;
    const wide = Math.min(this.step - 8, this.narrow ? 44 : 76);
    const mark = this.marks(each);
    part.group.setAttribute("class", ["segment", waits ? "waits" : "", each.goes ? "tainted" : "", each.lost ? "losing" : "", each.share > 0 ? "training" : "", ...mark].filter(Boolean).join(" "));
    part.group.style.transform = `translate(${this.x(each.segment)}px, ${base}px)`;
    box(part.hit, -this.step / 2 + 1, -BAR - 16, this.step - 2, BAR + 19);
    box(part.replay, -wide / 2 - 3, -BAR - 3, wide + 6, BAR + 6);
    box(part.bar, -wide / 2, -high, wide, high);
    box(part.fill, -wide / 2, -high * each.share, wide, high * each.share);
    box(part.ghost, -wide / 2, -high - ghost, wide, ghost);
    part.count.setAttribute("y", -high - ghost - 4);
    say(part.count, each.lost ? `−${number(each.lost)}` : this.step >= 40 ? number(each.samples) : "");
    part.dot.setAttribute("class", each.stored ? "dot" : "tick");
    part.dot.setAttribute("r", each.stored ? 5 : 2);
    part.group.setAttribute("aria-label", this.sentence(shard, each));
    part.group.dataset.samples = each.samples;
    part.group.dataset.stored = each.stored;
    part.group.dataset.share = each.share.toFixed(2);
    part.where = [row, shard, each];
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
    const choose = () => {
      this.chosen = each.name;
      this.tabStops();
      this.detail();
    };
    part.group.addEventListener("click", choose);
    part.group.addEventListener("focus", choose);
    this.front.append(part.group);
    this.parts.set(each.name, part);
    return part;
  }

  // What a plan that is being looked at says of a segment.
  marks(each) {
    if (!this.plan) return [];
    const same = (key) => key !== null && key.join(".") === each.name;
    const found = [];
    for (const shard of this.plan.shards) {
      if (shard.replay.some(same) || same(shard.first)) found.push("would-replay");
      if (same(shard.restart)) found.push("would-restart");
    }
    if (this.plan.destroyed.some(same)) found.push("would-go");
    return found;
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
    for (const [name, part] of this.parts) {
      if (seen.has(name)) continue;
      part.group.remove();
      this.parts.delete(name);
    }
    const shards = new Set(this.picture.shards.map((each) => each.shard));
    for (const map of [this.heads, this.rows]) {
      for (const [shard, part] of map) {
        if (shards.has(shard)) continue;
        (part.group ?? part).remove();
        map.delete(shard);
      }
    }
  }

  sentence(shard, each) {
    const { picture } = this;
    const { restart, replay, rsn } = picture.cost(shard, each);
    const head = shard.head !== null && shard.head.join(".") === each.name;
    const state = picture.waits(shard, each) ? (each.trained ? "waits to be trained again" : "waits for its first training") : "trained";
    const kept = head ? "its sub-model is stored and votes" : each.stored ? "its sub-model is stored" : "its sub-model is not stored";
    const from = restart === null ? "start from scratch" : `restart from ${roundText(restart.segment, picture.sliced)}`;
    return (
      `Shard ${shard.shard}, ${roundText(each.segment, picture.sliced)}: ${plural(each.samples, "sample")}, ${state}, ${kept}. ` +
      `A forget here would ${from} and replay ${plural(replay.length, "segment")}, ${plural(rsn, "sample")} trained again at most.`
    );
  }

  detail() {
    const part = this.parts.get(this.chosen);
    for (const [name, each] of this.parts) each.group.classList.toggle("chosen", name === this.chosen);
    say(byId("lineage-detail"), part ? part.where && this.sentence(part.where[1], part.where[2]) : "Choose a segment to see what a forget in it would replay.");
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
    const at = next.segments[next === shard ? shard.segments.indexOf(each) + move[1] : closest(next.segments, this.x(each.segment), this)];
    if (at) this.parts.get(at.name).group.focus();
  }

  drawTable() {
    const { picture } = this;
    const rows = picture.shards.flatMap((shard) => shard.segments.map((each) => ({ shard, each, ...picture.cost(shard, each) })));
    const isHead = (row) => row.shard.head !== null && row.shard.head.join(".") === row.each.name;
    put(
      byId("lineages-table"),
      table("Segments of every shard", [
        ["Shard", (row) => String(row.shard.shard)],
        ["Segment", (row) => capital(roundText(row.each.segment, picture.sliced))],
        ["Samples", (row) => number(row.each.samples), "number"],
        ["Sub-model", (row) => (isHead(row) ? "stored, votes" : row.each.stored ? "stored" : "not stored")],
        ["State", (row) => (picture.waits(row.shard, row.each) ? "waits" : "trained")],
        ["A forget replays", (row) => `${plural(row.replay.length, "segment")}, ${plural(row.rsn, "sample")}`],
      ], rows),
    );
  }
}

function closest(segments, x, lineages) {
  const far = segments.map((each) => Math.abs(lineages.x(each.segment) - x));
  return far.indexOf(Math.min(...far));
}

function box(rect, x, y, width, height) {
  for (const [name, value] of Object.entries({ x, y, width: Math.max(0, width), height: Math.max(0, height) })) rect.setAttribute(name, value);
}

function line(element, x1, y1, x2, y2) {
  for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) element.setAttribute(name, value);
}

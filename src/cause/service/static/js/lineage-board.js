// The lineages: as bars where there are few shards, as a map where there are many, and always as a table.

import { byId, h, memo, put, say, svg, table } from "./dom.js";
import { capital, number } from "./format.js";
import { HeatMap } from "./heatmap.js";
import { Lineages } from "./lineages.js";
import { T } from "./texts.js";

const MANY = 6; // shards that are drawn as bars

export class LineageBoard {
  constructor(picture) {
    this.picture = picture;
    this.bars = new Lineages(picture);
    this.map = new HeatMap(picture);
    this.nothing = h("p", { class: "muted empty" });
    byId("lineages").append(this.nothing);
    this.table = memo(() => this.drawTable());
    byId("lineages-details").addEventListener("toggle", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(byId("lineages"));
  }

  // What a plan would do; null ends the preview.
  show(plan) {
    this.bars.plan = this.map.plan = plan;
    document.body.classList.toggle("previewing", plan !== null);
    this.draw();
    if (plan === null) return;
    // on a small screen the form lies over the lower half, so what it would do is put above it
    if (matchMedia("(max-width: 1099px)").matches) byId("lineages").scrollIntoView({ block: "start" });
    else byId("lineages-card").scrollIntoView({ block: "nearest" });
  }

  draw() {
    const { shards } = this.picture;
    const some = shards.length > 0;
    const view = shards.length > MANY ? this.map : this.bars;
    for (const each of [this.bars, this.map]) if (each !== view || !some) each.place.remove();
    this.nothing.hidden = some;
    this.legend(shards.length > MANY);
    if (!some) {
      say(this.nothing, T.lineages.empty);
      say(byId("lineage-detail"), "");
      return put(byId("lineages-table"));
    }
    if (!view.place.isConnected) byId("lineages").append(view.place);
    view.draw(byId("lineages").clientWidth || 600);
    if (byId("lineages-details").open) this.table(shards);
  }

  legend(many) {
    if (this.many === many) return;
    this.many = many;
    const key = (text, ...parts) => h("li", {}, svg("svg", { class: "key", viewBox: "0 0 20 14", "aria-hidden": "true" }, parts), T.lineages.keysOf[text]);
    const dot = (more = "") => svg("circle", { class: `dot ${more}`, cx: 10, cy: 7, r: many ? 3 : 4.5 });
    const cell = (more) => svg("rect", { class: more, x: 3, y: 1, width: 14, height: 12, rx: 2 });
    const common = [
      key("stored", many ? cell("cell shade-key") : null, dot()),
      many ? null : key("tick", svg("circle", { class: "tick", cx: 10, cy: 7, r: 2 })),
      key("head", many ? cell("cell shade-key") : null, many ? cell("map-head") : svg("circle", { class: "ring", cx: 10, cy: 7, r: 6 }), dot()),
      key("goes", dot("goes"), svg("path", { class: "cross", d: "M6 3l8 8M14 3l-8 8" })),
      key("replayed", cell("replayed")),
      key("restarts", dot("restarts")),
    ];
    put(
      byId("legend"),
      many ? key("shade", svg("rect", { class: "cell shade-1-key", x: 0, y: 1, width: 9, height: 12 }), svg("rect", { class: "cell shade-5-key", x: 10, y: 1, width: 9, height: 12 })) : key("segment", svg("rect", { class: "bar", x: 4, y: 1, width: 12, height: 12 })),
      key("waits", many ? cell("cell waits-key") : svg("rect", { class: "bar waits", x: 4, y: 1, width: 12, height: 12 })),
      common,
    );
  }

  drawTable() {
    const { picture } = this;
    const { columns } = T.lineages;
    const rows = picture.shards.flatMap((shard) => shard.segments.map((each) => ({ shard, each, ...picture.cost(shard, each) })));
    const isHead = (row) => row.shard.head !== null && row.shard.head.join(".") === row.each.name;
    put(
      byId("lineages-table"),
      table(T.lineages.caption, [
        [columns.shard, (row) => String(row.shard.shard)],
        [columns.segment, (row) => capital(T.lineages.roundOf(row.each.segment, picture.sliced))],
        [columns.samples, (row) => number(row.each.samples), "number"],
        [columns.subModel, (row) => (isHead(row) ? T.lineages.votes : row.each.stored ? T.lineages.stored : T.lineages.notStored)],
        [columns.state, (row) => (picture.waits(row.shard, row.each) ? T.lineages.waits : T.lineages.trained)],
        [columns.replays, (row) => (picture.additive ? T.lineages.nothing : T.lineages.replays(row.replay.length, row.rsn))],
      ], rows),
    );
  }
}

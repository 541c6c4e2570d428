// A list that may be long: searched and filtered by the service, one page at a time. The page that is shown is asked for
// again when something happens.

import { api } from "./api.js";
import { byId, h, memo, put, say, table } from "./dom.js";
import { capital } from "./format.js";
import { T } from "./texts.js";

const WAIT_MS = 300;

// `options`: name (of the elements), route, caption, region, empty and none (texts), columns (of `table`), size, and where it
// can be filtered: filter { name, choices }, search { hint, query(text) }, dates. `failed(error, show)` takes errors.
export class List {
  constructor(options, failed) {
    this.options = options;
    this.failed = failed;
    this.cursors = [null]; // of the pages up to the one that is shown
    this.answer = null;
    this.asked = 0;
    this.error = h("p", { class: "error", role: "alert" });
    this.body = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": options.region, id: `${options.name}-rows` });
    this.pager = h("div", { class: "pager" });
    put(byId(options.name), options.filter || options.search ? this.form() : null, this.error, this.body, this.pager);
    this.draw = memo((items) => this.drawRows(items));
    this.drawPager = memo((...args) => this.pages(...args));
  }

  form() {
    const { name, filter, search, dates, region } = this.options;
    const field = (id, label, input) => h("div", { class: "field" }, h("label", { for: `${name}-${id}` }, label), input);
    const input = (id, attributes) => h("input", { id: `${name}-${id}`, "data-focus": `${name}-${id}`, oninput: () => this.later(), ...attributes });
    this.fields = {
      search: search ? input("search", { type: "search", maxlength: 64, spellcheck: "false", autocomplete: "off", autocapitalize: "none" }) : null,
      kind: filter ? h("select", { id: `${name}-kind`, onchange: () => this.later() }, Object.entries(filter.choices).map(([value, text]) => h("option", { value }, text))) : null,
      from: dates ? input("from", { type: "date" }) : null,
      to: dates ? input("to", { type: "date" }) : null,
    };
    const clear = () => {
      for (const each of Object.values(this.fields)) if (each) each.value = "";
      this.later();
    };
    return h(
      "form",
      { class: "filters", role: "search", "aria-label": T.lists.filter(region), autocomplete: "off", onsubmit: (event) => { event.preventDefault(); this.later(0); } },
      search ? field("search", search.hint, this.fields.search) : null,
      filter ? field("kind", T.lists.kind, this.fields.kind) : null,
      dates ? [field("from", T.lists.from, this.fields.from), field("to", T.lists.to, this.fields.to)] : null,
      h("button", { type: "button", class: "small", id: `${name}-clear`, onclick: clear }, T.lists.clear),
    );
  }

  // The query of what is looked for; an error in words where it cannot be.
  query() {
    const { size, filter, search } = this.options;
    const found = new URLSearchParams({ limit: size });
    const { fields } = this;
    if (fields?.kind?.value) found.set(filter.name, fields.kind.value);
    if (fields?.from?.value) found.set("since", new Date(`${fields.from.value}T00:00`).toISOString());
    if (fields?.to?.value) {
      const end = new Date(`${fields.to.value}T00:00`);
      end.setDate(end.getDate() + 1); // the day itself is meant, too
      found.set("until", end.toISOString());
    }
    const before = this.cursors.at(-1);
    if (before !== null) found.set("before", before);
    const text = fields?.search?.value.trim().toLowerCase() ?? "";
    if (text) search.query(text, found);
    return found;
  }

  get filtered() {
    return Object.values(this.fields ?? {}).some((each) => each?.value);
  }

  later(wait = WAIT_MS) {
    clearTimeout(this.timer);
    this.cursors = [null];
    this.timer = setTimeout(() => this.load(), wait);
  }

  async load() {
    const mine = (this.asked += 1);
    try {
      const query = this.query();
      let items = [];
      let next = null;
      do { // a page of a filtered list may be short, or empty, and still lead on
        const page = await api.get(`${this.options.route}?${query}`);
        if (mine !== this.asked) return;
        items = [...items, ...page.items];
        next = page.next;
        query.set("before", next);
        query.set("limit", this.options.size - items.length || 1);
      } while (next !== null && items.length < this.options.size);
      this.answer = { items, next };
      say(this.error, "");
      this.redraw();
    } catch (error) {
      if (mine === this.asked) this.failed(error, (shown) => say(this.error, capital(shown.message)));
    }
  }

  redraw() {
    if (!this.answer) return;
    this.draw(this.answer.items.map((row) => ({ ...row, ...this.options.more?.(row) })));
    this.drawPager(this.cursors.length, this.answer.items.length, this.answer.next);
  }

  drawRows(items) {
    const { caption, empty, none, columns } = this.options;
    if (!items.length) return put(this.body, h("p", { class: "muted empty" }, this.filtered ? none : empty));
    put(this.body, table(caption, columns, items));
  }

  pages(at, count, next) {
    const { name, size } = this.options;
    if (at === 1 && next === null) return put(this.pager);
    const first = (at - 1) * size + 1;
    const go = (cursors) => {
      this.cursors = cursors;
      this.load();
    };
    const button = (text, id, can, press) =>
      h("button", { type: "button", class: "small", "data-focus": `${name} ${id}`, "aria-disabled": can ? null : "true", onclick: () => can && press() }, text);
    put(
      this.pager,
      button(T.lists.newer, "newer", at > 1, () => go(this.cursors.slice(0, -1))),
      h("span", { class: "muted small" }, T.lists.page(first, Math.max(first, first + count - 1))),
      button(T.lists.older, "older", next !== null, () => go([...this.cursors, next])),
    );
  }
}

// A search by the beginning of an id.
export function searchId(text, query) {
  if (!/^[0-9a-f]{1,64}$/.test(text)) throw new RangeError(T.lists.wrongId);
  query.set("id", text);
}

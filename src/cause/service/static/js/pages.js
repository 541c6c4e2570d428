// Lists that grow: the newest page is asked for again and again, older ones once, when somebody wants them.

import { api } from "./api.js";
import { h } from "./dom.js";

export class Pages {
  #route;
  #key;
  #context;
  #older = [];
  #next = null;

  // `key` is the field by which items are told apart.
  constructor(route, key, context) {
    [this.#route, this.#key, this.#context] = [route, key, context];
  }

  // The newest page and all older ones that were asked for. Items that moved off the newest page meanwhile stay.
  items(newest) {
    const shown = new Set(newest.items.map((each) => each[this.#key]));
    return [...newest.items, ...this.#older.filter((each) => !shown.has(each[this.#key]))];
  }

  // Where the next older page begins; null if there is none.
  next(newest) {
    return this.#older.length ? this.#next : newest.next;
  }

  // A button for the next older page, or nothing.
  button(before, text) {
    return before === null ? null : h("button", { type: "button", "data-focus": text, onclick: () => this.#more(before) }, text);
  }

  async #more(before) {
    try {
      const page = await api.get(`${this.#route}?limit=100&before=${before}`);
      const known = new Set(page.items.map((each) => each[this.#key]));
      this.#older = [...this.#older.filter((each) => !known.has(each[this.#key])), ...page.items];
      this.#next = page.next;
      this.#context.redraw();
    } catch (error) {
      this.#context.failed(error);
    }
  }
}

// Choose single samples of a user: from the list of what is held, or as those that a file holds.

import { api } from "./api.js";
import { away } from "./away.js";
import { byId, h, put, table } from "./dom.js";
import { stamp } from "./format.js";
import { typeOf } from "./files.js";
import { T } from "./texts.js";

const PAGE = 100;

// `changed` is called whenever others are chosen, `failed` with an error.
export function startSamples(changed, failed) {
  const container = byId("erase-samples");
  let user = null;
  let items = [];
  let next = null;
  let chosen = new Set();
  let note = "";

  function close() {
    user = next = null;
    items = [];
    chosen = new Set();
    note = "";
    container.hidden = true;
    put(container);
  }

  async function more() {
    const mine = user;
    try {
      const page = await api.samples(mine, PAGE, next);
      if (mine !== user) return;
      items = [...items, ...page.items];
      next = page.next;
      draw();
    } catch (error) {
      failed(error);
    }
  }

  async function open(name) {
    close();
    user = name;
    container.hidden = false;
    await more();
  }

  function toggle(handle, on) {
    if (on) chosen.add(handle);
    else chosen.delete(handle);
    changed();
  }

  async function match(event) {
    const [file] = event.target.files;
    if (!file) return;
    const mine = user;
    try {
      const found = await api.match(mine, file, typeOf(file));
      if (mine !== user) return;
      for (const handle of found.handles) chosen.add(handle);
      note = T.samples.matched(found.handles.length, found.rows, found.unmatched);
      draw();
      changed();
    } catch (error) {
      failed(error);
    }
  }

  function draw() {
    const box = (each) =>
      h("input", {
        type: "checkbox", name: "sample", value: each.handle, checked: chosen.has(each.handle), "data-focus": `sample ${each.handle}`,
        "aria-label": T.samples.sample(each.handle), onchange: (event) => toggle(each.handle, event.target.checked),
      });
    const columns = [
      [T.samples.forget, box],
      [T.samples.round, (each) => (each.round === null ? T.samples.waits : String(each.round)), "number"],
      [T.samples.label, (each) => String(each.label), "number"],
      [T.samples.arrived, (each) => h("time", { datetime: each.arrived, title: stamp(each.arrived) }, away(each.arrived))],
      [T.samples.handle, (each) => h("code", {}, each.handle)],
    ];
    put(
      container,
      h("div", { class: "scroll samples", tabindex: "0", role: "region", "aria-label": T.samples.region }, table(T.samples.caption, columns, items)),
      next === null ? null : h("button", { type: "button", class: "small", "data-focus": "older samples", onclick: more }, T.samples.older),
      h("label", { for: "erase-file" }, T.samples.file),
      h("input", { id: "erase-file", type: "file", accept: ".csv,.npz,.safetensors,.json", "data-focus": "file of samples", onchange: match }),
      h("p", { id: "erase-matched", class: "small", role: "status" }, note),
    );
  }

  return { open, close, handles: () => [...chosen] };
}

// Choose single samples of a user: from the list of what is held, or as those that a file holds.

import { api } from "./api.js";
import { byId, h, put, table } from "./dom.js";
import { away, number, plural } from "./format.js";
import { typeOf } from "./files.js";

const PAGE = 100;

// `changed` is called whenever others are chosen, `failed` with an error.
export function startSamples(changed, failed) {
  const container = byId("erase-samples");
  let user = null;
  let items = [];
  let next = null;
  let chosen = new Set();
  let told = "";

  function close() {
    user = next = null;
    items = [];
    chosen = new Set();
    told = "";
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
      told = `${plural(found.handles.length, "sample")} equal a row of the file; ${number(found.unmatched)} of its ${plural(found.rows, "row")} equal nothing.`;
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
        "aria-label": `Sample ${each.handle}`, onchange: (event) => toggle(each.handle, event.target.checked),
      });
    const columns = [
      ["Forget", box],
      ["Round", (each) => (each.round === null ? "waits" : String(each.round)), "number"],
      ["Label", (each) => String(each.label), "number"],
      ["Arrived", (each) => away(each.arrived)],
      ["Handle", (each) => h("code", {}, each.handle)],
    ];
    put(
      container,
      h("div", { class: "scroll samples", tabindex: "0", role: "region", "aria-label": "Samples" }, table("Samples of this user, the newest first", columns, items)),
      next === null ? null : h("button", { type: "button", class: "small", "data-focus": "older samples", onclick: more }, "Older samples"),
      h("label", { for: "erase-file" }, "Or choose those that a file holds (.npz, .safetensors or .json)"),
      h("input", { id: "erase-file", type: "file", accept: ".npz,.safetensors,.json", "data-focus": "file of samples", onchange: match }),
      h("p", { id: "erase-matched", class: "small", role: "status" }, told),
    );
  }

  return { open, close, handles: () => [...chosen] };
}

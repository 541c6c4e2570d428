// Elements. Text goes in as text only: nothing on this page is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

// Exchange what is in a container; whoever had the focus keeps it, by `data-focus`.
export function put(container, ...children) {
  const held = container.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  container.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  if (held !== undefined) container.querySelector(`[data-focus="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A handler of clicks or submits that does nothing while its last run is under way: a second click is a slip.
export function once(work) {
  let running = false;
  return async (event) => {
    event.preventDefault();
    if (running) return;
    running = true;
    try {
      await work(event);
    } finally {
      running = false;
    }
  };
}

// Whether a click is the second of a double click: it must not confirm what the first one asked.
export const isDouble = (event) => event.detail > 1;

// A table: columns are [title, cell of a row, class]; a column of class "wide" is left out on a phone.
export function table(caption, columns, rows) {
  const named = (name) => (name ? { class: name } : {});
  return h(
    "table",
    {},
    h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, columns.map(([title, , name]) => h("th", { scope: "col", ...named(name) }, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(([, cell, name]) => h("td", named(name), cell(row)))))),
  );
}

export const details = (summary, ...children) => h("details", {}, h("summary", { "data-focus": `more ${summary}` }, summary), ...children);

// A panel that is drawn anew only when what it shows has changed.
export function memo(draw) {
  let last;
  return (...seen) => {
    const now = JSON.stringify(seen);
    if (now === last) return;
    last = now;
    draw(...seen);
  };
}

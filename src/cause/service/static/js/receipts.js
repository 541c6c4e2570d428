// Receipts, and checking them by replay.

import { Refused, api } from "./api.js";
import { away } from "./away.js";
import { byId, h, say } from "./dom.js";
import { capital, number, stamp } from "./format.js";
import { List, searchId } from "./list.js";
import { T } from "./texts.js";

const POLL_MS = 1_500;
const SHORT = 7; // digits of a number; longer ones are the beginning of an id

// A receipt by its number, or those of requests whose id begins like this.
function search(text, query) {
  if (/^\d+$/.test(text) && text.length <= SHORT) {
    if (!query.has("before")) query.set("before", Number(text) + 1);
  } else searchId(text, query);
}

export function startReceipts(context) {
  const checks = new Map(); // by receipt; null: all sub-models
  const fail = (error) => say(byId("receipts-error"), error ? capital(error.message) : "");

  async function verify(receipt) {
    fail(null);
    try {
      took(await api.verify(receipt));
    } catch (error) {
      context.failed(error, fail);
    }
  }

  function took(check) {
    checks.set(check.receipt, check);
    draw();
    // an event tells the end; this is for when the events are lost
    if (check.state === "running") setTimeout(() => checks.get(check.receipt) === check && poll(check), POLL_MS);
  }

  async function poll(check) {
    try {
      took(await api.verification(check.id));
    } catch (error) {
      // a service that was restarted does not know it any more
      if (error instanceof Refused && error.status === 404) return took({ ...check, state: "failed", detail: error.message, finished: new Date().toISOString() });
      setTimeout(() => poll(check), POLL_MS);
    }
  }

  const { columns } = T.receipts;
  const list = new List({
    name: "receipts", route: "/v1/receipts", size: 6, caption: T.receipts.caption, region: T.receipts.region, empty: T.receipts.empty, none: T.receipts.none,
    filter: { name: "kind", choices: T.receipts.filters }, search: { hint: T.receipts.search, query: search }, dates: true,
    more: (row) => ({ check: checks.get(row.number) ?? null }),
    columns: [
      [columns.number, (row) => String(row.number), "number"],
      [columns.kind, (row) => T.receipts.kinds[row.kind] ?? row.kind],
      [columns.request, (row) => h("code", { title: row.request }, row.request.slice(0, 8)), "wide"],
      [columns.samples, (row) => number(row.samples), "number wide"],
      [columns.signed, (row) => h("time", { datetime: row.repaired ?? row.in_effect }, stamp(row.repaired ?? row.in_effect)), "wide"],
      [columns.replay, (row) => cell(row)],
    ],
  }, context.failed);

  function cell(row) {
    const { check } = row;
    const busy = check?.state === "running";
    const text = busy ? T.receipts.replaying : check ? T.receipts.again : T.receipts.verify;
    const button = h("button", { type: "button", class: "small", "data-focus": `verify ${row.number}`, "aria-label": T.receipts.verifyOne(row.number), "aria-disabled": busy ? "true" : null, onclick: () => busy || verify(row.number) }, text);
    const get = h("button", { type: "button", class: "small quiet", "data-focus": `get ${row.number}`, "aria-label": T.receipts.saveOne(row.number), onclick: () => download(row.number) }, T.receipts.save);
    return h("span", { class: "check" }, check && !busy ? h("span", { class: `verdict ${check.state}` }, verdict(check)) : null, button, get);
  }

  async function download(receipt) {
    try {
      const bundle = await api.get(`/v1/receipts/${receipt}`);
      const url = URL.createObjectURL(new Blob([JSON.stringify(bundle, null, 2)], { type: "application/json" }));
      h("a", { href: url, download: `receipt-${receipt}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1_000);
    } catch (error) {
      context.failed(error, fail);
    }
  }

  function draw() {
    list.redraw();
    const all = checks.get(null);
    say(byId("verify-message"), !all ? "" : all.state === "running" ? T.receipts.replayingAll : T.receipts.resultAt(T.receipts.all, verdict(all), away(all.finished)));
  }

  byId("verify-all").addEventListener("click", () => verify(null));
  return {
    load: () => list.load(),
    finished: (check) => {
      took(check);
      const what = check.receipt === null ? T.receipts.all : T.receipts.one(check.receipt);
      context.tell(T.receipts.result(what, verdict(check)), { holds: "good", nothing: "" }[check.state] ?? "bad");
    },
    render: ({ log }) => {
      draw();
      say(byId("receipts-log"), T.receipts.log(log.size, log.verifier));
      byId("receipts-log").title = log.verifier; // the line may be cut off
    },
  };
}

export function verdict(check) {
  if (check.state === "failed") return T.receipts.failed(check.detail);
  if (check.state === "mismatch") return T.receipts.mismatch(check.mismatched, check.sub_models);
  const parts = [];
  if (check.identical) parts.push(T.receipts.identical(check.identical, check.sub_models));
  if (check.superseded) parts.push(T.receipts.superseded(check.superseded));
  if (check.unverifiable) parts.push(T.receipts.unverifiable(check.unverifiable));
  return parts.join(", ") || T.receipts.nothing;
}

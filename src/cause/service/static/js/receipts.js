// Receipts, and checking them by replay.

import { api } from "./api.js";
import { byId, h, memo, put, say, table } from "./dom.js";
import { Pages } from "./pages.js";
import { away, capital, number, plural, stamp } from "./format.js";

const KINDS = { effect: "erasure in effect", repair: "repair", restore: "restore from a backup" };
const POLL_MS = 1_500;

export function startReceipts(context) {
  const checks = new Map(); // by receipt; null: all sub-models
  let latest = { items: [], next: null };
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
    } catch {
      setTimeout(() => poll(check), POLL_MS);
    }
  }

  const pages = new Pages("/v1/receipts", "number", context);
  const drawn = memo((items, more) => {
    if (!items.length) return put(byId("receipts"), h("p", { class: "muted empty" }, "No receipt has been signed yet."));
    put(
      byId("receipts"),
      table("Receipts, newest first", [
        ["No.", (row) => String(row.number), "number"],
        ["Of", (row) => KINDS[row.kind] ?? row.kind],
        ["Request", (row) => h("code", { title: row.request }, row.request.slice(0, 8)), "wide"],
        ["Samples", (row) => number(row.samples), "number"],
        ["Destroyed", (row) => number(row.destroyed), "number wide"],
        ["Signed", (row) => h("time", { datetime: row.repaired ?? row.in_effect }, stamp(row.repaired ?? row.in_effect)), "wide"],
        ["By replay", (row) => cell(row)],
      ], items),
      pages.button(more, "Older receipts"),
    );
  });

  function cell(row) {
    const check = row.check;
    const busy = check?.state === "running";
    const button = h("button", { type: "button", class: "small", "data-focus": `verify ${row.number}`, "aria-label": `Verify receipt ${row.number}`, "aria-disabled": busy ? "true" : null, onclick: () => busy || verify(row.number) }, busy ? "Replaying…" : check ? "Again" : "Verify");
    const get = h("button", { type: "button", class: "small quiet", "data-focus": `get ${row.number}`, "aria-label": `Download receipt ${row.number}`, onclick: () => download(row.number) }, "Save");
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
    drawn(pages.items(latest).map((row) => ({ ...row, check: checks.get(row.number) ?? null })), pages.next(latest));
    const all = checks.get(null);
    say(byId("verify-told"), !all ? "" : all.state === "running" ? "Every stored sub-model is being replayed…" : `All stored sub-models: ${verdict(all)}, ${away(all.finished)}.`);
  }

  byId("verify-all").addEventListener("click", () => verify(null));
  return {
    finished: (check) => {
      took(check);
      const what = check.receipt === null ? "All stored sub-models" : `Receipt ${check.receipt}`;
      context.tell(`${what}: ${verdict(check)}.`, { holds: "good", nothing: "" }[check.state] ?? "bad");
    },
    render: ({ receipts, log }) => {
      latest = receipts;
      draw();
      say(byId("receipts-log"), `The log has ${plural(log.size, "entry", "entries")}; its key is ${log.verifier}`);
    },
  };
}

export function verdict(check) {
  if (check.state === "failed") return `not checked: ${check.detail}`;
  if (check.state === "mismatch") return `mismatch: ${number(check.mismatched)} of ${plural(check.sub_models, "sub-model")}`;
  const parts = [];
  if (check.identical) parts.push(`identical: ${number(check.identical)} of ${plural(check.sub_models, "sub-model")}`);
  if (check.superseded) parts.push(`${number(check.superseded)} superseded by later changes`);
  if (check.unverifiable) parts.push(`${number(check.unverifiable)} cannot be checked here`);
  return parts.join(", ") || "nothing was replayed: there is no sub-model to compare";
}

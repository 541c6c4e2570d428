// Erase: choose a user and rounds or samples, see what it would do in words and in the picture, confirm.

import { api } from "./api.js";
import { byId, h, put, say } from "./dom.js";
import { capital, decimal, listed, number, plural, shardsText } from "./format.js";
import { startSamples } from "./samples.js";

const WAIT_MS = 150;

export function startErase(context) {
  const form = byId("erase-form");
  const user = byId("erase-user");
  const count = byId("erase-count");
  const confirm = byId("erase-confirm");
  let chosen = null; // the user that was looked up
  let held = null;
  let asked = 0;
  let timer;

  const fail = (error) => say(byId("erase-error"), error ? capital(error.message) : "");
  const samples = startSamples(changed, (error) => context.failed(error, fail));

  function close() {
    chosen = held = null;
    asked += 1;
    clearTimeout(timer);
    samples.close();
    byId("erase-choice").hidden = true;
    confirm.disabled = true;
    context.preview(null);
  }

  function rounds() {
    const boxes = [...form.querySelectorAll("input[name=round]")];
    return boxes.filter((each) => each.checked).map((each) => Number(each.value));
  }

  const what = () => form.querySelector("input[name=what]:checked")?.value;
  const everything = () => what() === "all";

  function body() {
    if (everything()) return {};
    if (what() === "samples") return { handles: samples.handles() };
    const found = { rounds: rounds() };
    if (count.value && found.rounds.length === 1) found.count = Number(count.value);
    return found;
  }

  async function look(event) {
    event.preventDefault();
    close();
    fail(null);
    const name = user.value;
    try {
      held = await api.user(name);
    } catch (error) {
      return context.failed(error, fail);
    }
    chosen = name;
    const staged = held.staged.samples ? `, and ${plural(held.staged.samples, "sample")} that wait for the next round` : "";
    put(byId("erase-held"), "Held of ", h("strong", { class: "breaks" }, name), `: ${plural(held.samples, "sample")}${staged}.`);
    const option = (value, text, checked) =>
      h("label", { class: "choice" }, h("input", { type: "radio", name: "what", value, checked, onchange: changed }), " ", text);
    const box = (each) =>
      h("label", { class: "choice inner" }, h("input", { type: "checkbox", name: "round", value: each.round, onchange: picked }), ` round ${each.round}: ${plural(each.samples, "sample")}, ${shardsText(each.shards)}`);
    const any = held.samples + held.staged.samples > 0;
    put(
      byId("erase-rounds"),
      option("all", "Everything", true),
      held.rounds.length ? option("some", "Some rounds:", false) : null,
      held.rounds.map(box),
      any ? option("samples", "Some samples:", false) : null,
    );
    byId("erase-choice").hidden = false;
    count.value = "";
    changed();
    byId("erase-rounds").querySelector("input").focus();
  }

  function picked() {
    form.querySelector("input[name=what][value=some]").checked = true;
    changed();
  }

  function changed() {
    const list = byId("erase-samples");
    if (what() === "samples" && list.hidden) samples.open(chosen);
    else if (what() !== "samples" && !list.hidden) samples.close();
    count.disabled = what() !== "some" || rounds().length !== 1;
    confirm.disabled = true;
    asked += 1;
    clearTimeout(timer);
    timer = setTimeout(plan, WAIT_MS);
  }

  async function plan() {
    const mine = (asked += 1);
    fail(null);
    const missing = { some: rounds().length ? null : "Choose a round.", samples: samples.handles().length ? null : "Choose a sample." }[what()];
    if (missing) {
      context.preview(null);
      return put(byId("erase-plan"), missing);
    }
    try {
      const found = await api.plan(chosen, body());
      if (mine !== asked) return;
      put(byId("erase-plan"), sentences(found));
      const all = found.samples + found.staged;
      say(confirm, all ? `Erase ${plural(all, "sample")}` : "Erase");
      confirm.disabled = false;
      context.preview(found);
    } catch (error) {
      if (mine !== asked) return;
      context.preview(null);
      put(byId("erase-plan"));
      context.failed(error, fail);
    }
  }

  async function erase() {
    confirm.disabled = true;
    const name = chosen;
    try {
      const request = await api.erase(name, body());
      close();
      user.value = "";
      context.tell(`An erasure is in effect: request ${request.id.slice(0, 8)}.${request.note ? ` ${capital(request.note)}` : ""}`, "you");
      byId("story").scrollIntoView({ block: "nearest" });
      user.focus({ preventScroll: true });
    } catch (error) {
      confirm.disabled = false;
      context.failed(error, fail);
    }
  }

  form.addEventListener("submit", look);
  count.addEventListener("input", changed);
  confirm.addEventListener("click", erase);
  byId("erase-cancel").addEventListener("click", () => {
    close();
    user.focus();
  });
  user.addEventListener("input", () => chosen !== null && user.value !== chosen && close());
  return { again: () => chosen !== null && changed(), close };
}

function sentences(plan) {
  const lines = [`Deletes ${plural(plan.samples, "sample")}${plan.staged ? ` and ${plural(plan.staged, "sample")} that wait` : ""}.`];
  if (plan.shards.length) {
    lines.push(plan.destroyed.length ? `Destroys ${plural(plan.destroyed.length, "tainted sub-model")} at once.` : "No stored sub-model has seen them.");
    for (const each of plan.shards) {
      const from = each.restart === null ? "starts from scratch" : `falls back to round ${each.restart[1]}`;
      const replay = each.replay.length ? `replays ${listed(each.replay.map((key) => `round ${key[1]}`))}: ${plural(each.rsn, "sample")} again` : "has nothing left to replay";
      lines.push(`Shard ${each.shard} ${from} and ${replay}.`);
    }
    if (plan.seconds !== null) lines.push(`Takes about ${decimal(plan.seconds)} s${plan.joules === null ? "" : ` and ${decimal(plan.joules)} J`}.`);
    if (plan.shards.length > 1) lines.push(`${number(plan.rsn)} samples are trained again in all.`);
  } else if (!plan.staged) lines.push("Nothing is held of this user; a receipt is signed all the same.");
  return h("ul", {}, lines.map((line) => h("li", {}, line)));
}

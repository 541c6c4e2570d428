// Erase: choose a user and rounds or samples, see what it would do in words and in the picture, confirm.

import { Attempts, api } from "./api.js";
import { byId, h, put, say } from "./dom.js";
import { capital } from "./format.js";
import { startSamples } from "./samples.js";
import { T } from "./texts.js";

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
  const attempts = new Attempts();

  const fail = (error) => say(byId("erase-error"), error ? capital(error.message) : "");
  const samples = startSamples(changed, (error) => context.failed(error, fail));

  function close() {
    chosen = held = null;
    asked += 1;
    attempts.drop();
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
    put(byId("erase-held"), T.erase.held, h("strong", { class: "breaks" }, name), T.erase.holds(held.samples, held.staged.samples));
    const option = (value, text, checked) =>
      h("label", { class: "choice" }, h("input", { type: "radio", name: "what", value, checked, onchange: changed }), " ", text);
    const box = (each) =>
      h("label", { class: "choice inner" }, h("input", { type: "checkbox", name: "round", value: each.round, onchange: picked }), T.erase.round(each.round, each.samples, each.shards));
    const any = held.samples + held.staged.samples > 0;
    put(
      byId("erase-rounds"),
      option("all", T.erase.all, true),
      held.rounds.length ? [option("some", T.erase.some, false), h("div", { class: "rounds", tabindex: held.rounds.length > 6 ? 0 : null, role: "group", "aria-label": T.erase.some }, held.rounds.map(box))] : null,
      any ? option("samples", T.erase.single, false) : null,
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
    const missing = { some: rounds().length ? null : T.erase.chooseRound, samples: samples.handles().length ? null : T.erase.chooseSample }[what()];
    if (missing) {
      context.preview(null);
      return put(byId("erase-plan"), missing);
    }
    try {
      const found = await api.plan(chosen, body());
      if (mine !== asked) return;
      put(byId("erase-plan"), sentences(found, context.isAdditive()));
      const all = found.samples + found.staged;
      say(confirm, T.erase.confirm(all));
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
    const wanted = body();
    try {
      const request = await attempts.send(JSON.stringify([name, wanted]), (key) => api.erase(name, wanted, key));
      close();
      user.value = "";
      context.tell(T.erase.inEffect(request.id, request.note), "you");
      byId("lineages-card").scrollIntoView({ block: "nearest" });
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

function sentences(plan, isAdditive) {
  const lines = [T.erase.deletes(plan.samples, plan.staged)];
  if (plan.shards.length && isAdditive) lines.push(...plan.shards.map((each) => T.erase.subtracts(each.shard)));
  else if (plan.shards.length) {
    lines.push(T.erase.destroys(plan.destroyed.length), ...plan.shards.map((each) => T.erase.replays(each)));
    if (plan.seconds !== null) lines.push(T.erase.takes(plan.seconds, plan.joules));
    if (plan.shards.length > 1) lines.push(T.erase.inAll(plan.rsn));
  } else if (!plan.staged) lines.push(T.erase.nobody);
  return h("ul", {}, lines.map((line) => h("li", {}, line)));
}

// The dashboard: signs in, listens, and lets each part draw what it is there for.

import { Gone, Refused, api } from "./api.js";
import { startAccuracy } from "./accuracy.js";
import { startArrivals } from "./arrivals.js";
import { startBaselines } from "./baselines.js";
import { byId, say } from "./dom.js";
import { startErase } from "./erase.js";
import { listen } from "./events.js";
import { startFigures } from "./figures.js";
import { Story } from "./forget.js";
import { away, capital, listed, number, plural } from "./format.js";
import { Lineages } from "./lineages.js";
import { tell } from "./log.js";
import { startMemory } from "./memory.js";
import { Picture } from "./picture.js";
import { startQuarantine } from "./quarantine.js";
import { startReceipts } from "./receipts.js";
import { startRepairs } from "./repairs.js";
import { startRounds } from "./rounds.js";
import { SENTENCES } from "./sentences.js";
import { token } from "./session.js";
import { startTheme } from "./theme.js";
import { Timeline } from "./timeline.js";

const ROUTES = {
  status: "/v1/status", shards: "/v1/shards", subModels: "/v1/sub-models", rounds: "/v1/rounds?limit=20",
  requests: "/v1/requests?limit=20", receipts: "/v1/receipts?limit=20", evaluations: "/v1/evaluations?limit=200",
  baselines: "/v1/baselines", energy: "/v1/energy", log: "/v1/log",
};
const SLOW = ["baselines", "energy"]; // asked for when a round or a repair is over
const STAY_MS = 900; // of each step of a forget
const SHORT_MS = 220;

const state = {};
const may = { operate: false };
let stop = () => {};
let open = false;
let stale = true; // whether something happened that the picture may not show
let slow = true;

const context = { tell, failed, preview: (plan) => lineages.show(plan), redraw: render };
const picture = new Picture();
const lineages = new Lineages(picture);
const story = new Story();
const erase = startErase(context);
const receipts = startReceipts(context);
const panels = [startFigures(), startArrivals(context), startRepairs(context), startQuarantine(context), receipts.render, startMemory(), startAccuracy(context), startBaselines(), startRounds(context)];
const timeline = new Timeline(play, settle);

// An error where it belongs; without a valid token the way back is the form.
function failed(error, show) {
  if (error instanceof Refused && error.status === 401) return signedOut("The token is not valid any more: it has expired or was revoked.");
  if (error instanceof Gone) banner("The service does not answer. What is shown may be old; it is tried again.");
  if (show) show(error);
  else if (!(error instanceof Gone || error instanceof Refused)) throw error;
}

function banner(text) {
  byId("banner").hidden = !text;
  say(byId("banner"), text ?? "");
}

async function load(names) {
  const found = await Promise.all(names.map((each) => api.get(ROUTES[each])));
  names.forEach((each, index) => (state[each] = each === "shards" ? found[index].shards : found[index]));
}

function render() {
  if (!open) return;
  for (const panel of panels) panel(state, may.operate);
  const { status } = state;
  say(byId("device-line"), `${status.system}, version ${status.version}`);
  if (status.problem) banner(`There is a problem: ${status.problem}`);
  else if (byId("link").classList.contains("up")) banner(null);
}

function drawTraining() {
  const step = picture.training;
  byId("training").hidden = !step;
  if (!step) return;
  const [shard, round] = step.segment;
  say(byId("training-text"), `Shard ${shard}, round ${round}: epoch ${number(step.epoch)} of ${number(step.epochs)}`);
  byId("training-bar").max = Math.max(1, step.total);
  byId("training-bar").value = step.done;
}

function draw() {
  lineages.draw();
  drawTraining();
}

// What the service says, once nothing is left to be shown.
async function settle() {
  if (!open || !stale) return;
  try {
    const names = Object.keys(ROUTES).filter((each) => state[each] === undefined || !SLOW.includes(each) || slow);
    stale = slow = false;
    await load(names);
    picture.training = state.status.training;
    picture.take(state.shards, state.status.training);
    const waiting = new Set(state.requests.items.filter((each) => each.state === "in_effect").flatMap((each) => each.shards));
    const { next_deadline: next } = state.status.requests;
    story.resume([...waiting], next ? `due ${away(next)}` : "waits");
    if (story.step === 5) {
      const newest = state.receipts.items.find((each) => each.kind === "repair") ?? state.receipts.items[0];
      if (newest) story.signed(newest.number);
    }
    draw();
    render();
    if (state.baselines.state === "computing") setTimeout(look, 1_500);
  } catch (error) {
    stale = slow = true;
    failed(error);
    if (open) setTimeout(look, 3_000);
  }
}

function look() {
  slow = true;
  timeline.push("look", {});
}

// Shows one event; returns how long it is to be seen.
async function play(kind, data, hurried) {
  if (!open) return 0;
  const sentence = SENTENCES[kind]?.(data);
  if (sentence) tell(sentence, kind === "upload.staged" ? "upload" : "");
  if (kind !== "segment.epoch" && kind !== "hello") stale = true;
  switch (kind) {
    case "forget.effective":
      await forget(data, hurried);
      return 0; // it took its time itself
    case "training.started":
      if (data.what === "repair" && story.step !== null && story.step < 4) story.at(3);
      return 0;
    case "segment.epoch":
      picture.epoch(data);
      draw();
      return 30;
    case "segment.trained":
      picture.trained(data.segment);
      if (data.retrained) story.replaying(data.retrained);
      draw();
      return SHORT_MS;
    case "sub_model.admitted":
      picture.admitted(data.segment);
      draw();
      return SHORT_MS;
    case "sub_model.dropped":
      if (data.why !== "forgotten") picture.dropped(data.segment);
      draw();
      return 0;
    case "training.finished":
      picture.training = null;
      slow = true;
      draw();
      return 0;
    case "request.repaired":
      if (story.step !== null) story.repaired();
      return 0;
    case "round.closed":
      slow = true;
      await settle(); // its segments are to be seen before they are trained
      return SHORT_MS;
    case "verification.finished":
      receipts.finished(data);
      return 0;
    default:
      return 0;
  }
}

// The heart of the page: each step is seen before the next.
async function forget(data, hurried) {
  if (!data.samples && !data.shards.length) return tell("An erasure is in effect that touches nothing that was learned.");
  const stay = () => (hurried ? Promise.resolve() : new Promise((done) => setTimeout(done, STAY_MS)));
  picture.training = null;
  picture.lose(await api.shards());
  story.deleted(data.samples);
  tell(`${plural(data.samples, "sample")} deleted.`, "taint");
  draw();
  await stay();
  picture.taint(data.dropped);
  story.destroyed(data.dropped.length);
  tell(data.dropped.length ? `${plural(data.dropped.length, "tainted sub-model")} destroyed.` : "No stored sub-model had seen them.", "taint");
  draw();
  await stay();
  picture.fallBack(data.shards);
  story.fellBack(data.shards, picture);
  tell(data.shards.length ? `${capital(listed(data.shards.map((shard) => fallen(shard))))}.` : "No shard is touched.");
  draw();
  await stay();
  story.waits(data.rsn_planned);
  erase.again();
}

function fallen(shard) {
  const found = picture.shards.find((each) => each.shard === shard);
  if (!found) return `shard ${shard} holds nothing any more`;
  return found.head === null ? `shard ${shard} does not vote until it is replayed` : `shard ${shard} falls back to round ${found.head[1]} and keeps voting`;
}

function linked(up, text) {
  byId("link").hidden = false;
  byId("link").classList.toggle("up", up);
  say(byId("link-text"), text);
}

function start() {
  stop = listen({
    event: (kind, data) => timeline.push(kind, data),
    up: () => {
      linked(true, "Live");
      banner(null);
      look();
    },
    down: () => {
      linked(false, "Lost");
      banner("The service does not answer. What is shown may be old; it is tried again.");
    },
    busy: (why) => {
      linked(false, "Not live");
      banner(`The service refuses live updates to this tab: ${why}. Close other tabs, or reload to see what is new; it is tried again.`);
    },
    refused: () => signedOut("The token is not valid any more: it has expired or was revoked."),
  });
}

async function signIn() {
  const fail = (text) => signedOut(text);
  let found;
  try {
    found = await api.token();
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return fail("This token is not known here, has expired or was revoked.");
    if (error instanceof Refused && error.status === 429) return fail("Too many attempts: wait a second and try again.");
    return fail(error instanceof Gone ? "The service does not answer: is it running?" : capital(error.message));
  }
  if (!found.scopes.includes("operator") && !found.scopes.includes("auditor")) {
    return fail(`This token is for ${listed(found.scopes)}: the dashboard needs one of an operator or auditor.`);
  }
  may.operate = found.scopes.includes("operator");
  for (const id of ["erase", "upload-form", "evaluate-form"]) byId(id).hidden = !may.operate;
  open = stale = slow = true;
  await settle();
  byId("sign-in").hidden = true;
  byId("board").hidden = false;
  byId("sign-out").hidden = false;
  draw();
  start();
}

function signedOut(why) {
  open = false;
  stop();
  token.drop();
  erase.close();
  byId("board").hidden = true;
  byId("sign-out").hidden = true;
  byId("link").hidden = true;
  byId("log").replaceChildren();
  say(byId("device-line"), "");
  byId("sign-in").hidden = false;
  say(byId("sign-in-error"), why ?? "");
  byId("secret").focus();
}

byId("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.keep(byId("secret").value.trim());
  byId("secret").value = "";
  signIn();
});
byId("sign-out").addEventListener("click", () => {
  signedOut();
  location.reload(); // nothing of the device stays in the page
});
startTheme();
setInterval(() => open && state.status && render(), 30_000);
if (token.get()) signIn();
else signedOut();

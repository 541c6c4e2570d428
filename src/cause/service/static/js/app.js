// The dashboard: signs in, listens, and lets each part draw what it is there for.

import { Gone, Refused, api } from "./api.js";
import { startAccuracy } from "./accuracy.js";
import { startArrivals } from "./arrivals.js";
import { away } from "./away.js";
import { startBaselines } from "./baselines.js";
import { byId, say } from "./dom.js";
import { startErase } from "./erase.js";
import { listen } from "./events.js";
import { startFigures } from "./figures.js";
import { fillTexts } from "./fill-texts.js";
import { Story } from "./forget.js";
import { capital } from "./format.js";
import { startGlossary } from "./glossary.js";
import { LineageBoard } from "./lineage-board.js";
import { tell } from "./log.js";
import { startMemory } from "./memory.js";
import { Picture } from "./picture.js";
import { startQuarantine } from "./quarantine.js";
import { startReceipts } from "./receipts.js";
import { startRequests } from "./requests.js";
import { startRetrained } from "./retrained.js";
import { startRounds } from "./rounds.js";
import { token } from "./session.js";
import { T } from "./texts.js";
import { startTheme } from "./theme.js";
import { Timeline } from "./timeline.js";
import { startTokens } from "./tokens.js";
import { startVerdict } from "./verdict.js";

const ROUTES = {
  status: "/v1/status?limit=50", shards: "/v1/shards", subModels: "/v1/sub-models", open: "/v1/requests?state=in_effect&limit=50",
  evaluations: "/v1/evaluations?limit=1", log: "/v1/log", history: "/v1/history?points=160", baselines: "/v1/baselines", energy: "/v1/energy",
};
const FIRST = ["status", "shards", "subModels", "open", "evaluations", "log"]; // without which nothing can be shown
const SLOW = ["history", "baselines", "energy"]; // asked for when a round, a repair, an erasure or an evaluation is over
const STAY_MS = 900; // of each step of a forget
const SHORT_MS = 220;
const AGAIN_MS = 3_000; // after something that failed

const state = {};
const may = { operate: false };
let stop = () => {};
let open = false;
let connected = false; // whether the stream was up since the sign-in
let stale = true; // whether something happened that the picture may not show
let slow = true;
let again; // a sign-in that is tried again

fillTexts();
const context = { tell, failed, preview: (plan) => lineages.show(plan), isAdditive };
const picture = new Picture();
const lineages = new LineageBoard(picture);
const story = new Story();
const erase = startErase(context);
const receipts = startReceipts(context);
const requests = startRequests(context);
const rounds = startRounds(context);
const tokens = startTokens(context);
const panels = [startVerdict(context), startFigures(), startArrivals(context), requests.render, startQuarantine(context), receipts.render];
const charts = [startMemory(), startAccuracy(context), startRetrained()]; // once the history is there
const comparisons = [startBaselines()];
const timeline = new Timeline(play, settle);

// An error where it belongs; without a valid token the way back is the form.
function failed(error, show) {
  if (error instanceof Refused && error.status === 401) return signedOut(T.signIn.ended);
  if (error instanceof Gone) banner(T.page.gone);
  if (show) show(error);
  else if (!(error instanceof Gone || error instanceof Refused)) throw error;
}

// Whether a forget subtracts from the state of a shard, which needs no replay.
function isAdditive() {
  return state.status?.system.split(":")[0] === "additive";
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
  if (state.history) for (const chart of charts) chart(state);
  if (state.baselines) for (const comparison of comparisons) comparison(state);
  const { status } = state;
  say(byId("device-name"), status.name);
  say(byId("device-line"), T.page.system(status.system, status.version));
  document.title = T.page.title(status.name);
  if (byId("link").classList.contains("up")) banner(null);
}

function drawTraining() {
  const step = picture.training;
  byId("training").hidden = !step;
  if (!step) return;
  say(byId("training-text"), T.lineages.progress(step.segment, step.epoch, step.epochs));
  byId("training-bar").max = Math.max(1, step.total);
  byId("training-bar").value = step.done;
}

function draw() {
  lineages.draw();
  drawTraining();
}

// What the service says, once nothing is left to be shown: first what the page cannot do without, then the rest.
async function settle() {
  if (!open || !stale) return;
  try {
    const late = SLOW.filter((each) => state[each] === undefined || slow);
    stale = slow = false;
    await load(FIRST);
    picture.training = state.status.training;
    picture.additive = isAdditive();
    picture.take(state.shards, state.status.training);
    const waiting = new Set(state.open.items.flatMap((each) => each.shards));
    const { next_deadline: next } = state.status.requests;
    story.resume([...waiting].sort((a, b) => a - b), next ? T.story.due(away(next)) : T.story.waits);
    if (story.step === 5 && state.log.size) story.signed(state.log.size - 1);
    draw();
    render();
    shown();
    await Promise.all([requests.load(), receipts.load(), rounds.load(), load(late)]);
    render();
    if (state.baselines.state === "computing") setTimeout(look, 1_500);
  } catch (error) {
    stale = slow = true;
    failed(error);
    if (open) setTimeout(look, AGAIN_MS);
  }
}

function look() {
  slow = true;
  timeline.push("look", {});
}

// Shows one event; returns how long it is to be seen.
async function play(kind, data, hurried) {
  if (!open) return 0;
  const sentence = T.log.events[kind]?.(data);
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
    case "evaluation.made":
      slow = true;
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
  if (!data.samples && !data.shards.length) return tell(T.log.nothing);
  const stay = () => (hurried ? Promise.resolve() : new Promise((done) => setTimeout(done, STAY_MS)));
  slow = true;
  picture.training = null;
  let left;
  try {
    left = await api.shards();
    picture.lose(left);
  } catch (error) {
    setTimeout(look, AGAIN_MS);
    return failed(error);
  }
  story.deleted(data.samples);
  tell(T.log.deleted(data.samples), "taint");
  draw();
  await stay();
  picture.taint(data.dropped);
  story.destroyed(data.dropped.length);
  tell(T.log.destroyed(data.dropped.length), "taint");
  draw();
  await stay();
  if (isAdditive()) {
    picture.take(left, null);
    story.subtracted(data.shards, picture);
    tell(T.log.fallen(data.shards.map((shard) => (holds(shard) ? T.log.subtracted(shard) : T.log.empties(shard)))));
  } else {
    picture.fallBack(data.shards);
    story.fellBack(data.shards, picture);
    tell(T.log.fallen(data.shards.map((shard) => fallen(shard))));
  }
  draw();
  await stay();
  story.waits(data.rsn_planned);
  erase.again();
}

const holds = (shard) => picture.shards.find((each) => each.shard === shard);

function fallen(shard) {
  const found = holds(shard);
  if (!found) return T.log.empties(shard);
  return found.head === null ? T.log.pauses(shard) : T.log.fellBack(shard, found.head[1]);
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
      linked(true, T.page.live);
      banner(null);
      if (connected || state.history) look();
      else timeline.push("look", {}); // what is slow to make is being loaded, and nothing of it changed since
      connected = true;
    },
    down: () => {
      linked(false, T.page.lost);
      banner(T.page.gone);
    },
    busy: (why) => {
      linked(false, T.page.notLive);
      banner(T.page.busy(why));
    },
    refused: () => signedOut(T.signIn.ended),
  });
}

async function signIn() {
  const fail = (text) => signedOut(text);
  clearTimeout(again);
  let found;
  try {
    found = await api.token();
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return fail(T.signIn.unknown);
    if (error instanceof Refused && error.status === 429) return fail(T.signIn.attempts);
    if (!(error instanceof Gone) && error.status < 500) return fail(capital(error.message));
    askForToken(T.signIn.again(error instanceof Gone ? T.signIn.gone : `${capital(error.message)}.`));
    again = setTimeout(signIn, AGAIN_MS); // the token may be a good one, and its secret is shown nowhere else
    return;
  }
  if (!found.scopes.includes("operator") && !found.scopes.includes("auditor")) {
    return fail(T.signIn.scopes(found.scopes));
  }
  may.operate = found.scopes.includes("operator");
  for (const id of ["erase", "upload-form", "evaluate"]) byId(id).hidden = !may.operate;
  open = stale = slow = true;
  connected = false;
  if (found.scopes.includes("admin")) tokens.open(found);
  start();
  await settle();
}

// The board is seen as soon as there is something to see.
function shown() {
  if (!byId("board").hidden) return;
  byId("sign-in").hidden = true;
  byId("board").hidden = false;
  byId("sign-out").hidden = false;
  draw();
  performance.mark("board");
}

function signedOut(why) {
  open = false;
  clearTimeout(again);
  stop();
  token.drop();
  erase.close();
  tokens.close();
  byId("board").hidden = true;
  byId("sign-out").hidden = true;
  byId("link").hidden = true;
  byId("log").replaceChildren();
  say(byId("device-line"), "");
  say(byId("device-name"), "CAUSE");
  askForToken(why ?? "");
}

function askForToken(why) {
  byId("sign-in").hidden = false;
  say(byId("sign-in-error"), why);
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
startGlossary();
setInterval(() => open && state.status && render(), 30_000);
if (token.get()) signIn();
else signedOut();

// Every text of the page, in one file: to translate the page, translate this file and set `lang` in index.html. A value
// is a text, or a function that makes one; numbers and dates are put into the language by format.js.

import { bytes, capital, decimal, number, percent } from "./format.js";

const listed = (items) => (items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`);
const plural = (count, word, words = `${word}s`) => `${number(count)} ${count === 1 ? word : words}`;
const samples = (count) => plural(count, "sample");
const subModels = (count) => plural(count, "sub-model");
const shards = (numbers) => `${numbers.length === 1 ? "shard" : "shards"} ${listed(numbers.map(String))}`;
const round = ([, of, slice], sliced) => (sliced ? `round ${of}, slice ${slice}` : `round ${of}`);
const place = ([shard, of]) => `shard ${shard}, round ${of}`;
const expiring = (each) =>
  `${samples(each.samples)} of ${plural(each.users, "user")}${each.rounds.length ? ` (${each.rounds.length === 1 ? "round" : "rounds"} ${each.rounds.join(", ")})` : ""}`;

export const T = {
  page: {
    title: (name) => `${name} · CAUSE`,
    skip: "Skip to the content",
    system: (system, version) => `CAUSE ${version}, ${system}`,
    theme: "Theme",
    themes: { auto: "System", light: "Light", dark: "Dark" },
    signOut: "Sign out",
    glossary: "Glossary",
    docs: "Documentation",
    close: "Close",
    glance: "At a glance",
    live: "Live",
    lost: "Lost",
    notLive: "Not live",
    gone: "The service does not answer. What is shown may be out of date. Trying again…",
    busy: (why) => `The service refuses live updates to this tab: ${why}. Close other tabs, or reload to see what is new. Trying again…`,
    noAnswer: "the service does not answer",
    more: "more",
  },

  signIn: {
    title: "Sign in",
    secret: "Token of an operator or auditor",
    open: "Open the dashboard",
    why: "The token is kept in this tab's session storage until the tab is closed. It is sent in a header, never in an address. This command makes one:",
    ended: "The token is not valid any more: it has expired or was revoked.",
    unknown: "This token is unknown here, has expired or was revoked.",
    attempts: "Too many attempts: wait a second and try again.",
    gone: "The service does not answer: is it running?",
    again: (why) => `${why} Trying again…`,
    scopes: (scopes) => `This token is for ${listed(scopes)}: the dashboard needs one of an operator or auditor.`,
  },

  verdict: {
    states: { healthy: "Healthy", degraded: "Degraded", overdue: "Overdue" },
    overdue: (count) => `${plural(count, "erasure")} ${count === 1 ? "is" : "are"} past the deadline and not repaired.`,
    problem: (why) => `There is a problem: ${why}`,
    silent: (numbers, of) => `${capital(shards(numbers))} of ${number(of)} ${numbers.length === 1 ? "does" : "do"} not vote.`,
    silentMany: (count, of) => `${number(count)} of ${plural(of, "shard")} do not vote.`,
    quarantine: (uploads, count) => `${plural(uploads, "upload")} with ${samples(count)} ${uploads === 1 ? "is" : "are"} in quarantine.`,
    clock: (why) => `${capital(why)}.`,
    exports: (count) => `${plural(count, "export")} of the device ${count === 1 ? "holds" : "hold"} samples that were erased since: replace ${count === 1 ? "it" : "them"}.`,
    full: (share) => `${percent(share)} of the disk space for samples is used.`,
    soon: (count) => `${plural(count, "erasure")} must be repaired soon.`,
    healthy: "All shards vote, and nothing is late.",
    empty: "Nothing has been learned yet.",
    waiting: (count, due) => `All shards vote. ${plural(count, "erasure")} ${count === 1 ? "waits" : "wait"} for a repair, the next is due ${due}.`,
    training: "All shards vote. A training is under way.",
    more: (count) => `and ${plural(count, "further reason")}`,
    repair: "Repair now",
    show: "Show them",
    repairing: "A repair is under way.",
  },

  figures: {
    round: "Round", waits: (count) => `${number(count)} samples wait`, noneWaits: "nothing waits",
    held: "Samples held", shards: (count) => plural(count, "shard"),
    voting: "Voting", votes: (voting, of) => `${number(voting)} of ${number(of)}`,
    silent: (count) => `${plural(count, "shard")} without a vote`, behind: (count) => `${plural(count, "shard")} behind`, upToDate: "all up to date",
    memory: "Memory", slots: (used, of) => `${number(used)} of ${number(of)}`, share: (share, budget) => `${percent(share)} of ${bytes(budget)}`,
    retrained: "Retrained", soFar: "samples so far",
    accuracy: "Accuracy", notEvaluated: "not evaluated",
    expected: (count, of, when) => `leave-one-out: ${count === of ? samples(count) : `${number(count)} of ${samples(of)}`}, ${when}`,
    evaluated: (of, voters) => `round ${of}, with ${plural(voters, "voter")}`,
    outdated: (of, voters, now) => `round ${of}, with ${plural(voters, "voter")}; now ${number(now)} vote`,
    open: "Open requests", overdue: (count) => `${number(count)} overdue`, due: (when) => `due ${when}`, noneDue: "none is due",
  },

  lineages: {
    title: "Shards and their lineages",
    steps: "Steps of a forget",
    keys: "Lineages: arrow keys go from segment to segment",
    empty: "Nothing has been learned yet. Upload samples and close a round: each shard then appears here as a row.",
    choose: "Choose a segment to see what a forget in it would replay.",
    legend: "Legend",
    keysOf: {
      segment: "segment: taller means more samples", shade: "segment: a stronger colour means more samples", waits: "waits for training",
      stored: "stored sub-model", tick: "not stored", head: "head: it votes", goes: "tainted: will be destroyed",
      replayed: "would be replayed", restarts: "would restart from here",
    },
    table: "Lineages as a table",
    caption: "Segments of every shard",
    columns: { shard: "Shard", segment: "Segment", samples: "Samples", subModel: "Sub-model", state: "State", replays: "A forget replays" },
    votes: "stored, votes", stored: "stored", notStored: "not stored", waits: "waits", trained: "trained",
    replays: (segments, count) => `${plural(segments, "segment")}, ${samples(count)}`,
    nothing: "nothing: it is subtracted",
    shard: (number_, active) => `Shard ${number_}${active ? "" : " · frozen"}`,
    row: (count, state) => `${number(count)} samples, ${state}`,
    silent: "does not vote", behind: (count) => `${count} behind`, upToDate: "up to date",
    round: (of) => `round ${of}`, roundOf: round,
    sentence: ({ shard, segment, sliced, count, waits, trained, head, stored, restart, replay, rsn, additive }) =>
      `Shard ${shard}, ${round(segment, sliced)}: ${samples(count)}, ${waits ? (trained ? "waits to be trained again" : "waits for its first training") : "trained"}, ` +
      `${head ? "its sub-model is stored and votes" : stored ? "its sub-model is stored" : "its sub-model is not stored"}. ` +
      (additive ? "A forget here would subtract its samples and replay nothing." : `A forget here would ${restart === null ? "start from scratch" : `restart from ${round(restart, sliced)}`} and replay ${plural(replay, "segment")}, ${samples(rsn)} trained again at most.`),
    progress: ([shard, of], epoch, epochs) => `Shard ${shard}, round ${of}: epoch ${number(epoch)} of ${number(epochs)}`,
  },

  story: {
    steps: ["Samples deleted", "Tainted sub-models destroyed", "Fall back to clean sub-models", "Replay", "Repaired, receipt signed"],
    before: "before", done: "done", waits: "waits", due: (when) => `due ${when}`,
    shards: (numbers) => capital(shards(numbers)),
    destroyed: (count) => (count ? subModels(count) : "none was tainted"),
    empty: (shard) => `shard ${shard} is empty`, pauses: (shard) => `shard ${shard} pauses`, votes: (shard, of) => `shard ${shard} votes with round ${of}`,
    without: (shard) => `shard ${shard} votes without them`,
    fallen: (texts) => (texts.length ? capital(listed(texts)) : "no shard is touched"),
    toReplay: (count) => `${samples(count)} to replay`, again: (count) => `${samples(count)} trained again`, receipt: (number_) => `receipt ${number_}`,
    lost: (count) => `−${number(count)}`,
  },

  log: {
    title: "What happens",
    empty: "Nothing yet. Events are listed here as they happen.",
    nothing: "An erasure is in effect. Nothing had been learned from its samples.",
    deleted: (count) => `${samples(count)} deleted.`,
    destroyed: (count) => (count ? `${plural(count, "tainted sub-model")} destroyed.` : "No stored sub-model had seen them."),
    fallen: (texts) => (texts.length ? `${capital(listed(texts))}.` : "No shard is touched."),
    empties: (shard) => `shard ${shard} holds nothing any more`,
    pauses: (shard) => `shard ${shard} does not vote until it is replayed`,
    subtracted: (shard) => `shard ${shard}: its samples are subtracted, and it keeps voting`,
    fellBack: (shard, of) => `shard ${shard} falls back to round ${of} and keeps voting`,
    events: {
      "upload.staged": (e) => `${samples(e.samples)} arrived; ${number(e.staged)} wait for the next round.`,
      "round.closed": (e) => `Round ${e.round} is closed: ${samples(e.samples)} of ${plural(e.users, "user")}.`,
      "training.started": (e) => `${e.what === "repair" ? "Replay" : "Training"} of ${shards(e.shards)} begins.`,
      "upload.quarantined": (e) => `${capital(place(e.segment))}: ${plural(e.uploads, "upload")} ${e.uploads === 1 ? "makes" : "make"} training fail and ${e.uploads === 1 ? "is" : "are"} in quarantine.`,
      "segment.trained": (e) => (e.retrained ? `${capital(place(e.segment))} was trained again on ${samples(e.retrained)}.` : `${capital(place(e.segment))} was trained.`),
      "sub_model.dropped": (e) =>
        e.why === "evicted" ? `The sub-model of ${place(e.segment)} was evicted to make room in memory.` : e.why === "damaged" ? `The sub-model of ${place(e.segment)} was damaged and has been deleted.` : null,
      "training.finished": (e) =>
        e.waiting.length ? `Training stopped; ${shards(e.waiting)} still ${e.waiting.length === 1 ? "waits" : "wait"}.` : e.what === "repair" ? `The replay is done: ${samples(e.rsn)} trained again.` : "All shards are up to date.",
      "request.repaired": (e) => `Request ${e.request.slice(0, 8)} is repaired and its receipt is signed.`,
      "evaluation.made": (e) => `Accuracy is ${percent(e.accuracy)} on ${samples(e.samples)}.`,
    },
  },

  erase: {
    title: "Erase", user: "User", look: "Look up", what: "What to forget",
    held: "Stored for ", holds: (count, staged) => `: ${samples(count)}${staged ? `, and ${samples(staged)} that wait for the next round` : ""}.`,
    all: "Everything", some: "Some rounds:", single: "Some samples:",
    round: (of, count, numbers) => ` round ${of}: ${samples(count)}, ${shards(numbers)}`,
    count: "Number of samples at most (optional)",
    plan: "What this would do", chooseRound: "Choose a round.", chooseSample: "Choose a sample.",
    confirm: (count) => (count ? `Erase ${samples(count)}` : "Erase"), cancel: "Cancel",
    inEffect: (id, note) => `An erasure is in effect: request ${id.slice(0, 8)}.${note ? ` ${capital(note)}` : ""}`,
    deletes: (count, staged) => `Deletes ${samples(count)}${staged ? ` and ${samples(staged)} that ${staged === 1 ? "waits" : "wait"}` : ""}.`,
    subtracts: (shard) => `Subtracts them from the state of shard ${shard}. Nothing is trained again.`,
    destroys: (count) => (count ? `Destroys ${plural(count, "tainted sub-model")} at once.` : "No stored sub-model has seen them."),
    replays: ({ shard, restart, replay, rsn }) =>
      `Shard ${shard} ${restart === null ? "starts from scratch" : `falls back to round ${restart[1]}`} and ` +
      `${replay.length ? `replays ${replay.length > 4 ? `${number(replay.length)} rounds, from ${replay[0][1]} to ${replay.at(-1)[1]}` : listed(replay.map((key) => `round ${key[1]}`))}: ${samples(rsn)} again` : "has nothing left to replay"}.`,
    takes: (seconds, joules) => `Takes about ${decimal(seconds)} s${joules === null ? "" : ` and ${decimal(joules)} J`}.`,
    inAll: (count) => `${number(count)} samples are trained again in all.`,
    nobody: "No samples of this user are stored. A receipt is signed all the same.",
  },

  samples: {
    region: "Table of samples", caption: "Samples of this user, the newest first", forget: "Forget", round: "Round", label: "Label", arrived: "Arrived", handle: "Handle",
    sample: (handle) => `Sample ${handle}`, waits: "waits", older: "Older samples",
    file: "Or choose those that a file holds (.csv, .npz, .safetensors or .json)",
    matched: (count, rows, unmatched) => `${samples(count)} equal a row of the file; ${number(unmatched)} of its ${plural(rows, "row")} equal nothing.`,
  },

  arrivals: {
    title: "Next round", form: "Upload samples",
    user: "User (leave empty if the files name the user of each sample)",
    file: "Samples (.csv, .npz, .safetensors, .json or pictures); several files may be chosen",
    label: "Label of the pictures", upload: "Upload", uploading: (at, of, name) => `Uploading ${number(at)} of ${number(of)}: ${name}`,
    uploaded: (count, files) => (files === 1 ? `${samples(count)} uploaded and encrypted, waiting for the next round.` : `${samples(count)} of ${plural(files, "file")} uploaded and encrypted, waiting for the next round.`),
    stopped: (name, why, done, of) => `${name}: ${why}${of > 1 ? ` (${number(done)} of ${plural(of, "file")} were uploaded)` : ""}`,
    close: "Close the round", closeAndDelete: (each) => `Close it and delete ${expiring(each)}`,
    waits: (staged, next) => `${samples(staged.samples)} of ${plural(staged.users, "user")} in ${plural(staged.uploads, "upload")} (${bytes(staged.bytes)}) wait for round ${next}.`,
    nothing: (next) => `Nothing waits for round ${next}.`,
    every: (seconds) => `every ${plural(seconds, "second")}`, at: (count) => `at ${samples(count)}`, closes: (rules) => ` It closes by itself ${rules.join(" or ")}.`,
    kept: (retain) => `Samples are kept for ${retain}.`,
    deletes: (each) => (each.samples ? `Closing the next round deletes ${expiring(each)}.` : "Closing the next round deletes nothing."),
    expires: (when, each) => `Next to expire, from ${when} on: ${expiring(each)}.`,
  },

  requests: {
    title: "Requests and repairs", region: "Table of requests", caption: "Requests, newest first", empty: "No erasure has been asked for.", none: "No request matches.",
    columns: { id: "Request", state: "State", samples: "Samples", shards: "Shards", received: "Received", when: "When" },
    states: { accepted: "accepted", in_effect: "in effect, repair waits", repaired: "repaired" },
    filters: { "": "every state", open: "not repaired", overdue: "overdue", in_effect: "in effect", accepted: "accepted", repaired: "repaired" },
    search: "Id of a request", overdue: (since) => `overdue since ${since}`, due: (when) => `due ${when}`,
    policies: { now: "Repairs start by themselves, at once.", idle: "Repairs start when the machine is idle.", deadline: "Repairs start when a deadline comes near.", never: "Repairs start only when asked for." },
    fresh: "New samples are trained at once; nothing waits for a repair.",
    waits: ({ waiting, trainings, samples: count, seconds, joules }) =>
      `${capital(shards(waiting))} ${waiting.length === 1 ? "waits" : "wait"}: ${plural(trainings, "training")}, ${samples(count)}${seconds === null ? "" : `, about ${decimal(seconds)} s`}${joules === null ? "" : ` and ${decimal(joules)} J`}.`,
    noneWaits: "No shard waits.", repair: "Repair now", nothing: "Nothing waits for a repair.", many: (count) => `${number(count)} shards`,
  },

  receipts: {
    title: "Receipts", region: "Table of receipts", caption: "Receipts, newest first", empty: "No receipt has been signed yet.", none: "No receipt matches.",
    columns: { number: "No.", kind: "Type", request: "Request", samples: "Samples", signed: "Signed", replay: "Verification" },
    kinds: { effect: "erasure in effect", repair: "repair", restore: "restore from a backup" },
    filters: { "": "every kind", effect: "in effect", repair: "repairs", restore: "restores" },
    search: "No. or request",
    verifyAll: "Verify all sub-models", verify: "Verify", again: "Again", replaying: "Replaying…", save: "Save",
    verifyOne: (number_) => `Verify receipt ${number_}`, saveOne: (number_) => `Download receipt ${number_}`,
    replayingAll: "Every stored sub-model is being replayed…", all: "All stored sub-models", one: (number_) => `Receipt ${number_}`,
    result: (what, verdict) => `${what}: ${verdict}.`, resultAt: (what, verdict, when) => `${what}: ${verdict}, ${when}.`,
    log: (size, key) => `The log has ${plural(size, "entry", "entries")}; its key is ${key}`,
    failed: (why) => `not checked: ${why}`, mismatch: (count, of) => `mismatch: ${number(count)} of ${subModels(of)}`,
    identical: (count, of) => `identical: ${number(count)} of ${subModels(of)}`, superseded: (count) => `${number(count)} superseded by later changes`,
    unverifiable: (count) => `${number(count)} cannot be checked here`, nothing: "nothing was replayed: there is no sub-model to compare",
  },

  lists: {
    find: "Find", from: "From", to: "To", kind: "Show", clear: "Clear", newer: "Newer", older: "Older",
    page: (first, last) => `${number(first)} to ${number(last)}`, filter: (what) => `Filter: ${what}`, searching: "Searching…", wrongId: "An id has the digits 0 to 9 and a to f.",
  },

  quarantine: {
    title: "Quarantine", why: "Samples that make training fail. They are kept, and no sub-model has learned from them.", caption: "Uploads in quarantine",
    first: (shown, all) => `These are the first ${shown} of ${plural(all, "upload")}. The others follow when these are dropped.`,
    columns: { upload: "Upload", user: "User", round: "Round", shard: "Shard", samples: "Samples", verdict: "Error", action: "Action" },
    drop: "Drop", dropOne: (upload) => `Drop upload ${upload}`, sure: "Destroy these samples?",
  },

  memory: {
    title: "Memory", used: (count, size, budget, kept) => `${subModels(count)} ${count === 1 ? "takes" : "take"} ${size} ${budget}. Samples take ${kept}.`,
    unlimited: "without a limit", share: (budget, share) => `of ${bytes(budget)} (${percent(share)})`, of: (used, budget) => `${used} of ${budget}`,
    meter: (share) => `${percent(share)} of the budget is used`, slots: (count) => plural(count, "slot"),
    shard: (shard) => `shard ${shard}`, votes: ", votes", free: "free", slot: (at, text) => `Slot ${at}: ${text}`,
    table: "Stored sub-models as a table", caption: "Stored sub-models", columns: { slot: "Slot", shard: "Shard", upto: "Up to", size: "Size", votes: "Votes" }, yes: "yes", no: "no",
    chart: (first, last) => `Memory of sub-models over time: from ${bytes(first)} to ${bytes(last)}`, point: (size, count, when) => `${bytes(size)}, ${subModels(count)}, ${when}`,
    since: "The service records this from its first start on. A chart needs two points.",
  },

  accuracy: {
    title: "Accuracy over time", empty: "Nothing has been evaluated yet.",
    chart: (newest, oldest) => `Accuracy over time: ${percent(newest.accuracy)} in round ${newest.round}, ${percent(oldest.accuracy)} in round ${oldest.round}; the table has all`,
    point: (each, when) => `${percent(each.accuracy)} with ${plural(each.voters, "voter")}, round ${each.round}, ${when}`,
    percent: (share) => `${Math.round(100 * share)} %`,
    legend: { all: "with all voters", fewer: "with fewer voters", voters: "voters", erasures: "erasures" },
    erased: (requests, count, when) => `${plural(requests, "erasure")} of ${samples(count)}, ${when}`,
    table: "Evaluations as a table", caption: "Evaluations, newest first",
    columns: { at: "At", round: "Round", accuracy: "Accuracy", samples: "Samples", voters: "Voters" },
    file: "Evaluate with labelled samples (.csv, .npz, .safetensors or .json); only the result is kept", evaluate: "Evaluate", form: "Evaluate now",
  },

  retrained: {
    title: "Retrained samples over time",
    chart: (total) => `Retrained samples over time: ${number(total)} so far`, empty: "Nothing has been trained again yet.",
    point: (total, joules, when) => `${samples(total)}${joules === null ? "" : `, ${decimal(joules)} J`}, ${when}`,
    energy: (joules) => `About ${decimal(joules)} J by this device's calibration.`, unknown: (why) => `Joules are not known: ${why}.`,
    table: "Retrained samples by round", caption: "Retrained samples by round", columns: { round: "Round", closed: "Closed", retrained: "Retrained", joules: "Joules" },
  },

  baselines: {
    title: "Retrained samples against the paper's systems", own: "this device",
    intro: "Every system on this device's own history. ", unknown: (why) => `Joules are not known: ${why}. `, calibrated: "Joules by this device's calibration.",
    computing: "The paper's systems are being simulated…", failed: (why) => `The simulation failed: ${why}`, none: "There is no history yet to simulate.",
    cannot: (system, why) => `${system} cannot run on this history: ${why}`, joules: (joules) => `${decimal(joules)} J`,
    noMeter: (why) => `No meter: ${why}.`, meter: (meter) => `Meter: ${meter}.`, bars: "Retrained samples",
    table: "Retrained samples as a table", caption: "Retrained samples",
    columns: { system: "System", retrained: "Retrained", floor: "With unlimited memory", seconds: "Seconds", joules: "Joules", byRound: "By round" },
  },

  rounds: {
    title: "Rounds", region: "Table of rounds", caption: "Rounds, newest first", empty: "No round has been closed yet.", none: "No round matches.",
    states: { training: "training", waiting: "waiting", trained: "trained", empty: "empty" },
    columns: { round: "Round", closed: "Closed", state: "State", users: "Users", arrived: "Arrived", held: "Held", segments: "Segments", retrained: "Retrained" },
    of: (trained, segments) => `${number(trained)} of ${number(segments)}`,
  },

  tokens: {
    title: "Tokens", open: "Tokens", region: "Table of tokens", caption: "Tokens, newest first", none: "There is no token.",
    columns: { id: "Id", scopes: "Scopes", note: "Note", expires: "Expires", state: "State", action: "Action" },
    valid: "valid", revoked: (when) => `revoked ${when}`, expired: "expired", yours: "this one", revoke: "Revoke", revokeOne: (id) => `Revoke token ${id}`, sure: "Revoke it?",
    make: "Make a token", scopes: "What it may do",
    scopeOf: { user: "user: upload, erase and predict for one user", ingest: "ingest: upload for any user", predict: "predict", operator: "operator: everything but tokens", auditor: "auditor: look and verify", admin: "admin: tokens" },
    user: "User it is for", note: "Note (no names)", days: "Days until it expires", create: "Make",
    made: "This secret is shown once. Copy it now:", copy: "Copy", copied: "Copied", done: "Done",
  },

  glossary: {
    title: "Glossary",
    terms: [
      ["Shard", "A part of the users. Each shard learns alone, so that forgetting touches few of them.", "device.md"],
      ["Round", "Uploads that are learned together. Closing a round trains one segment in each shard that has new samples.", "service.md"],
      ["Segment", "The samples of one shard in one round, or a slice of it.", "device.md"],
      ["Lineage", "The segments of a shard, oldest first. Each sub-model is trained from the one before it.", "device.md"],
      ["Sub-model", "What a shard has learned up to a segment. Only some are stored, as the memory allows.", "device.md"],
      ["Head", "The newest stored sub-model of a shard. The heads vote on each prediction.", "device.md"],
      ["Tainted", "A sub-model that has seen samples that are erased. It is destroyed at once.", "glossary.md"],
      ["In effect", "No stored or serving sub-model has seen the erased samples; their keys are destroyed and the receipt is signed.", "service.md"],
      ["Replay, repair", "Training a shard again from its newest clean sub-model, without what was erased.", "laws.md"],
      ["Behind", "A shard votes with an older sub-model until its repair or training is done.", "service.md"],
      ["Retrained samples", "How many samples were trained again because others were erased: the cost of forgetting.", "service.md"],
      ["Receipt", "A signed note in the device's log that says what was destroyed and when. It names nobody.", "service.md"],
      ["Verify by replay", "Training the sub-models that a receipt names once more, and comparing every bit.", "service.md"],
      ["Quarantine", "Uploads that make training fail. No sub-model has learned from them.", "device.md"],
      ["Retention", "How long samples are kept before they are erased by their age.", "operations.md"],
    ],
    read: (file) => `Read more in ${file}`,
  },

  time: {
    spans: { day: (n) => plural(n, "day"), hour: (n) => plural(n, "hour"), minute: (n) => plural(n, "minute"), second: (n) => plural(n, "second") },
    now: "now", ahead: (span) => `in ${span}`, ago: (span) => `${span} ago`,
  },
};

// A device's own software in JavaScript: uploads, a round, predictions, an erasure, and its receipt checked with no code
// but this. Node 20 or newer, no packages.
//
//   cause serve device &
//   CAUSE_TOKEN=$(cause token create device --scope operator) node examples/client.mjs

import { createHash, createPublicKey, verify } from "node:crypto";

const base = process.env.CAUSE_URL ?? "http://127.0.0.1:8470";
const token = process.env.CAUSE_TOKEN;
if (!token) throw new Error("CAUSE_TOKEN is not set: cause token create HOME --scope operator");

async function call(method, path, body, headers = {}) {
  const answer = await fetch(base + path, {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const payload = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${payload.status} ${payload.detail}`); // problem+json
  return payload;
}

async function until(path, done) {
  for (;;) {
    const payload = await call("GET", path);
    if (done(payload)) return payload;
    await new Promise((next) => setTimeout(next, 50));
  }
}

// A receipt is a signed note (C2SP): a text, an empty line, signatures. Its hash is a leaf of a Merkle tree (RFC 6962).

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();

function publicKey(verifier) {
  const raw = Buffer.from(verifier.split("+").slice(2).join("+"), "base64").subarray(1);
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]); // an Ed25519 key as SPKI
  return createPublicKey({ key: der, format: "der", type: "spki" });
}

function opened(note, key) {
  const end = note.lastIndexOf("\n\n") + 1;
  const text = note.slice(0, end);
  const signed = note.slice(end).split("\n").some((line) => {
    if (!line.startsWith("— ")) return false;
    const signature = Buffer.from(line.split(" ")[2], "base64").subarray(4);
    return verify(null, Buffer.from(text), key, signature);
  });
  if (!signed) throw new Error("the device did not sign this");
  return text;
}

function rootFrom(leaf, number, size, proof) {
  let [node, index, last] = [leaf, number, size - 1];
  for (const sibling of proof) {
    if (index % 2 === 1 || index === last) {
      node = sha256(Buffer.from([1]), sibling, node);
      while (index % 2 === 0 && index !== 0) [index, last] = [index / 2, Math.floor(last / 2)];
    } else {
      node = sha256(Buffer.from([1]), node, sibling);
    }
    [index, last] = [Math.floor(index / 2), Math.floor(last / 2)];
  }
  if (last !== 0) throw new Error("the proof is too short");
  return node;
}

function checked(bundle, key) {
  const receipt = JSON.parse(opened(bundle.receipt, key));
  const [, size, root] = opened(bundle.checkpoint, key).split("\n");
  const leaf = sha256(Buffer.from([0]), Buffer.from(bundle.receipt));
  const proof = bundle.proof.map((each) => Buffer.from(each, "base64"));
  const computed = rootFrom(leaf, bundle.number, Number(size), proof).toString("base64");
  if (computed !== root) throw new Error("the log does not contain this receipt");
  return receipt;
}

// What a device does

const status = await call("GET", "/v1/status");
const values = status.inputs.values;
const sample = (label) => Array.from({ length: values }, (_, at) => label + Math.sin(31 * label + at + Math.random()));
const samples = (count) =>
  Array.from({ length: count }, (_, at) => ({ x: sample(at % status.classes), y: at % status.classes }));

for (const user of ["alice", "bob"]) {
  const staged = await call("POST", `/v1/users/${user}/samples`, { samples: samples(40) });
  console.log(`${user} uploaded ${staged.samples} samples`);
}
const round = await call("POST", "/v1/rounds");
await until(`/v1/rounds/${round.round}`, (payload) => payload.state === "trained");
console.log(`round ${round.round} is trained`);

const { labels } = await call("POST", "/v1/predictions", { inputs: [sample(0), sample(1)] });
console.log(`predicted ${labels.join(" and ")}`);

const once = { "Idempotency-Key": `erase-alice-${round.round}` }; // may be sent again after a lost answer
const request = await call("POST", "/v1/users/alice/erasures", {}, once);
const again = await call("POST", "/v1/users/alice/erasures", {}, once);
if (again.id !== request.id) throw new Error("the same request was served twice");
const effect = await until(`/v1/requests/${request.id}`, (payload) => payload.state !== "accepted");
console.log(`${effect.samples} samples of alice are gone`);
await until(`/v1/requests/${request.id}`, (payload) => payload.state === "repaired");

const key = publicKey((await call("GET", "/v1/log")).verifier);
const { receipts } = await call("GET", `/v1/requests/${request.id}/receipts`);
for (const bundle of receipts) {
  const receipt = checked(bundle, key);
  console.log(`receipt ${bundle.number} (${receipt.kind}) is signed and in the log`);
}

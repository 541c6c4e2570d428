// The service's routes. An error says what it is, in the service's own words.

import { token } from "./session.js";
import { T } from "./texts.js";

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export class Gone extends Error {}

export const headers = (more) => ({ Authorization: `Bearer ${token.get()}`, ...more });

const TIMEOUT_MS = 30_000;
const LONG_MS = 600_000; // for files

async function ask(path, options = {}) {
  let answer;
  const signal = AbortSignal.timeout(options.body instanceof Blob ? LONG_MS : TIMEOUT_MS);
  try {
    answer = await fetch(path, { ...options, signal, headers: headers(options.headers), cache: "no-store", credentials: "omit" });
  } catch {
    throw new Gone(T.page.noAnswer);
  }
  const body = await answer.json().catch(() => {
    if (answer.ok) throw new Gone(T.page.noAnswer); // it was cut off
    return {};
  });
  if (!answer.ok) {
    const why = body.errors?.map((each) => each.message).join("; ");
    throw new Refused(answer.status, [body.detail ?? answer.statusText, why].filter(Boolean).join(": "));
  }
  return body;
}

const post = (path, body, more = {}) =>
  ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...more } });

function key() {
  const made = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is missing where there is no TLS
  return { "Idempotency-Key": Array.from(made, (byte) => byte.toString(16).padStart(2, "0")).join("") };
}

// Sends requests that must not be made twice. Each has a key of its own, and keeps it while its answer is lost: the same
// request, sent again, is answered with what became of the first one.
export class Attempts {
  last = null;

  // `what` says which request it is; `send(header)` sends it.
  async send(what, send) {
    if (this.last?.what !== what) this.last = { what, header: key() };
    try {
      const answer = await send(this.last.header);
      this.last = null;
      return answer;
    } catch (error) {
      if (!(error instanceof Gone)) this.last = null;
      throw error;
    }
  }

  drop() {
    this.last = null;
  }
}

// The path of a user's data. Browsers delete the segments . and .., and proxies decode slashes: such an id goes into the query.
function of(user, part = "", query = []) {
  const aside = user === "." || user === ".." || /[/\\]/.test(user);
  const more = [...(aside ? [`user=${encodeURIComponent(user)}`] : []), ...query].join("&");
  return (aside ? "/v1/user" : `/v1/users/${encodeURIComponent(user)}`) + part + (more && `?${more}`);
}

export const api = {
  get: (path) => ask(path),
  token: () => ask("/v1/token"),
  shards: async () => (await ask("/v1/shards")).shards,
  user: (user) => ask(of(user)),
  samples: (user, limit, before) => ask(of(user, "/samples", [`limit=${limit}`, ...(before === null ? [] : [`before=${before}`])])),
  match: (user, file, type) => ask(of(user, "/samples/matching"), { method: "POST", body: file, headers: { "Content-Type": type } }),
  plan: (user, body) => post(of(user, "/erasures/plan"), body),
  erase: (user, body, key) => post(of(user, "/erasures"), body, key),
  upload: (user, file, type, label, key) =>
    ask(of(user, "/samples", label === null ? [] : [`label=${encodeURIComponent(label)}`]), {
      method: "POST", body: file, headers: { "Content-Type": type, ...key },
    }),
  uploadAll: (file, type, key) => ask("/v1/samples", { method: "POST", body: file, headers: { "Content-Type": type, ...key } }),
  evaluate: (file, type) => ask("/v1/evaluations", { method: "POST", body: file, headers: { "Content-Type": type } }),
  closeRound: (key) => post("/v1/rounds", undefined, key),
  drop: (upload) => post(`/v1/quarantine/${encodeURIComponent(upload)}/drop`),
  repair: () => post("/v1/repairs"),
  verify: (receipt) => post(receipt === null ? "/v1/verifications" : `/v1/receipts/${receipt}/verification`),
  createToken: (body) => post("/v1/tokens", body),
  revokeToken: (id) => post(`/v1/tokens/${encodeURIComponent(id)}/revocation`),
  verification: (id) => ask(`/v1/verifications/${id}`),
};

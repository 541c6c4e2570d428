// Tokens, for an admin: who may do what, new ones, and revoking.

import { api } from "./api.js";
import { away } from "./away.js";
import { byId, h, isDouble, once, put, say } from "./dom.js";
import { capital, stamp } from "./format.js";
import { List } from "./list.js";
import { T } from "./texts.js";

export function startTokens(context) {
  const fail = (error) => say(byId("tokens-error"), error ? capital(error.message) : "");
  const dialog = byId("tokens-dialog");
  let own = null;

  put(byId("token-scopes"), Object.entries(T.tokens.scopeOf).map(([scope, text]) =>
    h("label", { class: "choice" }, h("input", { type: "checkbox", name: "scope", value: scope, onchange: toggled }), " ", text)));

  const scopes = () => [...byId("token-form").querySelectorAll("input[name=scope]:checked")].map((each) => each.value);
  function toggled() {
    byId("token-user-row").hidden = !scopes().includes("user");
  }

  const { columns } = T.tokens;
  const list = new List({
    name: "tokens", route: "/v1/tokens", size: 8, caption: T.tokens.caption, region: T.tokens.region, empty: T.tokens.none, none: T.tokens.none,
    more: (row) => ({ shown: row.valid ? T.tokens.valid : row.revoked === null ? T.tokens.expired : T.tokens.revoked(away(row.revoked)) }),
    columns: [
      [columns.id, (row) => [h("code", {}, row.id.slice(0, 8)), row.id === own ? ` (${T.tokens.yours})` : ""]],
      [columns.scopes, (row) => row.scopes.join(", ")],
      [columns.note, (row) => row.note, "wide"],
      [columns.expires, (row) => h("time", { datetime: row.expires }, stamp(row.expires)), "wide"],
      [columns.state, (row) => h("span", { class: row.valid ? "" : "muted" }, row.shown)],
      [columns.action, (row) => (row.valid ? revoke(row) : "")],
    ],
  }, context.failed);

  function revoke(row) {
    const button = h("button", { type: "button", class: "small", "data-focus": `revoke ${row.id}`, "aria-label": T.tokens.revokeOne(row.id) }, T.tokens.revoke);
    let sure = false;
    button.addEventListener("blur", () => {
      sure = false;
      say(button, T.tokens.revoke);
    });
    button.addEventListener("click", once(async (event) => {
      if (isDouble(event)) return;
      if (!sure) {
        sure = true;
        return say(button, T.tokens.sure);
      }
      fail(null);
      try {
        await api.revokeToken(row.id);
        list.load();
      } catch (error) {
        context.failed(error, fail);
      }
    }));
    return button;
  }

  byId("token-form").addEventListener("submit", once(async () => {
    fail(null);
    const chosen = scopes();
    const body = { scopes: chosen, note: byId("token-note").value, days: Number(byId("token-days").value) };
    if (chosen.includes("user")) body.user = byId("token-user").value;
    try {
      const made = await api.createToken(body);
      byId("token-form").reset();
      toggled();
      byId("token-made").hidden = false;
      byId("token-secret").value = made.secret;
      byId("token-secret").focus();
      byId("token-secret").select();
      list.load();
    } catch (error) {
      context.failed(error, fail);
    }
  }));

  byId("token-copy").addEventListener("click", async () => {
    byId("token-secret").select();
    try {
      await navigator.clipboard.writeText(byId("token-secret").value); // missing where there is no TLS
    } catch {
      document.execCommand("copy");
    }
    say(byId("token-copy"), T.tokens.copied);
  });
  byId("token-done").addEventListener("click", () => {
    byId("token-secret").value = ""; // nothing of it stays in the page
    byId("token-made").hidden = true;
    say(byId("token-copy"), T.tokens.copy);
  });

  byId("tokens-open").addEventListener("click", () => {
    list.load();
    dialog.showModal();
  });
  byId("tokens-close").addEventListener("click", () => dialog.close());

  return {
    open: (token) => {
      own = token.id;
      byId("tokens-open").hidden = false;
    },
    close: () => {
      byId("tokens-open").hidden = true;
      dialog.close();
      byId("token-secret").value = "";
      byId("token-made").hidden = true;
    },
  };
}

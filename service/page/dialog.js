// Questions before what cannot be undone, and for the token.

import { hasToken, setToken } from "./api.js";
import { el } from "./dom.js";

function open(dialog) {
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** Asks, and calls `act` if the answer is yes. */
export function confirm(title, words, yes, act) {
  const dialog = el("dialog", { "aria-labelledby": "ask-title", "aria-describedby": "ask-words" },
    el("h2", { id: "ask-title" }, title),
    el("p", { id: "ask-words" }, words),
    el("div", { class: "actions" },
      el("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "No, go back"),
      el("button", { type: "button", class: "danger", onclick: () => { dialog.close(); act(); } }, yes)));
  open(dialog);
}

let asked = false;
/** Where the service does not know this user by the connection. */
export function askForToken() {
  if (asked) return;
  asked = true;
  const input = el("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const dialog = el("dialog", { "aria-labelledby": "token-title" },
    el("h2", { id: "token-title" }, "Who are you?"),
    hasToken() && el("p", { class: "trouble", role: "alert" }, "The service does not know the token that you gave."),
    el("form", { method: "dialog", onsubmit: () => { setToken(input.value.trim()); location.reload(); } },
      el("label", { for: "token" }, "The token of the service's --token-file"), input,
      el("div", { class: "actions" }, el("button", { class: "primary" }, "Continue"))));
  open(dialog);
}

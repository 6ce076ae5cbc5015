// Text that is to be taken elsewhere, a command or a path, with a button that puts it on the clipboard.

import { announce, el, say } from "./dom.js";

const TOLD_MS = 2000;

/** Without https, and from another machine, a browser has no clipboard but by the older way of a selection. */
async function copy(node) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(node);
    return document.execCommand("copy");
  }
}

/** `what`: of which kind the text is, such as "command". */
export function copyable(what) {
  const text = el("code");
  const shown = el("span", {}, "Copy");
  const tell = (words) => {
    say(shown, words);
    announce(`${words}: ${what}`);
    setTimeout(() => say(shown, "Copy"), TOLD_MS);
  };
  const take = async () => tell((await copy(text)) ? "Copied" : "Select it and copy");
  const button = el("button", { type: "button", onclick: take }, shown, el("span", { class: "unseen" }, ` the ${what}`));
  return { node: el("div", { class: "copy" }, text, button), update: (words) => say(text, words) };
}

// Files of a job to be kept: what it put into its folder of the service's store, and logs as they are.

import { api, hasToken, repeat } from "./api.js";
import { el, keep, say, section, show } from "./dom.js";
import { bytes } from "./format.js";

const MOST_SHOWN = 100;
const FREED_MS = 60_000;

async function save(address, name) {
  const at = URL.createObjectURL(await api.blob(address));
  el("a", { href: at, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(at), FREED_MS);
}

/** A link to a file of the service's. A link alone would not carry the token. */
export function fileLink(address, name, text) {
  const link = el("a", { href: address, download: name, onclick: (event) => {
    if (!hasToken()) return;
    event.preventDefault();
    save(address, name).catch((error) => say(link, `${text}: ${error.message}`));
  } }, text);
  return link;
}

/** gs://BUCKET/NAME as {bucket, name}. */
function placeOf(uri) {
  const [bucket, ...names] = uri.replace(/^gs:\/\//, "").split("/");
  return { bucket, name: names.join("/") };
}

export function objectLink(uri, text) {
  const { bucket, name } = placeOf(uri);
  const address = `/storage/v1/b/${encodeURIComponent(bucket)}/o/${encodeURIComponent(name)}?alt=media`;
  return fileLink(address, name.slice(name.lastIndexOf("/") + 1), text);
}

/** The objects under a job's --job-dir. */
export function outputList() {
  const list = el("ul", { class: "lines" });
  const more = el("p", { class: "dim" });
  const node = section("output", "Output", list, more);
  const view = { node, isEmpty: true, update };
  let folder = "";

  async function look() {
    const { bucket, name } = placeOf(folder);
    const prefix = name.endsWith("/") || name === "" ? name : `${name}/`;
    const { items = [] } = await api.objects(bucket, prefix);
    view.isEmpty = items.length === 0;
    keep(list, items.slice(0, MOST_SHOWN), (item) => item.name,
      (item) => el("li", {}, objectLink(`gs://${bucket}/${item.name}`, item.name.slice(prefix.length)), " ",
        el("span", { class: "dim" })),
      (line, item) => say(line.lastChild, bytes(Number(item.size))));
    show(more, items.length > MOST_SHOWN);
    say(more, `And ${items.length - MOST_SHOWN} more in ${folder}.`);
  }

  function update({ trainingInput }) {
    if (folder || !trainingInput?.jobDir) return;
    folder = trainingInput.jobDir;
    repeat(look, 15);
  }
  return view;
}

// The checkpoints of a job that are on its disk.

import { api, repeat } from "./api.js";
import { copyable } from "./copy.js";
import { el, section, say, show, table } from "./dom.js";
import { bytes, clock, number, word } from "./format.js";
import { badge } from "./list.js";

const COLUMNS = [
  { name: "Checkpoint", text: (c) => c.round },
  { name: "State", make: () => el("span"), update: (cell, c) => {
    badge(cell.firstChild, c.state.toUpperCase());
    say(cell.firstChild, word(c.state.toUpperCase()) + (c.why ? `: ${c.why}` : ""));
  } },
  { name: "Written", number: true, text: (c) => c.unixMs && clock(c.unixMs) },
  { name: "Size", number: true, text: (c) => bytes(c.bytes) },
  { name: "Leases", number: true, text: (c) => number(c.leasesCommitted) },
];

const theBest = ({ round, metric, value, epoch }) =>
  `The best: ${round}, ${metric} ${Number(value.toPrecision(4))} after ${epoch} epochs.`;

/** `resume` tells by which command the job continues, where it can. */
export function checkpointList(name) {
  const rows = table("Checkpoints", COLUMNS);
  const how = el("p", { class: "dim" });
  const node = section("checkpoints", "Checkpoints", rows.node, how);
  const command = copyable("command");
  const resume = el("div", { class: "resume", hidden: true },
    el("p", {}, "Continue from the newest checkpoint, on the service's machine:"), command.node);
  const view = { node, resume, isEmpty: true, update };
  const refresh = repeat(async () => {
    const answer = await api.checkpoints(name);
    rows.update(answer.checkpoints, (c) => c.round);
    show(resume, Boolean(answer.resume));
    command.update(answer.resume ?? "");
    view.isEmpty = answer.checkpoints.length === 0;
  }, 15);
  let newest = "";
  function update(checkpoint, over) {
    const said = `${checkpoint?.round} ${checkpoint?.writing} ${over}`;
    if (said !== newest) refresh();
    newest = said;
    say(how, [
      checkpoint?.writing && `Writing ${checkpoint.writing}.`,
      checkpoint?.best && theBest(checkpoint.best),
      checkpoint?.lastError && `The last round: ${checkpoint.lastError}.`,
      checkpoint?.intervalSeconds && `One every ${number(checkpoint.intervalSeconds)} s (${checkpoint.intervalWhy}).`]
      .filter(Boolean).join(" "));
  }
  return view;
}

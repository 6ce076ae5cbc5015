// The checkpoints of a job that are on its disk.

import { api, repeat } from "./api.js";
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

export function checkpointList(name) {
  const rows = table("Checkpoints", COLUMNS);
  const none = el("p", { class: "empty" }, "There is none yet.");
  const how = el("p", { class: "dim" });
  const node = section("checkpoints", "Checkpoints", none, rows.node, how);
  const refresh = repeat(async () => {
    const { checkpoints } = await api.checkpoints(name);
    rows.update(checkpoints, (c) => c.round);
    show(rows.node, checkpoints.length > 0);
    show(none, checkpoints.length === 0);
  }, 15);
  let newest = "";
  const update = (checkpoint) => {
    const said = `${checkpoint?.round} ${checkpoint?.writing}`;
    if (said !== newest) refresh();
    newest = said;
    say(how, [
      checkpoint?.writing && `Writing ${checkpoint.writing}.`,
      checkpoint?.best && theBest(checkpoint.best),
      checkpoint?.lastError && `The last round: ${checkpoint.lastError}.`,
      checkpoint?.intervalSeconds && `One every ${number(checkpoint.intervalSeconds)} s (${checkpoint.intervalWhy}).`]
      .filter(Boolean).join(" "));
  };
  return { node, update };
}

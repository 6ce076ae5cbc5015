// The tasks of a job: how each is, who waits for whom and why, and what failed.

import { spark } from "./chart.js";
import { el, keep, say, section, show, svg, table } from "./dom.js";
import { bytes, clock, cores, DASH, duration, number, percent, rate } from "./format.js";
import { badge } from "./list.js";

const FIRST_ROWS = 40;
const ALL_ROWS = 1e6;

function withSpark(column, text) {
  return {
    number: true,
    make: () => [svg("svg", { class: "spark", "aria-hidden": "true" }), el("span", {})],
    update: (cell, task) => {
      const value = text(task);
      say(cell.lastChild, value);
      show(cell.firstChild, value !== DASH);
      spark(cell.firstChild, task.history?.taskSeries(task.name, column));
    },
  };
}

const remark = (task) => [task.waitingFor && `waits for ${task.waitingFor}`, task.leaving && `leaves: ${task.leaving}`,
  task.spare && "spare: others hold all leases", task.warning].filter(Boolean).join("; ");

const COLUMNS = [
  { name: "Task", text: (t) => t.name },
  { name: "State", make: () => el("span"), update: (cell, t) => badge(cell.firstChild, t.state) },
  { name: "Where", text: (t) => [t.host, t.gpu?.name ?? t.device].filter(Boolean).join(", ") || DASH },
  { name: "Step", number: true, text: (t) => number(t.step) },
  { name: "Examples", number: true, text: (t) => (t.role === "worker" ? rate(t.examplesPerSecond) : DASH) },
  { name: "Staleness", number: true, text: (t) => number(t.staleness?.mean) },
  { name: "CPU", ...withSpark("cpu", (t) => cores(t.cpuShare)) },
  { name: "Memory", ...withSpark("memoryBytes", (t) => bytes(t.residentBytes)) },
  { name: "GPU", ...withSpark("gpu", (t) => percent(t.gpu?.utilisation)) },
  { name: "Waiting, warning", text: (t) => remark(t) || DASH },
];

export function taskTable(curves) {
  const rows = table("Tasks", COLUMNS);
  const none = el("p", { class: "empty" });
  const more = el("button", { type: "button", hidden: true, onclick: () => { all = true; again(); } });
  const node = section("tasks", "Tasks", none, el("div", { class: "wide" }, rows.node), more, curves);
  let all = false;
  let again = () => {};
  const update = ({ status, tasks: count }, history, why) => {
    again = () => update({ status, tasks: count }, history, why);
    const tasks = (status?.tasks ?? []).map((task) => ({ ...task, history }));
    rows.update(tasks, (task) => task.name);
    show(rows.node, tasks.length > 0);
    show(none, tasks.length === 0);
    say(none, why);
    show(more, !all && (count ?? tasks.length) > FIRST_ROWS);
    say(more, `Show all ${count ?? tasks.length} tasks`);
  };
  /** How many tasks to ask the service for. It puts those first that are lost or not at work yet. */
  const wanted = () => (all ? ALL_ROWS : FIRST_ROWS);
  return { node, update, wanted };
}

/** One sentence for each group of tasks that wait for the same. */
function sentences(status, moreWaits) {
  const groups = new Map();
  const groupOf = (wait) => {
    const key = JSON.stringify([wait.for, wait.why ?? ""]);
    if (!groups.has(key)) groups.set(key, { ...wait, seconds: 0, tasks: [], more: 0 });
    const group = groups.get(key);
    group.seconds = Math.max(group.seconds, wait.seconds ?? 0);
    return group;
  };
  for (const wait of status?.waits ?? []) groupOf(wait).tasks.push(wait.task);
  for (const more of moreWaits ?? []) groupOf(more).more += more.count;
  const names = ({ tasks, more }) => {
    const count = tasks.length + more;
    return count <= 4 ? tasks.join(", ") : `${tasks.slice(0, 3).join(", ")} and ${count - 3} more`;
  };
  const waits = [...groups.values()].map((w) =>
    ({ who: names(w), words: `waits for ${w.for}${w.why ? `: ${w.why}` : ""}`, seconds: w.seconds }));
  const pending = (status?.pending ?? []).map((p) => ({ who: p.task, words: p.why }));
  const spares = (status?.spares ?? []).map((s) => ({ who: `a spare ${s.role} on ${s.host}`, words: s.why }));
  return [...waits, ...pending, ...spares].slice(0, 50);
}

export function waitList() {
  const list = el("ul", { class: "lines" });
  const none = el("p", { class: "empty" });
  const node = section("waits", "Who waits for whom", none, list);
  const update = ({ status, moreWaits }, over) => {
    const items = sentences(status, moreWaits);
    keep(list, items.map((item, i) => ({ ...item, i })), (item) => item.i,
      () => el("li", {}, el("strong"), " ", el("span"), " ", el("span", { class: "dim" })),
      (line, item) => {
        say(line.children[0], item.who);
        say(line.children[1], item.words);
        say(line.children[2], item.seconds ? `(${duration(item.seconds)})` : "");
      });
    show(list, items.length > 0);
    show(none, items.length === 0);
    say(none, over ? "The job is over." : "Nobody waits for long.");
  };
  return { node, update };
}

export function failureList() {
  const list = el("ul", { class: "lines" });
  const none = el("p", { class: "empty" }, "Nothing has failed.");
  const costs = el("p", { class: "dim" });
  const node = section("failures", "Failures", none, list, costs);
  const update = (failures, recovery) => {
    const newest = [...failures].reverse();
    keep(list, newest, (f) => `${f.unixMs} ${f.task} ${f.what}`,
      (f) => el("li", {}, el("time", { datetime: new Date(f.unixMs).toISOString() }, clock(f.unixMs)), " ",
        el("strong", {}, f.task), " ", f.what), () => {});
    show(list, newest.length > 0);
    show(none, newest.length === 0);
    const counted = [["workersLost", "workers lost"], ["psLost", "ps replaced"], ["leasesHandedOn", "leases handed on"],
      ["batchesRecomputed", "batches computed again"], ["chiefRestarts", "chief restarts"]];
    const lost = counted.filter(([key]) => recovery?.[key] > 0);
    say(costs, lost.map(([key, words]) => `${number(recovery[key])} ${words}`).join(" · "));
  };
  return { node, update };
}

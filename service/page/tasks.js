// The tasks of a job: how each is, who waits for whom and why, and what failed.

import { spark } from "./chart.js";
import { el, keep, say, section, show, svg, table } from "./dom.js";
import { bytes, clock, cores, DASH, duration, number, percent, rate } from "./format.js";
import { badge } from "./list.js";

const FIRST_ROWS = 40;
const ALL_ROWS = 1e6;

function withSpark(name, column, format, newest) {
  return {
    name,
    number: true,
    make: () => [svg("svg", { class: "spark", role: "img", "aria-label": `${name} over time` }), el("span", {})],
    update: (cell, task) => {
      const value = format(newest(task));
      say(cell.lastChild, value);
      show(cell.firstChild, value !== DASH);
      spark(cell.firstChild, task.history?.taskSeries(task.name, column), name, format);
    },
  };
}

/** On one line: the device without what stands in brackets behind it, which its title has. */
function updatePlace(cell, { host, device, gpu }) {
  const whole = [host, gpu?.name ?? device].filter(Boolean).join(", ") || DASH;
  say(cell.firstChild, whole.replace(/ \(.*\)$/, ""));
  cell.firstChild.title = whole;
}

const remark = (task) => [task.waitingFor && `waits for ${task.waitingFor}`, task.leaving && `leaves: ${task.leaving}`,
  task.spare && "spare: others hold all leases", task.warning].filter(Boolean).join("; ");

const COLUMNS = [
  { name: "Task", text: (t) => (t.master ? `${t.name} (master)` : t.name) },
  { name: "State", make: () => el("span"), update: (cell, t) => badge(cell.firstChild, t.state) },
  { name: "Where", make: () => el("span", { class: "place" }), update: updatePlace },
  { name: "Step", number: true, text: (t) => number(t.step) },
  { name: "Examples", number: true, text: (t) => (t.role === "worker" ? rate(t.examplesPerSecond) : DASH) },
  { name: "Staleness", number: true, optional: true, text: (t) => number(t.staleness?.mean) },
  { name: "Rows", number: true, optional: true, text: (t) => number(t.tables?.rows) },
  withSpark("CPU", "cpu", cores, (t) => t.cpuShare),
  withSpark("Memory", "memoryBytes", bytes, (t) => t.residentBytes),
  { ...withSpark("GPU", "gpu", percent, (t) => t.gpu?.utilisation), optional: true },
  { name: "Waiting, warning", text: (t) => remark(t) || DASH },
];

/** `curves`: those of the tasks, which stay when the tasks have left. */
export function taskTable(curves) {
  const rows = table("Tasks", COLUMNS);
  const more = el("button", { type: "button", hidden: true, onclick: () => { all = true; again(); } });
  const node = section("tasks", "Tasks", el("div", { class: "wide" }, rows.node), more, curves);
  /** How many tasks to ask the service for. It puts those first that are lost or not at work yet. */
  const wanted = () => (all ? ALL_ROWS : FIRST_ROWS);
  const view = { node, isEmpty: true, update, wanted };
  let all = false;
  let again = () => {};

  function update({ status, tasks: count }, history) {
    again = () => update({ status, tasks: count }, history);
    const tasks = (status?.tasks ?? []).map((task) => ({ ...task, history }));
    rows.update(tasks, (task) => task.name);
    show(rows.node, tasks.length > 0);
    show(more, !all && (count ?? tasks.length) > FIRST_ROWS);
    say(more, `Show all ${count ?? tasks.length} tasks`);
    view.isEmpty = tasks.length === 0 && curves.hidden;
  }
  return view;
}

/** "worker-0, worker-1, worker-2 and 5 more" */
function namesOf(names, count = names.length) {
  return count <= 4 ? names.join(", ") : `${names.slice(0, 3).join(", ")} and ${count - 3} more`;
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
  const waits = [...groups.values()].map((w) =>
    ({ who: namesOf(w.tasks, w.tasks.length + w.more), words: `waits for ${w.for}${w.why ? `: ${w.why}` : ""}`,
      seconds: w.seconds }));
  const pending = (status?.pending ?? []).map((p) => ({ who: p.task, words: p.why }));
  const spares = (status?.spares ?? []).map((s) => ({ who: `a spare ${s.role} on ${s.host}`, words: s.why }));
  return [...waits, ...pending, ...spares].slice(0, 50);
}

export function waitList() {
  const list = el("ul", { class: "lines" });
  const node = section("waits", "Who waits for whom", list);
  const view = { node, isEmpty: true, update };
  function update({ status, moreWaits }) {
    const items = sentences(status, moreWaits);
    keep(list, items.map((item, i) => ({ ...item, i })), (item) => item.i,
      () => el("li", {}, el("strong"), " ", el("span"), " ", el("span", { class: "dim" })),
      (line, item) => {
        say(line.children[0], item.who);
        say(line.children[1], item.words);
        say(line.children[2], item.seconds ? `(${duration(item.seconds)})` : "");
      });
    view.isEmpty = items.length === 0;
  }
  return view;
}

/** Those with the same words are one, the newest first. */
function groupFailures(failures) {
  const groups = new Map();
  for (const { what, task, unixMs } of failures) {
    const group = groups.get(what) ?? { what, tasks: new Set(), count: 0, first: unixMs };
    groups.delete(what); // comes back as the newest
    group.tasks.add(task);
    groups.set(what, { ...group, count: group.count + 1, last: unixMs });
  }
  return [...groups.values()].reverse();
}

const COSTS = [["workersLost", "workers lost"], ["psLost", "ps replaced"], ["leasesHandedOn", "leases handed on"],
  ["batchesRecomputed", "batches computed again"], ["chiefRestarts", "chief restarts"]];

export function failureList() {
  const list = el("ul", { class: "lines" });
  const costs = el("p", { class: "dim" });
  const node = section("failures", "Failures", list, costs);
  const view = { node, isEmpty: true, update };
  function update(failures, recovery) {
    const groups = groupFailures(failures);
    keep(list, groups, (group) => group.what,
      ({ what }) => el("li", {}, el("time"), " ", el("strong"), ` ${what} `, el("span", { class: "count" })),
      (line, { tasks, count, first, last }) => {
        show(line.children[0], last !== undefined);
        line.children[0].dateTime = last === undefined ? "" : new Date(last).toISOString();
        say(line.children[0], clock(last));
        say(line.children[1], namesOf([...tasks]));
        say(line.children[2], count > 1 ? `${count} times since ${clock(first)}` : "");
      });
    const lost = COSTS.filter(([key]) => recovery?.[key] > 0);
    say(costs, lost.map(([key, words]) => `${number(recovery[key])} ${words}`).join(" · "));
    view.isEmpty = groups.length === 0 && lost.length === 0;
  }
  return view;
}

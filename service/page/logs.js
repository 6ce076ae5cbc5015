// What the tasks and the service said: the end of each log, then what is new.

import { api, repeat } from "./api.js";
import { byName } from "./curves.js";
import { el, keep, say, section, show } from "./dom.js";
import { fileLink } from "./files.js";
import { isOver } from "./format.js";

const MOST_LINES = 3000;
const LETTER = { INFO: "I", WARNING: "W", ERROR: "E", CRITICAL: "F", DEFAULT: " " };
const NAMES = [
  ["", "everything"], ["INFO", "notes and worse"], ["WARNING", "warnings and errors"], ["ERROR", "errors"],
];

/** AI Platform's name of a task, as this project says it. */
const ours = (task) => (task === "master-replica-0" ? "chief" : task.replace("-replica-", "-"));

const lineOf = (entry) => el("div", { class: "entry", "data-severity": entry.severity },
  el("time", { datetime: entry.time }, entry.time.slice(11, 23)), " ",
  el("span", { class: "letter", title: entry.severity }, LETTER[entry.severity] ?? "?"), " ",
  el("span", { class: "task" }, ours(entry.task)), " ", el("span", { class: "said" }, entry.message));

export function logView(name, stateOf) {
  const task = el("select", { id: "log-task" });
  const severity = el("select", { id: "log-severity" }, NAMES.map(([value, words]) => el("option", { value }, words)));
  const search = el("input", { id: "log-search", type: "search", autocomplete: "off", placeholder: "Text" });
  const follow = el("input", { id: "log-follow", type: "checkbox", checked: true });
  const lines = el("div", { class: "log", role: "log", "aria-live": "off", tabindex: 0, "aria-label": "Log" });
  const note = el("p", { class: "dim" });
  const files = el("p", { class: "links" });
  const node = section("log", "Log",
    el("div", { class: "filters" },
      el("span", {}, el("label", { for: "log-task" }, "Task "), task),
      el("span", {}, el("label", { for: "log-severity" }, "Show "), severity),
      el("label", { class: "unseen", for: "log-search" }, "Only lines with this text"), search,
      el("label", { class: "check", for: "log-follow" }, follow, "Follow")),
    lines, note, el("details", {}, el("summary", {}, "Raw logs"), files));
  const view = { node, isEmpty: true };

  const tasks = new Set([""]);
  let mark = "";
  let skipped = 0;
  let chosen = 0; // rises with each choice: an answer to the one before is thrown away
  const holds = (text) => text.toLowerCase().includes(search.value.toLowerCase());
  const listTasks = () => {
    const sorted = [...tasks].sort(byName);
    keep(task, sorted, (t) => t || "all", (t) => el("option", { value: t }),
      (option, t) => say(option, t === "" ? "all tasks" : ours(t)));
    keep(files, sorted.filter(Boolean), (t) => t,
      (t) => fileLink(api.rawLog(name, t), `${name}-${ours(t)}.log`, `${ours(t)}.log`), () => {});
    view.isEmpty = sorted.length === 1;
  };
  const tell = () => {
    const shown = [...lines.children].filter((line) => !line.hidden).length;
    const left = skipped > 0 ? "Lines before these are left out; downpour logs shows all. " : "";
    const yet = shown === 0 && !isOver(stateOf()) ? " yet" : "";
    say(note, `${left}${shown === 1 ? "1 line" : `${shown} lines`}${yet}. Times are UTC.`);
  };
  const scroll = () => {
    if (follow.checked) lines.scrollTop = lines.scrollHeight;
  };

  const clear = () => {
    skipped = 0;
    lines.replaceChildren();
  };

  const refresh = repeat(async () => {
    const asked = chosen;
    const over = isOver(stateOf());
    const answer = await api.logs(name, { after: mark, task: task.value, severity: severity.value });
    if (asked !== chosen) return void setTimeout(refresh);
    if (answer.restarted) clear();
    mark = answer.mark;
    skipped += answer.skipped;
    for (const entry of answer.entries) tasks.add(entry.task);
    for (const known of answer.tasks) tasks.add(known);
    listTasks();
    const added = answer.entries.map((entry) => {
      const line = lineOf(entry);
      show(line, holds(line.textContent));
      return line;
    });
    lines.append(...added);
    while (lines.children.length > MOST_LINES) {
      lines.firstChild.remove();
      ++skipped;
    }
    if (added.length > 0) scroll();
    tell();
    return !(over && answer.entries.length === 0);
  }, 1.5);

  const again = () => {
    ++chosen;
    mark = "";
    clear();
    refresh();
  };
  task.addEventListener("change", again);
  severity.addEventListener("change", again);
  search.addEventListener("input", () => {
    for (const line of lines.children) show(line, holds(line.textContent));
    scroll();
    tell();
  });
  follow.addEventListener("change", scroll);
  // Whoever scrolls back reads, and the log stays where it is. A window that changes its size scrolls it as well.
  let place = 0;
  lines.addEventListener("scroll", () => {
    const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
    if (atEnd || lines.scrollTop < place) follow.checked = atEnd;
    place = lines.scrollTop;
  });
  new ResizeObserver(scroll).observe(lines);
  listTasks();
  return view;
}

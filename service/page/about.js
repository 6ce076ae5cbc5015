// What a job is: when it was submitted and by what, what it runs, and where its files lie.

import { copyable } from "./copy.js";
import { el, keep, say, section, show } from "./dom.js";
import { objectLink } from "./files.js";
import { clock } from "./format.js";
import { joinWords } from "./shell_words.js";

const inWords = (count, what) => `${count} ${what}${count === 1 || what === "ps" ? "" : "s"}`;

function sizeOf({ scaleTier, workerCount, parameterServerCount }) {
  if (scaleTier !== "CUSTOM") return scaleTier;
  return `CUSTOM: ${inWords(Number(parameterServerCount ?? 0), "ps")}, ${inWords(Number(workerCount ?? 0), "worker")}`;
}

/** "2 ps, 4 workers", by the names of those that wrote down their numbers. */
function tasksIn(names) {
  return ["ps", "worker"].map((role) => [names.filter((name) => name.startsWith(`${role}-`)).length, role])
    .filter(([count]) => count > 0).map(([count, role]) => inWords(count, role)).join(", ");
}

const time = (when) => when && clock(when);
const FACTS = [
  ["Submitted", (job) => time(job.createTime)],
  ["Started", (job) => time(job.startTime)],
  ["Ended", (job) => time(job.endTime)],
  ["Scale tier", (job) => sizeOf(job.trainingInput)],
  ["Tasks", (job, tasks) => tasksIn(tasks)],
  ["Module", (job) => job.trainingInput.pythonModule],
];

const fact = (name, isLong, ...children) =>
  el("div", { class: isLong && "long" }, el("dt", {}, name), el("dd", {}, children));
const baseName = (uri) => uri.slice(uri.lastIndexOf("/") + 1);

export function aboutJob() {
  const short = FACTS.map(([name, text]) => ({ node: fact(name, false), text }));
  const labels = fact("Labels", false);
  const packages = fact("Package", false);
  const texts = [
    ["Arguments", "arguments", (job) => joinWords(job.trainingInput.args ?? [])],
    ["Output folder", "folder", (job) => job.trainingInput.jobDir],
    ["Job folder", "folder", (job) => job.jobFolder],
  ].map(([name, what, text]) => {
    const copied = copyable(what);
    return { node: fact(name, true, copied.node), copied, text };
  });
  const node = section("about", "About", el("dl", { class: "facts" }, short.map((f) => f.node), packages, labels,
    texts.map((f) => f.node)));

  const list = (row, items, make) => {
    show(row, items.length > 0);
    keep(row.lastChild, items, (item) => item, make, () => {});
  };
  const update = (job, tasks) => {
    if (!job.trainingInput) return;
    for (const { node: row, text } of short) {
      const words = text(job, tasks);
      show(row, Boolean(words));
      say(row.lastChild, words ?? "");
    }
    list(labels, Object.entries(job.labels ?? {}).map(([key, value]) => (value ? `${key}=${value}` : key)),
      (label) => el("span", { class: "label" }, label));
    list(packages, job.trainingInput.packageUris ?? [], (uri) => objectLink(uri, baseName(uri)));
    for (const { node: row, copied, text } of texts) {
      const words = text(job);
      show(row, Boolean(words));
      copied.update(words ?? "");
    }
  };
  return { node, isEmpty: false, update };
}

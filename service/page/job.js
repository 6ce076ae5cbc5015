// One job: how it goes, its buttons, and its sections.

import { api, repeat } from "./api.js";
import { checkpointList } from "./checkpoints.js";
import { taskCurves, trainingCurves } from "./curves.js";
import { confirm } from "./dialog.js";
import { announce, el, keep, say, section, show, tiles } from "./dom.js";
import { accuracy, counted, DASH, duration, elapsedOf, isOver, number, percent, rate, word } from "./format.js";
import { History } from "./history.js";
import { badge } from "./list.js";
import { logView } from "./logs.js";
import { failureList, taskTable, waitList } from "./tasks.js";
import { searchView, trialTable } from "./trials.js";

const STATUS_SECONDS = 1;
const HISTORY_SECONDS = 2;

/** What the status of a running job and the summary of one that is over both tell, by one name. */
function figures({ status, summary }, job) {
  if (summary) {
    return { elapsed: summary.elapsedSeconds, rate: summary.examplesPerSecond, loss: summary.trainLoss,
      evalLoss: summary.evalLoss, accuracy: summary.evalAccuracy, staleness: summary.staleness?.mean,
      epoch: summary.epochs, done: summary.state === "SUCCEEDED" ? 1 : undefined };
  }
  const p = status?.progress ?? {};
  return { elapsed: status?.elapsedSeconds ?? elapsedOf(job), remaining: status?.remainingSeconds,
    rate: p.examplesPerSecond, loss: p.loss, evalLoss: status?.evaluation?.loss, accuracy: status?.evaluation?.accuracy,
    staleness: status?.staleness?.mean, epoch: p.epoch, epochs: p.epochs,
    done: p.examples > 0 ? p.examplesCommitted / p.examples : undefined };
}

/** How far the job is, and its figures. */
function progressView() {
  const bar = el("progress", { max: 1, "aria-label": "Progress", hidden: true });
  const share = el("span", {});
  const epochs = el("span", { class: "dim" });
  const numbers = tiles(["Elapsed", "Remaining", "Examples", "Training loss", "Evaluation loss", "Accuracy",
    "Staleness"]);
  const update = (now, over) => {
    show(bar, now.done !== undefined);
    if (now.done !== undefined) bar.value = now.done;
    say(share, now.done === undefined ? "" : percent(Math.floor(now.done * 1000) / 1000, 1));
    const of = now.epochs ? ` of ${counted(now.epochs)}` : "";
    say(epochs, now.epoch === undefined ? "" : `${counted(now.epoch)}${of} epochs`);
    numbers.update([duration(now.elapsed), over ? DASH : duration(now.remaining), rate(now.rate),
      number(now.loss), number(now.evalLoss), accuracy(now.accuracy), number(now.staleness)]);
  };
  return { nodes: [el("div", { class: "whole" }, bar, share, epochs), numbers.node], update,
    share: () => share.textContent };
}

/** Why the job is as it is, for whoever has to do something about it. */
function troubles(job, { status, summary }, unanswered) {
  const said = status ?? summary ?? {};
  return [job.errorMessage || said.errorMessage, job.stateMessage, said.stalled && `It stands still: ${said.stalled}`,
    said.diverging && `It does not learn: ${said.diverging}`, unanswered].filter(Boolean);
}

const WITHOUT_STATUS = { QUEUED: "It waits for its turn.", PREPARING: "It is being started.",
  CANCELLING: "It is being cancelled.", FAILED: "It left no status.", CANCELLED: "It left no status." };

function buttons(name, refresh, tell) {
  const run = async (act, words) => {
    try {
      tell((await act())?.message ?? words);
    } catch (error) {
      tell(error.message);
    }
    refresh();
  };
  const checkpoint = el("button", { type: "button", onclick: () =>
    run(() => api.checkpoint(name), "a checkpoint begins") }, "Checkpoint now");
  const cancel = el("button", { type: "button", class: "danger", onclick: () =>
    confirm(`Cancel ${name}?`, "It writes one last checkpoint and ends. It can be resumed from there.",
      "Cancel the job", () => run(() => api.cancel(name), "the job is being cancelled")) }, "Cancel");
  const remove = el("button", { type: "button", class: "danger", onclick: () =>
    confirm(`Delete ${name}?`, "Its folder goes with it: checkpoints, logs and curves.", "Delete the job",
      async () => {
        try {
          await api.remove(name);
          location.assign("/");
        } catch (error) {
          tell(error.message);
        }
      }) }, "Delete");
  const update = (state, isSearch) => {
    show(checkpoint, !isOver(state) && !isSearch);
    checkpoint.disabled = state !== "RUNNING";
    show(cancel, !isOver(state));
    cancel.disabled = state === "CANCELLING";
    show(remove, isOver(state));
  };
  update("QUEUED", false);
  return { node: el("div", { class: "actions" }, checkpoint, cancel, remove), update };
}

function jobFile() {
  const text = el("pre", { tabindex: 0, role: "region", "aria-label": "Job file" });
  const node = section("file", "Job file", el("details", {}, el("summary", {}, "Show"), text));
  const update = (job) => say(text, job.jobFile || JSON.stringify(job.trainingInput, null, 2));
  return { node, update };
}

const NEARBY = [["trials", "Trials"], ["curves", "Curves"], ["tasks", "Tasks"], ["waits", "Waits"],
  ["failures", "Failures"], ["checkpoints", "Checkpoints"], ["log", "Log"], ["file", "Job file"]];

// What a search has, whose trials train in its place, and what any other job has.
const OF_SEARCH = ["trials", "log", "file"];
const isShown = (id, isSearch) => (isSearch ? OF_SEARCH.includes(id) : id !== "trials");

function makeSections(name, stateOf) {
  const perTask = taskCurves();
  return { perTask, trials: trialTable(), curves: trainingCurves(), tasks: taskTable(perTask.node), waits: waitList(),
    failures: failureList(), checkpoints: checkpointList(name), log: logView(name, stateOf), file: jobFile() };
}

function showNone(main, name, words) {
  document.title = `${name} is not there · Downpour`;
  main.replaceChildren(el("h1", {}, name), el("p", { class: "trouble", role: "alert" }, words, "."),
    el("p", {}, "It may have been deleted. ", el("a", { href: "/" }, "See all jobs")));
}

export function showJob(main, name) {
  document.title = `${name} · Downpour`;
  const state = el("span");
  const answered = el("p", { class: "answer", hidden: true });
  const reply = (words) => {
    say(answered, words.charAt(0).toUpperCase() + words.slice(1) + (words.endsWith(".") ? "" : "."));
    show(answered, true);
    announce(words);
  };
  const why = el("ul", { class: "troubles", hidden: true });
  const progress = progressView();
  const search = searchView();
  const history = new History(name);
  let job = { jobId: name, state: "" };
  let found = {};
  let gone = false;
  const actions = buttons(name, () => refresh(), reply);
  const parts = makeSections(name, () => job.state);
  const nearby = el("nav", { class: "nearby", "aria-label": "On this page" },
    NEARBY.map(([id, words]) => el("a", { href: `#${id}` }, words)));
  main.replaceChildren(
    el("p", { class: "back" }, el("a", { href: "/" }, "All jobs")),
    el("div", { class: "head" }, el("h1", {}, name), state, actions.node),
    answered, why, ...progress.nodes, ...search.nodes, nearby, ...NEARBY.map(([id]) => parts[id].node));

  const deleted = (error) => {
    if (error.code !== 404) return;
    gone = true;
    showNone(main, name, error.message);
  };

  const isSearch = () => Boolean(job.trainingInput?.hyperparameters);

  /** What belongs to a job of this kind. */
  const arrange = () => {
    for (const node of progress.nodes) show(node, !isSearch());
    for (const node of search.nodes) show(node, isSearch());
    NEARBY.forEach(([id], i) => {
      for (const node of [parts[id].node, nearby.children[i]]) show(node, isShown(id, isSearch()));
    });
  };
  arrange();

  const told = () => found.status ?? found.summary ?? {};

  const update = (unanswered) => {
    badge(state, job.state);
    arrange();
    actions.update(job.state, isSearch());
    parts.file.update(job);
    const words = troubles(job, found, unanswered);
    keep(why, words, (text) => text, (text) => el("li", {}, text), () => {});
    show(why, words.length > 0);
    if (isSearch()) {
      search.update(job, found.trials);
      parts.trials.update(job);
      return;
    }
    progress.update(figures(found, job), isOver(job.state));
    parts.tasks.update(found, history, found.summary ? "The job is over, and its tasks have left."
      : WITHOUT_STATUS[job.state] ?? "No task has joined yet.");
    parts.waits.update(found, isOver(job.state));
    parts.failures.update(told().failures ?? [], found.status?.recovery ?? found.summary);
    parts.checkpoints.update(found.status?.checkpoint ?? (found.summary && { round: found.summary.checkpoint }));
  };

  const refresh = repeat(async () => {
    const before = job.state;
    const now = await api.job(name);
    if (job.createTime && job.createTime !== now.createTime) return location.reload(); // another job of that name
    job = now;
    let unanswered = "";
    try {
      found = await api.status(name, { tasks: parts.tasks.wanted() });
    } catch (error) {
      if (error.code !== 503) throw error;
      unanswered = `Its chief does not answer: ${error.message}`;
    }
    if (before && before !== job.state) announce(`${name} is ${word(job.state)}`);
    update(unanswered);
    const share = job.state === "RUNNING" && (isSearch() ? search : progress).share();
    document.title = `${share || word(job.state)} · ${name} · Downpour`;
  }, STATUS_SECONDS, deleted);

  repeat(async () => {
    const moved = await history.update();
    if (gone || isSearch()) return false;
    const { startTimeUnixMs: began, failures = [] } = told();
    const marks = began ? failures.map((f) => ({ x: (f.unixMs - began) / 1000 })) : [];
    parts.curves.update(history, marks, isOver(job.state));
    if (moved) parts.perTask.update(history);
    return !(isOver(job.state) && !moved && found.summary);
  }, HISTORY_SECONDS);
}

// One job: how it goes, its buttons, and its sections.

import { aboutJob } from "./about.js";
import { api, repeat } from "./api.js";
import { checkpointList } from "./checkpoints.js";
import { taskCurves, trainingCurves } from "./curves.js";
import { confirm } from "./dialog.js";
import { announce, el, keep, say, section, show, tiles } from "./dom.js";
import { outputList } from "./files.js";
import { accuracy, counted, DASH, duration, elapsedOf, isOver, number, percent, rate, sentence,
  word } from "./format.js";
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
      evalLoss: summary.evalLoss, accuracy: summary.evalAccuracy ?? summary.evalMetrics?.accuracy,
      staleness: summary.staleness?.mean, epoch: summary.epochs, done: summary.state === "SUCCEEDED" ? 1 : undefined };
  }
  const p = status?.progress ?? {}, evaluation = status?.evaluation;
  return { elapsed: status?.elapsedSeconds ?? elapsedOf(job), remaining: status?.remainingSeconds,
    rate: p.examplesPerSecond, loss: p.loss, evalLoss: evaluation?.loss,
    accuracy: evaluation?.accuracy ?? evaluation?.metrics?.accuracy, // of the user's own, it stands among the metrics
    staleness: status?.staleness?.mean, epoch: p.epoch, epochs: p.epochs,
    done: p.examples > 0 ? p.examplesCommitted / p.examples : undefined };
}

/** How far the job is, and its figures; nothing of one that has not begun. */
function progressView() {
  const bar = el("progress", { max: 1, "aria-label": "Progress", hidden: true });
  const share = el("span", {});
  const epochs = el("span", { class: "dim" });
  const whole = el("div", { class: "whole" }, bar, share, epochs);
  const numbers = tiles(["Elapsed", "Remaining", "Examples", "Training loss", "Evaluation loss", "Accuracy",
    "Staleness"]);
  const view = { nodes: [whole, numbers.node], isEmpty: true, update, share: () => share.textContent };
  function update(now, over) {
    show(bar, now.done !== undefined);
    if (now.done !== undefined) bar.value = now.done;
    say(share, now.done === undefined ? "" : percent(Math.floor(now.done * 1000) / 1000, 1));
    const of = now.epochs ? ` of ${counted(now.epochs)}` : "";
    say(epochs, now.epoch === undefined ? "" : `${counted(now.epoch)}${of} epochs`);
    numbers.update([duration(now.elapsed), over ? DASH : duration(now.remaining), rate(now.rate),
      number(now.loss), number(now.evalLoss), accuracy(now.accuracy), number(now.staleness)]);
    view.isEmpty = !whole.textContent && now.rate === undefined;
  }
  return view;
}

/** Why the job is as it is, for whoever has to do something about it. */
function troubles(job, { status, summary }, unanswered) {
  const said = status ?? summary ?? {};
  return [job.state !== "CANCELLED" && (job.errorMessage || said.errorMessage),
    said.stalled && `It stands still: ${said.stalled}`, said.diverging && `It does not learn: ${said.diverging}`,
    unanswered].filter(Boolean);
}

const STATE_SAYS = { QUEUED: "It waits for its turn.", PREPARING: "It is being started.",
  CANCELLING: "It is being cancelled." };

/** The same where nothing is wrong. */
function notices(job, { status }) {
  const isAlone = job.state === "RUNNING" && !status?.tasks?.length && !job.trainingInput?.hyperparameters;
  return [job.state === "CANCELLED" && job.errorMessage, job.stateMessage,
    !job.stateMessage && STATE_SAYS[job.state], isAlone && "No task has joined yet."].filter(Boolean).map(sentence);
}

/** A list that is there only while it has something to say. */
function wordList(kind) {
  const node = el("ul", { class: kind, hidden: true });
  const update = (words) => {
    keep(node, words, (text) => text, (text) => el("li", {}, text), () => {});
    show(node, words.length > 0);
  };
  return { node, update };
}

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
    show(checkpoint, state === "RUNNING" && !isSearch);
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
  const update = (job) => say(text, job.jobFile || JSON.stringify(job.trainingInput ?? job.predictionInput, null, 2));
  return { node, isEmpty: false, update };
}

const NEARBY = [["about", "About"], ["trials", "Trials"], ["curves", "Curves"], ["tasks", "Tasks"], ["waits", "Waits"],
  ["failures", "Failures"], ["checkpoints", "Checkpoints"], ["output", "Output"], ["log", "Log"], ["file", "Job file"]];

// What a search has, whose trials train in its place, and what any other job has.
const OF_SEARCH = ["about", "trials", "log", "file"];
const belongs = (id, isSearch) => (isSearch ? OF_SEARCH.includes(id) : id !== "trials");
const FEW = 4; // sections that are found without links to them

function makeSections(name, stateOf) {
  const perTask = taskCurves();
  return { perTask, about: aboutJob(), trials: trialTable(), curves: trainingCurves(), tasks: taskTable(perTask.node),
    waits: waitList(), failures: failureList(), checkpoints: checkpointList(name), output: outputList(),
    log: logView(name, stateOf), file: jobFile() };
}

function showNone(main, name, words) {
  document.title = `${name} is not there · Downpour`;
  main.replaceChildren(el("h1", {}, name), el("p", { class: "trouble", role: "alert" }, words, "."),
    el("p", {}, "It may have been deleted. ", el("a", { href: "/" }, "See all jobs")));
}

/** The page of one job, which asks for what is new until the job is over or gone. */
class JobView {
  constructor(main, name) {
    this.main = main;
    this.name = name;
    this.job = { jobId: name, state: "" };
    this.found = {};
    this.gone = false;
    this.state = el("span");
    this.answered = el("p", { class: "answer", hidden: true });
    this.why = wordList("troubles");
    this.notice = wordList("notices");
    this.progress = progressView();
    this.search = searchView();
    this.history = new History(name);
    this.actions = buttons(name, () => this.refresh(), (words) => this.reply(words));
    this.parts = makeSections(name, () => this.job.state);
    this.nearby = el("nav", { class: "nearby", "aria-label": "On this page" },
      NEARBY.map(([id, words]) => el("a", { href: `#${id}` }, words)));
    main.replaceChildren(
      el("p", { class: "back" }, el("a", { href: "/" }, "All jobs")),
      el("div", { class: "head" }, el("h1", {}, name), this.state, this.actions.node),
      this.answered, this.why.node, this.notice.node, this.parts.checkpoints.resume,
      ...this.progress.nodes, ...this.search.nodes, this.nearby,
      ...NEARBY.map(([id]) => this.parts[id].node));
    this.arrange();
  }

  start() {
    this.refresh = repeat(() => this.look(), STATUS_SECONDS, (error) => this.fail(error));
    repeat(() => this.redraw(), HISTORY_SECONDS);
  }

  isSearch() {
    return Boolean(this.job.trainingInput?.hyperparameters);
  }

  told() {
    return this.found.status ?? this.found.summary ?? {};
  }

  reply(words) {
    say(this.answered, sentence(words));
    show(this.answered, true);
    announce(words);
  }

  fail(error) {
    if (error.code !== 404) return;
    this.gone = true;
    showNone(this.main, this.name, error.message);
  }

  /** What belongs to a job of this kind and has anything in it. */
  arrange() {
    for (const node of this.progress.nodes) show(node, !this.isSearch() && !this.progress.isEmpty);
    for (const node of this.search.nodes) show(node, this.isSearch());
    const shown = NEARBY.map(([id]) => belongs(id, this.isSearch()) && !this.parts[id].isEmpty);
    NEARBY.forEach(([id], i) => {
      for (const node of [this.parts[id].node, this.nearby.children[i]]) show(node, shown[i]);
    });
    show(this.nearby, shown.filter(Boolean).length > FEW);
  }

  update(unanswered) {
    const { job, found, parts } = this;
    badge(this.state, job.state);
    this.actions.update(job.state, this.isSearch());
    parts.file.update(job);
    parts.about.update(job, Object.keys(this.history.tasks));
    this.why.update(troubles(job, found, unanswered));
    this.notice.update(notices(job, found));
    if (this.isSearch()) {
      this.search.update(job, found.trials);
      parts.trials.update(job);
    } else {
      this.updateRun();
    }
    this.arrange();
  }

  updateRun() {
    const { job, found, parts } = this;
    this.progress.update(figures(found, job), isOver(job.state));
    parts.tasks.update(found, this.history);
    parts.waits.update(found);
    parts.failures.update(this.told().failures ?? [], found.status?.recovery ?? found.summary);
    parts.checkpoints.update(found.status?.checkpoint ?? (found.summary && { round: found.summary.checkpoint }),
      isOver(job.state));
    parts.output.update(job);
  }

  async look() {
    const { name, job: before } = this;
    const now = await api.job(name);
    if (before.createTime && before.createTime !== now.createTime) return location.reload(); // another of that name
    this.job = now;
    let unanswered = "";
    try {
      this.found = await api.status(name, { tasks: this.parts.tasks.wanted() });
    } catch (error) {
      if (error.code !== 503) throw error;
      unanswered = `Its chief does not answer: ${error.message}`;
    }
    if (before.state && before.state !== now.state) announce(`${name} is ${word(now.state)}`);
    this.update(unanswered);
    const share = now.state === "RUNNING" && (this.isSearch() ? this.search : this.progress).share();
    document.title = `${share || word(now.state)} · ${name} · Downpour`;
  }

  /** The curves; false once nothing can be added to them. */
  async redraw() {
    const moved = await this.history.update();
    if (this.gone || this.isSearch()) return false;
    const over = isOver(this.job.state);
    // By the steady clock, as the curves are: a calendar that was set moves no mark.
    const { elapsedSeconds: age, failures = [] } = this.told();
    const marks = failures.map((f) => ({ x: age - f.ageSeconds })).filter(({ x }) => Number.isFinite(x));
    this.parts.curves.update(this.history, marks);
    if (moved) this.parts.perTask.update(this.history);
    this.arrange();
    return !(over && !moved && this.found.summary);
  }
}

export function showJob(main, name) {
  document.title = `${name} · Downpour`;
  new JobView(main, name).start();
}

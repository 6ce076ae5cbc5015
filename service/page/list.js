// The list of jobs: how many are in which state, and a page of them, the newest first.

import { api, repeat } from "./api.js";
import { announce, el, keep, say, show, table } from "./dom.js";
import { accuracy, clock, DASH, duration, elapsedOf, isOver, metricText, number, percent, sentence, trialCount,
  word } from "./format.js";

const STATES = ["RUNNING", "PREPARING", "QUEUED", "CANCELLING", "SUCCEEDED", "FAILED", "CANCELLED"];
const ROWS = 50;
export const jobLink = (name) => `/?job=${encodeURIComponent(name)}`;

export function badge(node, state) {
  node.className = "badge";
  node.dataset.state = state;
  say(node, word(state));
}

/** Of a search. Accuracy and loss have columns of their own. */
function searchProgress(trials) {
  const { metric, best } = trials;
  const isElsewhere = best === undefined || metric === "accuracy" || metric === "loss";
  return trialCount(trials) + (isElsewhere ? "" : `, best ${metric} ${metricText(metric, best)}`);
}

function makeProgress(job) {
  return [el("progress", { max: 1, "aria-label": `Progress of ${job.jobId}` }), el("span", { class: "percent" }),
    el("span", { class: "reason" })];
}

/** Why it failed, or is not further. Of the service's own copy of the job file the folder is of no use. */
function reasonOf({ errorMessage, stateMessage }) {
  const why = errorMessage ?? stateMessage;
  return why ? sentence(why.replace(/^\S*\/service\/job\.json:/, "job.json:")) : "";
}

function updateProgress(cell, job) {
  const [bar, share, reason] = cell.children;
  const { done, trials } = job;
  const why = reasonOf(job);
  show(bar, done !== undefined);
  if (done !== undefined) bar.value = done;
  say(share, trials ? searchProgress(trials)
    : done !== undefined ? percent(Math.floor(done * 1000) / 1000, 1) : why ? "" : DASH);
  say(reason, why);
  reason.dataset.state = job.state;
  cell.toggleAttribute("data-bare", !share.textContent);
}

const COLUMNS = [
  { name: "Job", make: (job) => el("a", { href: jobLink(job.jobId) }, job.jobId) },
  { name: "State", make: () => el("span"), update: (cell, job) => badge(cell.firstChild, job.state) },
  { name: "Progress", make: makeProgress, update: updateProgress },
  { name: "Elapsed", number: true, text: (job) => duration(job.elapsedSeconds ?? elapsedOf(job)) },
  { name: "Remaining", number: true, text: (job) => (isOver(job.state) ? DASH : duration(job.remainingSeconds)) },
  { name: "Accuracy", number: true, text: (job) => accuracy(job.accuracy) },
  { name: "Loss", number: true, text: (job) => number(job.loss) },
  { name: "Submitted", number: true, text: (job) => clock(job.createTime) },
];

export function showList(main) {
  const wanted = { state: "", filter: "", from: 0, count: ROWS };
  let refresh = () => {};
  const change = (changes) => {
    Object.assign(wanted, { from: 0 }, changes);
    refresh();
  };

  const chips = el("div", { class: "chips", role: "group", "aria-label": "Show jobs by their state" });
  const search = el("input", { type: "search", id: "search", placeholder: "Find by name", autocomplete: "off",
    oninput: () => change({ filter: search.value.trim() && `jobId:"${search.value.trim().replace(/["\\]/g, "")}"` }) });
  const jobs = table("Jobs", COLUMNS);
  const empty = el("p", { class: "empty", hidden: true });
  const place = el("span");
  const newer = el("button", { type: "button", onclick: () => change({ from: wanted.from - ROWS }) }, "Newer");
  const older = el("button", { type: "button", onclick: () => change({ from: wanted.from + ROWS }) }, "Older");
  const pager = el("nav", { class: "pager", "aria-label": "Pages of the list", hidden: true }, newer, place, older);

  document.title = "Jobs · Downpour";
  main.replaceChildren(
    el("div", { class: "head" }, el("h1", {}, "Jobs"),
      el("a", { href: "/?submit", class: "button primary" }, "Submit a job")),
    el("div", { class: "filters" }, chips, el("label", { class: "unseen", for: "search" }, "Search by name"), search),
    jobs.node, empty, pager);

  const updateChips = (states) => {
    const all = Object.values(states).reduce((sum, count) => sum + count, 0);
    const items = [["", "All", all], ...STATES.filter((s) => states[s] || s === wanted.state)
      .map((s) => [s, word(s), states[s] ?? 0])];
    keep(chips, items, ([state]) => state,
      ([state]) => el("button", { type: "button", class: "chip", onclick: () => change({ state }) }),
      (node, [state, name, count]) => {
        node.dataset.state = state;
        node.setAttribute("aria-pressed", String(wanted.state === state));
        say(node, `${name} ${count}`);
      });
  };

  const before = new Map();
  const tellChanges = (list) => {
    const changed = list.filter((job) => before.has(job.jobId) && before.get(job.jobId) !== job.state);
    if (changed.length > 0) announce(changed.map((job) => `${job.jobId} is ${word(job.state)}`).join(". "));
    for (const job of list) before.set(job.jobId, job.state);
  };

  refresh = repeat(async () => {
    const asked = JSON.stringify(wanted);
    const answer = await api.overview(wanted);
    if (asked !== JSON.stringify(wanted)) return setTimeout(refresh), true; // chosen again meanwhile
    wanted.from = answer.from;
    updateChips(answer.states);
    jobs.update(answer.jobs, (job) => `${job.jobId} ${job.createTime}`);
    tellChanges(answer.jobs);
    show(jobs.node, answer.total > 0);
    show(empty, answer.total === 0);
    say(empty, wanted.filter || wanted.state ? "No job is like that." : "There is no job yet. Submit the first one.");
    show(pager, answer.total > ROWS);
    say(place, `${answer.from + 1} to ${answer.from + answer.jobs.length} of ${answer.total}`);
    newer.disabled = answer.from === 0;
    older.disabled = answer.from + ROWS >= answer.total;
    return true;
  }, 2);
}

// A search for settings: how far it is, and its trials.

import { el, say, section, show, table, tiles } from "./dom.js";
import { counted, DASH, duration, elapsedOf, metricText, trialCount } from "./format.js";
import { badge } from "./list.js";

const FIRST_ROWS = 40;

/** How far a search is, and its figures: `trials` as the service counts them. */
export function searchView() {
  const bar = el("progress", { max: 1, "aria-label": "Progress of the search" });
  const share = el("span", {});
  const numbers = tiles(["Elapsed", "Running", "Failed", "Metric", "Best so far"]);
  const update = (job, trials) => {
    const { over = 0, wanted = 0, running, failed, metric, best } = trials ?? {};
    show(bar, wanted > 0);
    bar.value = wanted > 0 ? over / wanted : 0;
    say(share, wanted > 0 ? trialCount(trials) : "");
    numbers.update([duration(elapsedOf(job)), counted(running), counted(failed), metric ?? DASH,
      metricText(metric, best)]);
  };
  return { nodes: [el("div", { class: "whole" }, bar, share), numbers.node], update,
    share: () => share.textContent };
}

/** The last word of a dotted setting, unless two settings end alike. */
function shortNames(settings) {
  const last = (setting) => setting.slice(setting.lastIndexOf(".") + 1);
  return settings.map((setting) =>
    (settings.filter((other) => last(other) === last(setting)).length === 1 ? last(setting) : setting));
}

/** As it was drawn, but not with more digits than tell it from another one. */
function settingText(said) {
  const isLong = said?.length > 8 && Number.isFinite(Number(said));
  return isLong ? String(Number(Number(said).toPrecision(4))) : said;
}

function columnsFor(settings, metric) {
  const names = shortNames(settings);
  const remark = (t) => [t.isBest && "best", t.isTrialStoppedEarly && "stopped early", t.errorMessage]
    .filter(Boolean).join("; ");
  return [
    { name: "Trial", text: (t) => t.trialId },
    { name: "State", make: () => el("span"), update: (cell, t) => badge(cell.firstChild, t.state) },
    { name: metric, number: true, text: (t) => metricText(metric, t.finalMetric?.objectiveValue) },
    ...settings.map((setting, i) =>
      ({ name: names[i], number: true, text: (t) => settingText(t.hyperparameters?.[setting]) })),
    { name: "Elapsed", number: true, text: (t) => duration(elapsedOf(t)) },
    { name: "Remark", text: (t) => remark(t) || DASH },
  ];
}

/** The trials, best first. Their columns are known once the job is. */
export function trialTable() {
  const place = el("div", { class: "wide" });
  const none = el("p", { class: "empty" }, "No trial has begun yet.");
  const folder = el("p", { class: "dim" });
  const more = el("button", { type: "button", hidden: true, onclick: () => { all = true; again(); } });
  const node = section("trials", "Trials", none, place, more, folder);
  let all = false;
  let rows = null;
  let again = () => {};
  const update = (job) => {
    again = () => update(job);
    const { trials = [], hyperparameterMetricTag: metric, bestTrialFolder: best } = job.trainingOutput ?? {};
    if (!rows) {
      rows = table("Trials", columnsFor(job.trainingInput.hyperparameters.params.map((p) => p.parameterName), metric));
      place.replaceChildren(rows.node);
    }
    const shown = trials.map((t, i) => ({ ...t, isBest: i === 0 && Boolean(best) }));
    rows.update(all ? shown : shown.slice(0, FIRST_ROWS), (t) => t.trialId);
    show(place, trials.length > 0);
    show(none, trials.length === 0);
    show(more, !all && trials.length > FIRST_ROWS);
    say(more, `Show all ${trials.length} trials`);
    say(folder, best ? `The best trial's folder: ${best}` : "");
  };
  return { node, isEmpty: false, update };
}

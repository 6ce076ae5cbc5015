// Which curves a job has: of training, and of each task.

import { Chart, nearest } from "./chart.js";
import { el, keep, say, section, show } from "./dom.js";
import { accuracy, bytes, cores, percent } from "./format.js";

const KNOWN = new Set(["kind", "time", "elapsed", "step", "epoch", "examples", "loss", "accuracy", "examplesPerSecond",
  "staleness", "learningRate"]);
const MOST_OTHERS = 12;
const MOST_LINES = 24; // of tasks in a chart; of more, nobody could follow one
const SPAN_POINTS = 120;

const all = (...series) => series.filter((s) => s);
const named = (points, name, color = 0, more = {}) => points && { name, color, ...points, ...more };
const denser = (a, b) => ((b?.x.length ?? 0) > (a?.x.length ?? 0) ? b : a);
const changes = (points) => points && new Set(points.y.filter((y) => y !== null)).size > 1 && points;

export function trainingCurves() {
  const loss = new Chart("Loss", { log: true });
  const rate = new Chart("Examples per second", { zero: true });
  const staleness = new Chart("Staleness", { zero: true });
  const accurate = new Chart("Accuracy", { format: accuracy, most: 1 });
  const learning = new Chart("Learning rate", { log: true });
  const others = new Map(); // metrics of the user's
  const grid = el("div", { class: "charts" }, [loss, accurate, rate, staleness, learning].map((chart) => chart.node));
  const node = section("curves", "Curves", grid);
  const view = { node, isEmpty: true, update };

  function update(history, marks) {
    const train = (column) => history.series("train", column);
    const evaluated = (column) => history.series("eval", column);
    // A short job has more epochs than lines by the clock.
    const trained = denser(train("loss"), history.series("epoch", "loss"));
    loss.update(all(named(trained, "training", 0), named(evaluated("loss"), "evaluation", 1, { dots: true })), marks);
    rate.update(all(named(train("examplesPerSecond"), "examples/s")), marks);
    staleness.update(all(named(train("staleness"), "mean staleness")), marks);
    accurate.update(all(named(evaluated("accuracy"), "accuracy", 2, { dots: true })), marks);
    learning.update(all(named(changes(train("learningRate")), "learning rate")));
    for (const column of new Set([...history.columns("train"), ...history.columns("eval")])) {
      if (KNOWN.has(column) || (!others.has(column) && others.size === MOST_OTHERS)) continue;
      if (!others.has(column)) {
        const chart = new Chart(column);
        others.set(column, chart);
        grid.append(chart.node);
      }
      others.get(column).update(all(named(train(column), "training", 0),
        named(evaluated(column), "evaluation", 1, { dots: true })));
    }
    view.isEmpty = [...grid.children].every((chart) => chart.hidden);
  }
  return view;
}

export const byName = new Intl.Collator("en", { numeric: true }).compare;

/** The lowest, the mean and the highest of many curves, at points of the one that has most. */
function span(series) {
  const longest = series.reduce((a, b) => (b.x.length > a.x.length ? b : a)).x;
  const step = Math.max(1, Math.ceil(longest.length / SPAN_POINTS));
  const x = longest.filter((_, i) => i % step === 0 || i === longest.length - 1);
  const [low, mean, high] = [[], [], []];
  for (const time of x) {
    let [sum, count, least, most] = [0, 0, Infinity, -Infinity];
    for (const one of series) {
      if (time < one.x[0] || time > one.x.at(-1)) continue;
      const y = one.y[nearest(one.x, time)];
      if (y === null) continue;
      sum += y;
      ++count;
      if (y < least) least = y;
      if (y > most) most = y;
    }
    low.push(count ? least : null);
    mean.push(count ? sum / count : null);
    high.push(count ? most : null);
  }
  return [["highest", high, 2], ["mean", mean, 0], ["lowest", low, 1]].map(([name, y, color]) => ({ name, x, y, color }));
}

export function taskCurves() {
  const choice = el("select", { id: "curves-of" }, el("option", { value: "" }, "all tasks"));
  const charts = [
    ["cpu", new Chart("CPU (100 % is one core)", { format: cores, zero: true })],
    ["memoryBytes", new Chart("Memory", { format: bytes, base: 1024, zero: true })],
    ["gpu", new Chart("GPU", { format: percent, zero: true })],
    ["gpuMemoryBytes", new Chart("GPU memory", { format: bytes, base: 1024, zero: true })],
    ["examplesPerSecond", new Chart("Examples per second of each", { zero: true })],
  ];
  const node = el("details", { class: "of-tasks", hidden: true }, el("summary", {}, "Curves of each task"),
    el("p", {}, el("label", { for: "curves-of" }, "Curves of "), choice),
    el("div", { class: "charts" }, charts.map(([, chart]) => chart.node)));

  let last = null;
  const update = (history) => {
    last = history;
    const tasks = Object.keys(history.tasks).sort(byName);
    show(node, tasks.length > 0);
    keep(choice, ["", ...tasks], (task) => task, (task) => el("option", { value: task }),
      (option, task) => say(option, task || "all tasks"));
    const chosen = choice.value ? [choice.value] : tasks;
    const colors = new Map(tasks.map((task, i) => [task, i]));
    for (const [column, chart] of charts) {
      const lines = all(...chosen.map((task) => named(history.taskSeries(task, column), task, colors.get(task))));
      chart.update(lines.length > MOST_LINES ? span(lines) : lines);
    }
  };
  choice.addEventListener("change", () => last && update(last));
  choice.replaceChildren();
  return { node, update };
}

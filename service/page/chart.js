// A curve over time: drawn as SVG, read point by point with a slider (mouse, finger or arrow keys), and as a table.

import { el, keep, say, show, svg } from "./dom.js";
import { DASH, duration, number } from "./format.js";

const HEIGHT = 190;
const EDGE = { top: 12, right: 14, bottom: 24, left: 56 };
const STOPS = 1000; // of the slider
const TABLE_ROWS = 20;
const LOG_FROM = 30; // a curve that spans more is drawn on a logarithmic scale, if it may be
const COLORS = 8;
const MOST_NAMED = COLORS; // series in the legend and the readout
const SPARK_POINTS = 120;

let count = 0;

/** Round values from `low` to `high`, about `most` of them. */
function ticks(low, high, most, base) {
  if (base && high >= base) return ticks(low / base, high / base, most, base).map((x) => x * base);
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= rough) ?? rough;
  const found = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-9; x += step) found.push(x);
  return found;
}

function timeTicks(low, high, most) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 43200, 86400];
  const step = steps.find((s) => (high - low) / s <= most) ?? 86400 * Math.ceil((high - low) / 86400 / most);
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high; x += step) found.push(x);
  return found;
}

const shortTime = (seconds) => {
  if (seconds < 60) return `${Number(seconds.toFixed(1))} s`;
  const rest = String(Math.round(seconds % 60)).padStart(2, "0");
  if (seconds < 3600) return rest === "00" ? `${seconds / 60} min` : `${Math.floor(seconds / 60)}:${rest}`;
  if (seconds < 86400) return `${Number((seconds / 3600).toFixed(1))} h`;
  return `${Number((seconds / 86400).toFixed(1))} d`;
};

/** Where the value is that is nearest to `x`; `xs` rises. */
export function nearest(xs, x) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return x - xs[low] <= xs[high] - x ? low : high;
}

const isKnown = (y) => y !== null && y !== undefined;
const lastKnown = (ys) => ys.findLast(isKnown);
const andOthers = (count) => (count > 0 ? [`and ${count} ${count === 1 ? "other" : "others"}`] : []);

/** Its colour; those that nobody names stand back. */
const lineClass = (series, i) => `line-${i < MOST_NAMED ? (series.color ?? 0) % COLORS : "rest"}`;

function extent(ys) {
  let low = Infinity;
  let high = -Infinity;
  for (const y of ys) {
    if (!isKnown(y)) continue;
    if (y < low) low = y;
    if (y > high) high = y;
  }
  return [low, high];
}

export class Chart {
  /**
   * `format`: of a value; `base`: of its units, as 1024; `log`: it may be drawn so; `zero`: its scale begins at 0;
   * `most`: it ends there. */
  constructor(title, { format = number, base = 0, most = Infinity, log = false, zero = false } = {}) {
    Object.assign(this, { title, format, base, most, log, zero, series: [], marks: [], at: null });
    const id = `chart-${++count}`;
    this.svg = svg("svg", { role: "img", "aria-label": title, height: HEIGHT });
    this.scrub = el("input", { type: "range", class: "scrub", min: 0, max: STOPS, value: STOPS,
      "aria-label": `${title}: point in time`, "aria-describedby": `${id}-text`, oninput: () => this.read() });
    this.scrub.addEventListener("pointermove", (event) => this.point(event));
    this.scrub.addEventListener("pointerleave", () => this.leave());
    this.scrub.addEventListener("blur", () => this.leave());
    this.now = el("span", { class: "now" });
    this.text = el("p", { id: `${id}-text`, class: "unseen" });
    this.legend = el("ul", { class: "legend", "aria-hidden": "true" });
    this.table = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title} as a table` });
    const details = el("details", { ontoggle: () => this.tabulate() }, el("summary", {}, "Numbers"), this.table);
    this.details = details;
    this.node = el("figure", { class: "chart", hidden: true, "aria-labelledby": `${id}-title` },
      el("figcaption", {}, el("h3", { id: `${id}-title` }, title), this.now),
      el("div", { class: "plot" }, this.svg, this.scrub), this.legend, this.text, details);
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  /** `series`: [{name, x, y, color}]; `marks`: [{x}], drawn as lines from top to bottom. */
  update(series, marks = []) {
    this.series = series;
    this.marks = marks;
    show(this.node, series.length > 0);
    if (series.length === 0) return;
    this.draw();
    this.describe();
    this.tabulate();
  }

  describe() {
    const [first] = this.series;
    const named = this.series.length > 1;
    const last = lastKnown(first.y);
    if (this.at === null) say(this.now, last === undefined || this.series.length > 2 ? "" : this.format(last));
    const shown = this.series.slice(0, MOST_NAMED);
    const others = andOthers(this.series.length - shown.length);
    const newest = shown.map((s) => `${named ? `${s.name} ` : ""}${this.format(lastKnown(s.y))}`);
    this.svg.setAttribute("aria-label", `${this.title}, newest: ${[...newest, ...others].join(", ")}`);
    const ranges = shown.map((s) => {
      const [low, high] = extent(s.y);
      const range = `first ${this.format(s.y.find(isKnown))}, lowest ${this.format(low)}, highest ${this.format(high)}`;
      return named ? `${s.name}: ${range}` : range;
    });
    say(this.text, `${[...ranges, ...others].join(". ")}. The last point is at ${duration(first.x.at(-1))}.`);
    keep(this.legend, named ? [...shown, ...others.map((name) => ({ name }))] : [], (s) => s.name,
      (s) => el("li", {}, s.x && el("span", { class: `key ${lineClass(s, 0)}` }), s.name), () => {});
  }

  /** The values to pixels and back. */
  scale() {
    const width = Math.max(200, this.svg.parentNode.clientWidth);
    const xs = this.series.flatMap((s) => [s.x[0], s.x.at(-1)]);
    let [left, right] = [Math.min(...xs), Math.max(...xs)];
    if (right - left < 1e-9) right = left + 1;
    let [low, high] = extent(this.series.flatMap((s) => extent(s.y)));
    const floor = low >= 0 ? 0 : -Infinity; // a scale does not begin below what there can be
    const log = this.log && low > 0 && high / low > LOG_FROM;
    if (this.zero) low = Math.min(0, low);
    if (this.zero && high > 0) high = ticks(low, high * 1.25, 4, this.base).find((tick) => tick >= high) ?? high;
    const isFlat = high - low < 1e-12;
    if (isFlat) [low, high] = high === 0 ? [0, 1] : [low - Math.abs(low) * 0.1, high + Math.abs(high) * 0.1];
    else if (!log) [low, high] = [this.zero ? low : low - (high - low) * 0.04, high + (high - low) * 0.06];
    [low, high] = [Math.max(low, floor), Math.min(high, this.most)];
    const inner = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
    const part = log ? (y) => Math.log(y / low) / Math.log(high / low) : (y) => (y - low) / (high - low);
    return {
      width, left, right, low, high, log,
      x: (x) => EDGE.left + ((x - left) / (right - left)) * inner.width,
      y: (y) => EDGE.top + (1 - part(y)) * inner.height,
      time: (pixel) => left + Math.min(1, Math.max(0, (pixel - EDGE.left) / inner.width)) * (right - left),
    };
  }

  draw() {
    if (this.series.length === 0 || this.node.hidden) return;
    const s = this.scale();
    this.scaled = s;
    const parts = [];
    const yTicks = s.log ? logTicks(s.low, s.high) : ticks(s.low, s.high, 4, this.base);
    for (const y of yTicks) {
      parts.push(svg("line", { class: "grid", x1: EDGE.left, x2: s.width - EDGE.right, y1: s.y(y), y2: s.y(y) }));
      parts.push(svg("text", { class: "tick", x: EDGE.left - 8, y: s.y(y) + 4, "text-anchor": "end" }, this.format(y)));
    }
    for (const x of timeTicks(s.left, s.right, Math.max(2, Math.floor(s.width / 80)))) {
      parts.push(svg("text", { class: "tick", x: s.x(x), y: HEIGHT - 6, "text-anchor": "middle" }, shortTime(x)));
    }
    for (const mark of this.marks) {
      if (mark.x < s.left || mark.x > s.right) continue;
      const x = s.x(mark.x);
      parts.push(svg("line", { class: "mark", x1: x, x2: x, y1: EDGE.top, y2: HEIGHT - EDGE.bottom }));
    }
    const few = (series) => series.x.length <= 2;
    const lines = this.series.map((series, i) => ({ series, color: lineClass(series, i) })).reverse();
    for (const { series, color } of lines) {
      parts.push(svg("path", { class: `line ${color}`, d: pathOf(series, s) }));
      if (!few(series) && !series.dots) continue;
      series.x.forEach((x, i) => isKnown(series.y[i]) && parts.push(
        svg("circle", { class: `dot ${color}`, cx: s.x(x), cy: s.y(series.y[i]), r: 3 })));
    }
    this.cursor = svg("g", {});
    this.svg.setAttribute("viewBox", `0 0 ${s.width} ${HEIGHT}`);
    this.svg.setAttribute("width", s.width);
    this.svg.replaceChildren(...parts, this.cursor);
    if (this.at !== null) this.readAt(this.at);
  }

  point(event) {
    if (!this.scaled || event.pointerType !== "mouse") return;
    this.readAt(this.scaled.time(event.offsetX));
  }

  /** By the slider: what stands at its place, also for a screen reader. */
  read() {
    const s = this.scaled;
    if (!s) return;
    const words = this.readAt(s.left + (this.scrub.value / STOPS) * (s.right - s.left));
    this.scrub.setAttribute("aria-valuetext", words);
  }

  readAt(time) {
    this.at = time;
    const s = this.scaled;
    const found = this.series.slice(0, MOST_NAMED).map((series) => ({ series, i: nearest(series.x, time) }))
      .filter(({ series, i }) => isKnown(series.y[i]));
    if (found.length === 0) return "";
    const x = found[0].series.x[found[0].i];
    this.cursor.replaceChildren(
      svg("line", { class: "cursor", x1: s.x(x), x2: s.x(x), y1: EDGE.top, y2: HEIGHT - EDGE.bottom }),
      ...found.map(({ series, i }) => svg("circle",
        { class: `dot ${lineClass(series, 0)}`, cx: s.x(series.x[i]), cy: s.y(series.y[i]), r: 4 })));
    const values = found.map(({ series, i }) =>
      (this.series.length > 1 ? `${series.name} ` : "") + this.format(series.y[i]));
    const words = `${duration(x)}: ${[...values, ...andOthers(this.series.length - MOST_NAMED)].join(", ")}`;
    say(this.now, words);
    return words;
  }

  leave() {
    this.at = null;
    this.cursor?.replaceChildren();
    if (this.series.length > 0) this.describe();
  }

  /** Some of the points, evenly spread, while the table is open. */
  tabulate() {
    if (!this.details.open || this.series.length === 0) return;
    const longest = this.series.reduce((a, b) => (b.x.length > a.x.length ? b : a)).x;
    const step = Math.max(1, Math.ceil(longest.length / TABLE_ROWS));
    const times = longest.filter((_, i) => i % step === 0 || i === longest.length - 1);
    this.table.replaceChildren(el("table", { "aria-label": this.title },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Elapsed"),
        this.series.map((s) => el("th", { scope: "col", class: "number" }, s.name)))),
      el("tbody", {}, times.map((time) => el("tr", {}, el("th", { scope: "row" }, duration(time)),
        this.series.map((s) => {
          const value = s.y[nearest(s.x, time)];
          return el("td", { class: "number" }, isKnown(value) ? this.format(value) : DASH);
        }))))));
  }
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; ++power) {
    for (const x of [1, 2, 5]) {
      const y = x * 10 ** power;
      if (y >= low && y <= high) found.push(y);
    }
  }
  return found.length > 6 ? found.filter((y) => Math.abs(Math.log10(y) % 1) < 1e-9) : found;
}

function pathOf({ x, y }, s) {
  let d = "";
  let pen = false;
  for (let i = 0; i < x.length; ++i) {
    if (!isKnown(y[i])) {
      pen = false;
      continue;
    }
    d += `${pen ? "L" : "M"}${s.x(x[i]).toFixed(1)} ${s.y(y[i]).toFixed(1)}`;
    pen = true;
  }
  return d;
}

/** A curve without axes, for a cell of a table: `name` is what it shows, and the newest value stands beside it. */
export function spark(node, points, name, format) {
  const [width, height] = [72, 20];
  if (!node.firstChild) {
    node.setAttribute("viewBox", `0 0 ${width} ${height}`);
    node.append(svg("path", { class: "line line-0" }));
  }
  if (!points || points.x.length < 2 || node.drawnTo === points.x.at(-1)) return;
  node.drawnTo = points.x.at(-1);
  const from = Math.max(0, points.x.length - SPARK_POINTS);
  const [x, y] = [points.x.slice(from), points.y.slice(from)];
  const [low, high] = extent(y);
  const top = 1.2 * Math.max(high, 1e-9);
  const scale = { x: (v) => ((v - x[0]) / (x.at(-1) - x[0] || 1)) * width, y: (v) => 1 + (1 - v / top) * (height - 2) };
  node.firstChild.setAttribute("d", pathOf({ x, y }, scale));
  node.setAttribute("aria-label", `${name} over time, newest: ${format(lastKnown(y))}, lowest ${format(low)}, ` +
    `highest ${format(high)}`);
}

// A curve over time: drawn as SVG, read point by point with a slider (mouse, finger or arrow keys), and as a table.

import { el, keep, say, show, svg } from "./dom.js";
import { DASH, duration, number } from "./format.js";

const HEIGHT = 190;
const EDGE = { top: 12, right: 14, bottom: 24, left: 56 };
const COLORS = 8;
const STOPS = 1000; // of the slider
const TABLE_ROWS = 20;
const LOG_FROM = 30; // a curve that spans more is drawn on a logarithmic scale, if it may be
const MOST_NAMED = 8; // series in the legend and the readout

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

export class Chart {
  /**
   * `format`: of a value; `base`: of its units, as 1024; `log`: it may be drawn so; `zero`: its scale begins at 0;
   * `most`: it ends there. */
  constructor(title, { format = number, base = 0, most = Infinity, log = false, zero = false } = {}) {
    Object.assign(this, { title, format, base, most, log, zero, series: [], marks: [], at: null });
    const id = `chart-${++count}`;
    this.svg = svg("svg", { "aria-hidden": "true", height: HEIGHT });
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
    const parts = this.series.slice(0, MOST_NAMED).map((s) => {
      const ys = s.y.filter(isKnown);
      const low = ys.reduce((a, b) => Math.min(a, b), Infinity);
      const high = ys.reduce((a, b) => Math.max(a, b), -Infinity);
      const range = `now ${this.format(ys.at(-1))}, first ${this.format(ys[0])}, ` +
        `lowest ${this.format(low)}, highest ${this.format(high)}`;
      return named ? `${s.name}: ${range}` : range;
    });
    const more = this.series.length - parts.length;
    if (more > 0) parts.push(`And ${more} more`);
    say(this.text, `${parts.join(". ")}. The last point is at ${duration(first.x.at(-1))}.`);
    keep(this.legend, named ? this.series.slice(0, MOST_NAMED) : [], (s) => s.name,
      (s) => el("li", {}, el("span", { class: `key line-${(s.color ?? 0) % COLORS}` }), s.name), () => {});
  }

  /** The values to pixels and back. */
  scale() {
    const width = Math.max(200, this.svg.parentNode.clientWidth);
    const xs = this.series.flatMap((s) => [s.x[0], s.x.at(-1)]);
    let [left, right] = [Math.min(...xs), Math.max(...xs)];
    if (right - left < 1e-9) right = left + 1;
    let low = Infinity;
    let high = -Infinity;
    for (const { y } of this.series) {
      for (const value of y) {
        if (!isKnown(value)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    const log = this.log && low > 0 && high / low > LOG_FROM;
    if (this.zero) low = Math.min(0, low);
    if (this.zero && high > 0) high = ticks(low, high * 1.25, 4, this.base).find((tick) => tick >= high) ?? high;
    if (high - low < 1e-12) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
    else if (!log) [low, high] = [this.zero ? low : low - (high - low) * 0.04, high + (high - low) * 0.06];
    high = Math.min(high, this.most);
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
    for (const series of this.series) {
      parts.push(svg("path", { class: `line line-${(series.color ?? 0) % COLORS}`, d: pathOf(series, s) }));
      if (!few(series) && !series.dots) continue;
      series.x.forEach((x, i) => isKnown(series.y[i]) && parts.push(
        svg("circle", { class: `dot line-${(series.color ?? 0) % COLORS}`, cx: s.x(x), cy: s.y(series.y[i]), r: 3 })));
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
        { class: `dot line-${(series.color ?? 0) % COLORS}`, cx: s.x(series.x[i]), cy: s.y(series.y[i]), r: 4 })));
    const values = found.map(({ series, i }) =>
      (this.series.length > 1 ? `${series.name} ` : "") + this.format(series.y[i]));
    const words = `${duration(x)}: ${values.join(", ")}`;
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
    const named = this.series.slice(0, MOST_NAMED);
    const longest = named.reduce((a, b) => (b.x.length > a.x.length ? b : a)).x;
    const step = Math.max(1, Math.ceil(longest.length / TABLE_ROWS));
    const times = longest.filter((_, i) => i % step === 0 || i === longest.length - 1);
    this.table.replaceChildren(el("table", { "aria-label": this.title },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Elapsed"),
        named.map((s) => el("th", { scope: "col", class: "number" }, s.name)))),
      el("tbody", {}, times.map((time) => el("tr", {}, el("th", { scope: "row" }, duration(time)),
        named.map((s) => {
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

/** A curve without axes, for a cell of a table; what it says stands beside it as a number. */
export function spark(node, points) {
  const [width, height] = [72, 20];
  if (!node.firstChild) {
    node.setAttribute("viewBox", `0 0 ${width} ${height}`);
    node.append(svg("path", { class: "line line-0" }));
  }
  if (!points || points.x.length < 2 || node.drawnTo === points.x.at(-1)) return;
  node.drawnTo = points.x.at(-1);
  const from = Math.max(0, points.x.length - 120);
  const [x, y] = [points.x.slice(from), points.y.slice(from)];
  const top = 1.2 * y.reduce((a, b) => Math.max(a, b ?? 0), 1e-9);
  const scale = { x: (v) => ((v - x[0]) / (x.at(-1) - x[0] || 1)) * width, y: (v) => 1 + (1 - v / top) * (height - 2) };
  node.firstChild.setAttribute("d", pathOf({ x, y }, scale));
}

// Numbers and times as people read them. What is not known is a dash.

export const DASH = "–";
const known = (x) => typeof x === "number" && Number.isFinite(x);

export function number(x) {
  if (!known(x)) return DASH;
  const size = Math.abs(x);
  if (size >= 1e6) return `${(x / 1e6).toPrecision(3)} M`;
  if (size >= 1e5) return `${Math.round(x / 1e3)} k`;
  if (size >= 100) return Math.round(x).toLocaleString("en-US");
  if (size >= 1 || size === 0) return String(Number(x.toPrecision(3)));
  if (size >= 1e-4) return String(Number(x.toPrecision(3)));
  return x.toExponential(1);
}

export const counted = (x) => (known(x) ? Math.round(x).toLocaleString("en-US") : DASH);
export const percent = (x, digits = 0) => (known(x) ? `${(100 * x).toFixed(digits)} %` : DASH);
export const accuracy = (x) => percent(x, 1);
export const cores = (x) => (known(x) ? `${Math.round(100 * x)} %` : DASH);
export const metricText = (name, x) => (name === "accuracy" ? accuracy(x) : number(x));
export const trialCount = ({ over, wanted }) => `${counted(over)} of ${counted(wanted)} trials`;
export const rate = (x) => (known(x) ? `${number(x)}/s` : DASH);

export function bytes(x) {
  if (!known(x)) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (x >= 1024 && unit < units.length - 1) {
    x /= 1024;
    ++unit;
  }
  return `${unit === 0 ? x : x.toPrecision(3)} ${units[unit]}`;
}

export function duration(seconds) {
  if (!known(seconds)) return DASH;
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** Seconds that a job, or a trial, has run, by the service's times. */
export function elapsedOf({ startTime, endTime }) {
  return startTime && (new Date(endTime ?? Date.now()) - new Date(startTime)) / 1000;
}

const two = (x) => String(x).padStart(2, "0");

/** A time of day here; with its date unless that is today. */
export function clock(when) {
  const date = new Date(when);
  if (Number.isNaN(date.getTime())) return DASH;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

/** With a capital, unless it begins with a path or the like, and a full stop. */
export const sentence = (text) => text.replace(/^[a-z](?=[a-z]* )/, (letter) => letter.toUpperCase()) +
  (/[.!?:]$/.test(text) ? "" : ".");

/** RUNNING -> Running */
export const word = (state) => state.charAt(0) + state.slice(1).toLowerCase();

export const OVER = ["SUCCEEDED", "FAILED", "CANCELLED"];
export const isOver = (state) => OVER.includes(state);

// The models that the service answers from: their versions, how much they are asked, and a form that asks one.

import { api, repeat } from "./api.js";
import { el, say, section, show, table } from "./dom.js";
import { counted, DASH, rate, sentence } from "./format.js";
import { badge } from "./list.js";

/** Below a second, as latencies are. */
export const milliseconds = (seconds) => (seconds > 0 ? `${Number((1000 * seconds).toPrecision(3))} ms` : DASH);

/** Of a version that followed a job also the checkpoint that it came to when the job ended. */
function from(version) {
  if (!version.origin.endsWith("/live") || version.isLive || !version.deployedFrom) return version.origin;
  return `${version.origin}, over: ${version.deployedFrom.split("/").pop()}`;
}

const COLUMNS = [
  { name: "Version", text: (v) => `${v.model}/${v.version}` },
  { name: "State", make: () => el("span"), update: (cell, v) => badge(cell.firstChild, v.state) },
  { name: "Default", text: (v) => (v.isDefault ? "yes" : DASH), optional: true },
  { name: "Requests", number: true, text: (v) => counted(v.requests) },
  { name: "Now", number: true, text: (v) => rate(v.requestsPerSecond) },
  { name: "Rows", number: true, text: (v) => rate(v.rowsPerSecond) },
  { name: "p50", number: true, text: (v) => milliseconds(v.p50Seconds) },
  { name: "p99", number: true, text: (v) => milliseconds(v.p99Seconds) },
  { name: "Fresh", number: true, optional: true,
    text: (v) => (v.freshness ? milliseconds(v.freshness.p99Seconds ?? v.freshness.ageSeconds) : DASH) },
  { name: "Errors", number: true, text: (v) => (v.errors > 0 ? counted(v.errors) : DASH), optional: true },
  { name: "From", text: from },
  { name: "Why", text: (v) => (v.errorMessage ? sentence(v.errorMessage) : DASH), optional: true },
];

/** A form that asks a version for a prediction, and shows the answer as it came. */
function trial() {
  const version = el("select", { id: "asked", required: true });
  const rows = el("textarea", { id: "instances", rows: 6, required: true, spellcheck: "false",
    "aria-describedby": "instances-help" });
  const answer = el("pre", { class: "answer", role: "status", hidden: true });
  const wrong = el("p", { class: "trouble", role: "alert", hidden: true });
  const form = el("form", { class: "form", onsubmit: async (event) => {
    event.preventDefault();
    show(wrong, false);
    show(answer, false);
    try {
      const instances = JSON.parse(`[${rows.value.trim().replace(/\n+/g, ",")}]`);
      const [model, name] = version.value.split("/");
      say(answer, JSON.stringify(await api.predict(model, name, instances), null, 2));
      show(answer, true);
    } catch (error) {
      say(wrong, error instanceof SyntaxError ? "The rows are no JSON: one row on each line." : error.message);
      show(wrong, true);
    }
  } },
  el("label", { for: "asked" }, "Version"), version,
  el("label", { for: "instances" }, "Rows"), rows,
  el("p", { id: "instances-help", class: "dim" }, 'One on each line, such as {"age": 39, "job": "Private"}.'),
  el("div", { class: "actions" }, el("button", { class: "primary" }, "Predict")), wrong, answer);
  const update = (names) => {
    const before = [...version.options].map((option) => option.value);
    if (before.join() === names.join()) return;
    const chosen = version.value;
    version.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    if (names.includes(chosen)) version.value = chosen;
  };
  return { node: section("try", "Try a prediction", form), update };
}

export function showModels(main) {
  document.title = "Models · Downpour";
  const versions = table("Versions of models", COLUMNS);
  const empty = el("p", { class: "empty", hidden: true },
    "There is no model yet. Deploy one: downpour models deploy MODEL VERSION JOB");
  const ask = trial();
  main.replaceChildren(el("div", { class: "head" }, el("h1", {}, "Models")), versions.node, empty, ask.node);
  repeat(async () => {
    const { models } = await api.models();
    const all = models.flatMap(({ model, versions: own }) => own.map((version) => ({ ...version, model })));
    const nameOf = (version) => `${version.model}/${version.version}`;
    versions.update(all, nameOf);
    const ready = all.filter((version) => version.state === "READY").map(nameOf);
    ask.update(ready);
    show(versions.node, all.length > 0);
    show(empty, all.length === 0);
    show(ask.node, ready.length > 0);
    return true;
  }, 2);
}

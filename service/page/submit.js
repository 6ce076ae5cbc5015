// The form that submits a job: by its job file, or as a package of Python code.

import { api, repeat } from "./api.js";
import { el, say, show } from "./dom.js";
import { bytes } from "./format.js";
import { jobLink } from "./list.js";
import { splitWords } from "./shell_words.js";

const PACKAGES = "packages"; // the bucket of what is uploaded for one job: it goes with it
const TIERS = [["BASIC", "1 worker, 1 ps"], ["STANDARD_1", "5 workers, 3 ps"], ["PREMIUM_1", "20 workers, 11 ps"],
  ["BASIC_GPU", "1 worker with a GPU, 1 ps"]];

/** A field with its label, and words about it below. */
function field(label, input, help) {
  const id = input.id;
  if (help) input.setAttribute("aria-describedby", `${id}-help`);
  return [el("label", { for: id }, label), input, help && el("p", { id: `${id}-help`, class: "dim" }, help)];
}

/** Of a part of the form that is not chosen nothing is asked. */
function part(children, bodyOf) {
  const node = el("fieldset", { class: "part" }, children);
  return { node, bodyOf, choose: (chosen) => {
    show(node, chosen);
    node.disabled = !chosen;
  } };
}

function jobFilePart() {
  const text = el("textarea", { id: "text", required: true, rows: 18, spellcheck: "false" });
  const file = el("input", { id: "file", type: "file", accept: ".yaml,.yml,.json", onchange: async () => {
    if (file.files.length > 0) text.value = await file.files[0].text();
  } });
  return part([field("Job file", file), field("Its text", text,
    "YAML or JSON. Paths of data must be absolute on the service's machine.")].flat(), () => ({ jobFile: text.value }));
}

/** "team=a, trial" -> {team: "a", trial: ""} */
const labelsIn = (text) => Object.fromEntries(text.split(",").map((pair) => pair.trim()).filter(Boolean)
  .map((pair) => pair.split("=").map((word) => word.trim())).map(([key, ...value]) => [key, value.join("=")]));

function packagePart(tell) {
  const text = { type: "text", autocomplete: "off", spellcheck: "false" };
  const file = el("input", { id: "package", type: "file", required: true, accept: ".gz,.whl,.zip" });
  const module = el("input", { ...text, id: "module", required: true, placeholder: "trainer.task" });
  const args = el("input", { ...text, id: "args", placeholder: "--epochs 2" });
  const tier = el("select", { id: "tier" },
    TIERS.map(([name, words]) => el("option", { value: name }, `${name}: ${words}`)));
  const folder = el("input", { ...text, id: "folder", placeholder: "gs://models/wd1" });
  let stored = { file: null, name: "", uri: "" }; // is not sent again where only the answer was lost

  async function store(name) {
    const [chosen] = file.files;
    if (!/\.(tar\.gz|whl|zip)$/.test(chosen.name)) throw new Error("A package is a .tar.gz, a .whl or a .zip.");
    if (stored.file === chosen && stored.name === name) return stored.uri;
    tell(`Uploading ${bytes(chosen.size)}`);
    const uri = await api.upload(PACKAGES, `${name}/${Date.now()}/${chosen.name}`, chosen);
    stored = { file: chosen, name, uri };
    return uri;
  }
  async function bodyOf(name) {
    const words = splitWords(args.value);
    const input = { scaleTier: tier.value, pythonModule: module.value.trim(), packageUris: [await store(name)] };
    if (words.length > 0) input.args = words;
    if (folder.value.trim()) input.jobDir = folder.value.trim();
    return { trainingInput: input };
  }
  const made = part([
    field("Package", file, "Python code with downpour.fit, as python3 -m build makes it: .tar.gz, .whl or .zip."),
    field("Module", module, "The one to run, by its name in the package."),
    field("Arguments", args, "As on a command line: quotes hold words together."),
    field("Scale tier", tier),
    field("Output folder", folder, "May be empty. Your program gets it as --job-dir. The job's page shows its files."),
  ].flat(), bodyOf);
  return { ...made, forget: () => { stored = { file: null, name: "", uri: "" }; } };
}

function kindChoice(parts) {
  const choose = (kind) => parts.forEach(([id, , one]) => one.choose(id === kind));
  const node = el("fieldset", { class: "kinds" }, el("legend", {}, "What to run"), parts.map(([id, words], i) =>
    el("label", { class: "check" }, el("input", { type: "radio", name: "kind", id: `kind-${id}`, value: id,
      checked: i === 0, onchange: () => choose(id) }), words)));
  choose(parts[0][0]);
  return { node, chosen: () => parts.find(([, , one]) => !one.node.disabled)[2] };
}

export function showSubmit(main) {
  document.title = "Submit a job · Downpour";
  const name = el("input", { id: "name", required: true, maxlength: 128, pattern: "[A-Za-z][A-Za-z0-9_]*",
    autocomplete: "off", spellcheck: "false" });
  const labels = el("input", { id: "labels", type: "text", autocomplete: "off", placeholder: "team=a, run=3" });
  const wrong = el("p", { class: "trouble", role: "alert", hidden: true });
  const send = el("button", { class: "primary" }, "Submit");
  const code = packagePart((words) => say(send, words));
  const parts = [["file", "A job file", jobFilePart()], ["package", "A package of Python code", code]];
  const kind = kindChoice(parts);
  const form = el("form", { class: "form", onsubmit: async (event) => {
    event.preventDefault();
    send.disabled = true;
    show(wrong, false);
    try {
      const body = await kind.chosen().bodyOf(name.value);
      const job = await api.submit({ jobId: name.value, labels: labelsIn(labels.value), ...body });
      location.assign(jobLink(job.jobId));
    } catch (error) {
      // What the service refuses it does not keep the package of.
      if (error.code >= 400 && error.code < 500) code.forget();
      say(wrong, error.message);
      show(wrong, true);
      say(send, "Submit");
      send.disabled = false;
    }
  } },
  field("Name", name, "A letter, then letters, digits and _. No other job has it."), kind.node,
  parts.map(([, , one]) => one.node), field("Labels", labels, "May be empty."), wrong,
  el("div", { class: "actions" }, send));
  main.replaceChildren(el("h1", {}, "Submit a job"), form);
  name.focus();
  repeat(() => api.overview({ count: 1 }).then(() => true), 5); // whether the service is there
}

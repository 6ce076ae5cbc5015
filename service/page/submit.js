// The form that submits a job by its job file.

import { api, repeat } from "./api.js";
import { el, say, show } from "./dom.js";
import { jobLink } from "./list.js";

export function showSubmit(main) {
  document.title = "Submit a job · Downpour";
  const name = el("input", { id: "name", required: true, maxlength: 128, pattern: "[A-Za-z][A-Za-z0-9_]*",
    autocomplete: "off", spellcheck: "false", "aria-describedby": "name-help" });
  const text = el("textarea", { id: "text", required: true, rows: 18, spellcheck: "false",
    "aria-describedby": "text-help" });
  const file = el("input", { id: "file", type: "file", accept: ".yaml,.yml,.json", onchange: async () => {
    if (file.files.length > 0) text.value = await file.files[0].text();
  } });
  const wrong = el("p", { class: "trouble", role: "alert", hidden: true });
  const send = el("button", { class: "primary" }, "Submit");
  const form = el("form", { class: "form", onsubmit: async (event) => {
    event.preventDefault();
    send.disabled = true;
    show(wrong, false);
    try {
      const job = await api.submit({ jobId: name.value, jobFile: text.value });
      location.assign(jobLink(job.jobId));
    } catch (error) {
      say(wrong, error.message);
      show(wrong, true);
      send.disabled = false;
    }
  } },
  el("label", { for: "name" }, "Name"), name,
  el("p", { id: "name-help", class: "dim" }, "A letter, then letters, digits and _. No other job has it."),
  el("label", { for: "file" }, "Job file"), file,
  el("label", { for: "text" }, "Its text"), text,
  el("p", { id: "text-help", class: "dim" }, "YAML or JSON. Paths of data must be absolute on the service's machine. " +
    "Python packages are submitted by gcloud or downpour jobs submit."),
  wrong, el("div", { class: "actions" }, send));
  main.replaceChildren(el("h1", {}, "Submit a job"), form);
  name.focus();
  repeat(() => api.overview({ count: 1 }).then(() => true), 5); // whether the service is there
}

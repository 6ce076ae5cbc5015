// Which view the address names: / the list, /?job=NAME one job, /?submit the form, /?models the models.

import { link } from "./api.js";
import { askForToken } from "./dialog.js";
import { say, show } from "./dom.js";
import { showJob } from "./job.js";
import { showList } from "./list.js";
import { showModels } from "./models.js";
import { showSubmit } from "./submit.js";

const words = new URLSearchParams(location.search);
const main = document.getElementById("main");
const light = document.getElementById("link");
const trouble = document.getElementById("trouble");

link.listener = (error) => {
  const gone = error?.code === 0;
  light.dataset.state = gone ? "gone" : "live";
  say(light, gone ? "not connected" : "live");
  show(trouble, gone);
  if (gone) say(trouble, "The service does not answer. It is asked again every 2 s. Running jobs continue without it.");
  if (error?.code === 401) askForToken();
};

const here = ["submit", "models"].find((view) => words.has(view)) ?? (words.has("job") ? "" : "jobs");
if (here) document.getElementById(`nav-${here}`).setAttribute("aria-current", "page");

if (words.has("submit")) showSubmit(main);
else if (words.has("models")) showModels(main);
else if (words.has("job")) showJob(main, words.get("job"));
else showList(main);

"""Tuning jobs of the service: their trials, the best of them, and what a killed service makes of them."""

import importlib.util
import json
import threading
import unittest

from cluster import drawn, kill
from job_service import BATCH, OVER, RATE, ServiceTest

ENDLESS = 1_000_000
# A model of NumPy arrays that learns a line.
LINE = """
import argparse
import numpy
import downpour

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.1)
options = parser.parse_args()
x = numpy.linspace(-1, 1, 64, dtype=numpy.float32)

def step(values, batch):
    given, wanted = batch
    off = given * values["slope"] - wanted
    return float(numpy.mean(off ** 2)), {"slope": numpy.array([2 * numpy.mean(off * given)], numpy.float32)}

downpour.fit({"slope": numpy.zeros(1, numpy.float32)}, train=(x, 3 * x), eval=(x, 3 * x), step=step, epochs=EPOCHS,
             batch_size=8, optimizer={"name": "sgd", "learningRate": options.rate})
"""


class TuningTest(ServiceTest):
    def output_of(self, name):
        return self.job_of(name)["trainingOutput"]

    def wait_for_trials(self, name, is_good):
        while not is_good(self.output_of(name)["trials"]):
            self.assertNotIn(self.job_of(name)["state"], OVER)
            threading.Event().wait(0.05)

    def test_a_grid_is_searched_and_the_best_trial_stands_first(self):
        self.start_service("--cores", "4")
        status, answer = self.submit_tuning("grid", [RATE, BATCH], algorithm="GRID_SEARCH", maxTrials=4,
                                            maxParallelTrials=2)  # fmt: skip
        self.assertEqual(status, 200, answer)
        self.wait_for("grid", "SUCCEEDED")
        output = self.output_of("grid")
        self.assertEqual(output["completedTrialCount"], "4", output)
        self.assertTrue(output["isHyperparameterTuningJob"])
        self.assertEqual(output["hyperparameterMetricTag"], "accuracy")
        trials = output["trials"]
        points = {tuple(sorted(trial["hyperparameters"].items())) for trial in trials}
        self.assertEqual(len(points), 4, trials)
        reached = [trial["finalMetric"]["objectiveValue"] for trial in trials]
        self.assertEqual(reached, sorted(reached, reverse=True))
        best = self.root / "jobs/grid/trials" / trials[0]["trialId"]
        self.assertEqual(output["bestTrialFolder"], str(best))
        summary = json.loads((best / "summary.json").read_text())
        self.assertEqual(summary["evalAccuracy"], reached[0])
        search = {"over": 4, "wanted": 4, "running": 0, "failed": 0, "metric": "accuracy", "best": reached[0]}
        status = self.ask("GET", "/v1/projects/p/jobs/grid/status")[1]
        self.assertEqual(status, {"state": "SUCCEEDED", "trials": search})
        [row] = self.ask("GET", "/v1/projects/p/jobs:overview")[1]["jobs"]
        self.assertEqual((row["done"], row["accuracy"], row["trials"]), (1, reached[0], search))
        logs = self.ask("POST", "/v2/entries:list", {"filter": 'resource.labels.job_id="grid"'})[1]["entries"]
        shown = {entry["labels"].get("ml.googleapis.com/trial_id") for entry in logs}
        self.assertEqual(shown, {None, "1", "2", "3", "4"})
        self.assertTrue(any("the best trial is " in entry["textPayload"] for entry in logs))
        self.assertEqual([job["jobId"] for job in self.ask("GET", "/v1/projects/p/jobs")[1]["jobs"]], ["grid"])
        self.assertEqual(self.ask("DELETE", "/v1/projects/p/jobs/grid"), (200, {}))
        self.assertFalse((self.root / "jobs/grid").exists())

    def test_our_own_verb_submits_and_shows_a_search(self):
        self.write_job(cluster={"workerCount": 1, "parameterServerCount": 1})
        config = self.folder / "search.yaml"
        config.write_text("""trainingInput:
  hyperparameters:
    goal: MINIMIZE
    algorithm: GRID_SEARCH
    maxTrials: 2
    params:
    - {parameterName: training.batchSize, type: DISCRETE, discreteValues: [32, 64]}
""")
        place = ["--root", self.root]
        code, _, err = self.tool("jobs", "submit", "own", "--file", self.job_file, "--config", config, *place)
        self.assertEqual(code, 0, err)
        self.assertEqual(self.tool("jobs", "wait", "own", *place)[0], 0)
        output = json.loads(self.tool("jobs", "describe", "own", *place)[1])["trainingOutput"]
        first, second = (trial["finalMetric"]["objectiveValue"] for trial in output["trials"])
        self.assertLessEqual(first, second, "the lowest loss stands first")

    def test_what_the_job_file_lacks_is_refused(self):
        self.start_service()
        for params, search, words in [
            ([RATE | {"parameterName": "training.speed"}], {}, "training.speed"),
            ([RATE | {"maxValue": 1e9, "parameterName": "training.batchSize"}], {}, "training.batchSize"),
            ([RATE], {"hyperparameterMetricTag": "auc"}, "is auc, but the job evaluates accuracy, loss"),
            ([], {}, "hyperparameters.params"),
        ]:
            status, answer = self.submit_tuning("wrong", params, **search)
            self.assertEqual(status, 400)
            self.assertIn(words, answer["error"]["message"])

    def test_a_cancel_ends_its_trials(self):
        self.start_service("--cores", "4")
        self.submit_tuning("long", [RATE], epochs=ENDLESS, maxTrials=5, maxParallelTrials=2, algorithm="RANDOM_SEARCH")
        self.wait_for_trials("long", lambda trials: [trial["state"] for trial in trials] == ["RUNNING"] * 2)
        [row] = self.ask("GET", "/v1/projects/p/jobs:overview")[1]["jobs"]
        self.assertEqual((row["done"], row["trials"]["over"], row["trials"]["wanted"]), (0, 0, 5))
        self.assertEqual(row["trials"]["running"], 2)
        self.assertEqual(self.ask("DELETE", "/v1/projects/p/jobs/long")[0], 400, "it runs")
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.wait_for("long", "CANCELLED")
        self.assertEqual([trial["state"] for trial in self.output_of("long")["trials"]], ["CANCELLED"] * 2)

    def submit_line(self, name, parameter, epochs=1, **search):
        """A search over Python code, which evaluates nothing but its loss."""
        package = self.folder / "trainer"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        (package / "task.py").write_text(LINE.replace("EPOCHS", str(epochs)))
        config = self.folder / "search.yaml"
        params = [{"parameterName": parameter, "type": "DOUBLE", "minValue": 0.01, "maxValue": 0.1}]
        search = {"goal": "MINIMIZE", "algorithm": "RANDOM_SEARCH", "maxTrials": 9, "params": params} | search
        config.write_text(json.dumps({"trainingInput": {"hyperparameters": search}}))
        words = ["--module-name", "trainer.task", "--package-path", package, "--config", config, "--root", self.root]
        code, _, err = self.tool("jobs", "submit", name, *words)
        self.assertEqual(code, 0, err)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "there is no NumPy for this Python")
    def test_a_metric_that_the_code_does_not_evaluate_ends_the_search_before_a_trial_has_trained(self):
        self.start_service("--cores", "2")
        self.submit_line("line", "rate", epochs=ENDLESS, hyperparameterMetricTag="rmse", maxFailedTrials=9)
        job = self.wait_for("line", "FAILED")
        self.assertEqual(job["errorMessage"], "trainingInput.hyperparameters.hyperparameterMetricTag is rmse, but the "
                         "Python code of trial 1 evaluates loss")  # fmt: skip
        self.assertEqual([trial["state"] for trial in job["trainingOutput"]["trials"]], ["CANCELLED"])

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "there is no NumPy for this Python")
    def test_why_the_first_trial_failed_is_told_at_once(self):
        self.start_service("--cores", "2")
        self.submit_line("line", "rat")  # argparse takes it for --rate
        self.wait_for("line", "SUCCEEDED")
        said = (r"of \d trials failed; trial 1: the Python code trainer\.task came to no model: exit code 2: "
                r"task\.py: error: unrecognized arguments: --speed=0\.0")  # fmt: skip
        self.submit_line("wrong", "speed")
        while "trials failed" not in (why := self.job_of("wrong").get("stateMessage", "")):
            self.assertNotIn(self.job_of("wrong")["state"], OVER)
            threading.Event().wait(0.05)
        self.assertRegex(why, said)
        self.assertRegex(self.wait_for("wrong", "FAILED")["errorMessage"], "3 " + said.replace(r"\d", "3"))
        log = (self.root / "jobs/wrong/logs/service.log").read_text()
        self.assertRegex(log, r"(?m)^W .* trial 1 failed: the Python code trainer\.task .*unrecognized arguments")

    @unittest.skipIf(importlib.util.find_spec("optuna"), "there is Optuna here")
    def test_without_optuna_the_search_is_random_and_says_so(self):
        self.start_service()
        self.submit_tuning("bayes", [RATE])
        self.wait_for("bayes", "SUCCEEDED")
        log = (self.root / "jobs/bayes/logs/service.log").read_text()
        self.assertIn("random search is used instead of Bayesian", log)

    @unittest.skipUnless(importlib.util.find_spec("optuna"), "there is no optuna for this Python")
    def test_optuna_proposes(self):
        self.start_service("--cores", "4")
        optimizer = {"parameterName": "training.optimizer.name", "type": "CATEGORICAL",
                     "categoricalValues": ["sgd", "adam"]}  # fmt: skip
        self.submit_tuning("bayes", [RATE, BATCH, optimizer], maxTrials=6, maxParallelTrials=2)
        self.wait_for("bayes", "SUCCEEDED")
        self.assertNotIn("random search", (self.root / "jobs/bayes/logs/service.log").read_text())
        rates = {trial["hyperparameters"][RATE["parameterName"]] for trial in self.output_of("bayes")["trials"]}
        self.assertEqual(len(rates), 6)

    def test_whenever_it_is_killed_no_trial_is_lost_or_started_twice(self):
        seed, rng = drawn()
        self.start_service("--cores", "4")
        self.submit_tuning("often", [RATE, BATCH], maxTrials=6, maxParallelTrials=2, algorithm="RANDOM_SEARCH")
        seen = {}
        for _ in range(15):
            threading.Event().wait(rng.uniform(0, 0.5))
            kill(self.service.pid)
            self.service.end()
            self.start_service("--cores", "4")
            for trial in self.output_of("often")["trials"]:
                values = seen.setdefault(trial["trialId"], trial["hyperparameters"])
                self.assertEqual(values, trial["hyperparameters"], f"seed {seed}")
        self.wait_for("often", "SUCCEEDED")
        trials = self.output_of("often")["trials"]
        self.assertEqual({trial["trialId"] for trial in trials}, set("123456"), f"seed {seed}")
        for trial in trials:
            self.assertEqual(trial["state"], "SUCCEEDED", f"seed {seed}: {trial}")
            log = self.root / f"jobs/often/trials/{trial['trialId']}/logs/chief.log"
            self.assertEqual(log.read_text().count(" waits for its tasks at "), 1, f"seed {seed}")


if __name__ == "__main__":
    unittest.main()

"""Metrics of Python code that are no means: what three workers add up is what numpy makes of all examples at once."""

import json
import sys

import numpy
from cluster import ROOT
from own_code import EVAL_EXAMPLES, OwnCodeTest

sys.path.insert(0, str(ROOT / "python"))
from downpour.safetensors import read_safetensors  # noqa: E402

ROWS = 600
# Two classes that overlap. The last batch of the evaluation has one example, whose AUC is none.
CLICKS = f"""
import pathlib, sys
import numpy, torch
import downpour
from downpour.metrics import AUC, RMSE, CalibrationError, Mean, Ratio

draws = numpy.random.default_rng(5)
def draw(count):
    x = draws.standard_normal((count, 6)).astype("float32")
    return torch.from_numpy(x), torch.from_numpy((x[:, :1] + draws.standard_normal((count, 1)) > 0.5).astype("float32"))
train, evaluation = draw({ROWS}), draw({EVAL_EXAMPLES + 1})
numpy.savez(pathlib.Path(sys.argv[1]) / "evaluation.npz", *evaluation)
torch.manual_seed(3)
model = torch.nn.Linear(6, 1)
downpour.fit(
    model, train=train, eval=evaluation, loss=torch.nn.functional.binary_cross_entropy_with_logits,
    metrics={{"clicks": AUC(from_logits=True), "root": RMSE(), "unused": lambda output, target: output,
             "found": Ratio(lambda output, target: (target * (output > 0), target), better="more"),
             "distance": Mean(lambda output, target: (output - target).abs())}},
    epochs=3, batch_size=50, optimizer={{"name": "sgd", "learningRate": 0.2}})
"""


class PythonMetricsTest(OwnCodeTest):
    def run_job(self, **changes):
        self.write_package(CLICKS, cluster={"workerCount": 3, "parameterServerCount": 2},
                           training={"metrics": ["found", "clicks", "root", "distance"], **changes})
        run = self.start_python_run(args=[str(self.folder)])
        self.assertEqual(run.finish()[0], 0, run.said)
        return self.summary()

    def wanted(self):
        """By their definitions, of the values that are exported."""
        code, _, err = self.tool("export", "--format", "safetensors", "--job-dir", self.job_dir, "--out",
                                 self.folder / "end.safetensors")
        self.assertEqual(code, 0, err)
        values = read_safetensors(self.folder / "end.safetensors")
        x, target = numpy.load(self.folder / "evaluation.npz").values()
        output = (x.astype("float64") @ values["weight"].T.astype("float64") + values["bias"])[:, 0]
        ones = target[:, 0] == 1
        above = output[ones][:, None] - output[~ones][None, :]
        return {"clicks": ((above > 0) + 0.5 * (above == 0)).mean(), "found": (output[ones] > 0).mean(),
                "root": ((output - ones) ** 2).mean() ** 0.5, "distance": abs(output - ones).mean()}

    def test_what_workers_add_up_is_that_of_all_examples(self):
        summary = self.run_job()
        wanted = self.wanted()
        self.assertEqual(set(summary["evalMetrics"]), set(wanted))
        for name, value in summary["evalMetrics"].items():
            self.assertAlmostEqual(value, wanted[name], delta=2e-3 if name == "clicks" else 1e-5, msg=name)

    def test_the_job_stops_by_an_area_and_keeps_its_best(self):
        summary = self.run_job(epochs=200, stopEarly={"metric": "clicks", "patience": 2})
        self.assertIn("clicks", summary["stoppedEarly"])
        history = [json.loads(line) for line in (self.job_dir / "metrics.jsonl").read_text().splitlines()]
        areas = [line["metrics"]["clicks"] for line in history if line["kind"] == "eval"]
        best = [one["best"] for one in self.checkpoints() if "best" in one]
        self.assertEqual([one["metric"] for one in best], ["clicks"])
        # Where evaluations follow each other faster than rounds, some have no checkpoint. The last one always has.
        self.assertLess(min(abs(best[0]["value"] - area) for area in areas), 1e-9)
        self.assertGreaterEqual(best[0]["value"], areas[-1] - 1e-9)
        self.assertLess(len(areas), 200)

    def test_a_plain_function_says_not_what_is_better(self):
        self.write_package(CLICKS, training={"stopEarly": {"metric": "distance"}})
        said = self.refused(78, "--", str(self.folder))
        self.assertIn("training.stopEarly.metric", said)
        self.assertIn("clicks", said)


if __name__ == "__main__":
    import unittest

    unittest.main()

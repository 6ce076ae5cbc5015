"""Weights of examples: what is learned is what PyTorch makes of them, and each mean is numpy's over the weights."""

import json
import unittest

import numpy
import torch
from cluster import ProcessTest
from model_files import read_safetensors
from test_sigmoid import write_safetensors

ROWS, COLUMNS, EPOCHS, RATE = 600, 4, 20, 0.5
# Each makes one step of all rows: of batches whose last one is short, of two workers' means, and of one local step.
STEPS = {
    "batch": {"batchSize": ROWS},
    "pushEvery": {"batchSize": 256, "pushEvery": 3, "leaseBatches": 3},
    "workers": {"batchSize": ROWS // 2, "groupSize": 2},
    "localSteps": {"batchSize": ROWS, "localSteps": 1, "leaseBatches": 1, "consistency": "ssp", "groupSize": 1},
}


def weighted_area(scores, labels, weights):
    """The chance that a drawn example of class 1 is ranked above one of class 0, each drawn by its weight."""
    ones, zeros = labels == 1, labels == 0
    pairs = weights[ones][:, None] * weights[zeros][None, :]
    above = scores[ones][:, None] - scores[zeros][None, :]
    return (pairs * ((above > 0) + 0.5 * (above == 0))).sum() / pairs.sum()


class WeightsTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.draw, self.rate = numpy.random.default_rng(21), RATE
        self.x = self.draw.normal(0, 1, (ROWS, COLUMNS)).round(4)
        self.scores = self.x @ self.draw.normal(0, 1, (COLUMNS, 3)) + self.draw.normal(0, 1, (ROWS, 3))
        self.weights = self.draw.choice([0, 0.25, 1, 3.5], ROWS)

    def write(self, name, labels, weights):
        names = [f"x{i}" for i in range(COLUMNS)]
        lines = [",".join(map(str, [*row, label, weight])) for row, label, weight in zip(self.x, labels, weights)]
        (self.folder / name).write_text("\n".join([",".join([*names, "label", "importance"]), *lines]) + "\n")

    def job(self, loss, labels, training, **data):
        """A job in self.job_file whose first values are self.start."""
        units = 3 if loss == "softmaxCrossEntropy" else 1
        self.start = {"out/kernel": self.draw.normal(0, 0.1, (COLUMNS, units)), "out/bias": numpy.zeros(units)}
        write_safetensors(self.folder / "start.safetensors", self.start)
        self.write("rows.csv", labels, self.weights)
        job = {
            "name": "weights",
            "model": {"inputs": [{"name": "x", "columns": "all"}], "loss": loss,
                      "layers": [{"name": "out", "dense": {"units": units}}], "initializeFrom": "start.safetensors"},
            "data": {"format": "csv", "train": "rows.csv", "eval": "rows.csv", "label": "label", "weight": "importance",
                     "columns": [f"x{i}" for i in range(COLUMNS)], **data},
            "training": {"consistency": "sync", "epochs": EPOCHS, "evaluateEveryEpochs": 0,
                         "optimizer": {"name": "sgd", "learningRate": self.rate}, **training},
        }
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(job))

    def values(self, folder):
        path = folder / "end.safetensors"
        code, _, err = self.tool("export", "--format", "safetensors", "--job-dir", folder, "--out", path)
        self.assertEqual(code, 0, err)
        return read_safetensors(path)

    def by_torch(self, loss_of, labels):
        kernel = torch.tensor(self.start["out/kernel"].astype("float32"), requires_grad=True)
        bias = torch.zeros(kernel.shape[1], requires_grad=True)
        x, weights = torch.tensor(self.x.astype("float32")), torch.tensor(self.weights.astype("float32"))
        optimizer = torch.optim.SGD([kernel, bias], lr=self.rate)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            losses = loss_of(x @ kernel + bias, labels)
            (weights * losses).mean().backward()
            optimizer.step()
        self.last_step = numpy.average(losses.detach().numpy().astype("float64"), weights=self.weights)
        with torch.no_grad():
            outputs = x @ kernel + bias
            losses = loss_of(outputs, labels).numpy().astype("float64")
        return kernel.detach().numpy(), bias.detach().numpy(), outputs.numpy().astype("float64"), losses

    def check(self, loss, labels, loss_of, targets, how, **training):
        self.job(loss, labels, {**STEPS[how], **training})
        folder = self.folder / f"{loss}-{how}"
        more = ["--set", "cluster.workerCount=2"] if how == "workers" else []
        code, out, err = self.tool("run", self.job_file, "--job-dir", folder, *more)
        self.assertEqual(code, 0, out + err)
        kernel, bias, outputs, losses = self.by_torch(loss_of, targets)
        values = self.values(folder)
        numpy.testing.assert_allclose(values["out/kernel"], kernel, rtol=2e-5, atol=2e-6)
        numpy.testing.assert_allclose(values["out/bias"], bias, rtol=2e-5, atol=2e-6)
        summary = json.loads((folder / "summary.json").read_text())
        told = self.evaluated(folder)
        mean = numpy.average(losses, weights=self.weights)
        self.assertAlmostEqual(told["loss"], mean, places=5)
        self.assertAlmostEqual(summary["evalLoss"], mean, places=5)
        self.assertAlmostEqual(summary["trainLoss"], self.last_step, places=5)
        self.assertEqual(told["examples"], ROWS)
        return told, outputs

    def evaluated(self, folder, *more):
        code, out, err = self.tool("evaluate", "--job-dir", folder, "-o", "json", *more)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def test_sigmoids_and_every_metric_of_two_classes(self):
        labels = (self.scores[:, 0] > 0.3).astype(int)
        target = torch.tensor(labels[:, None].astype("float32"))
        loss_of = torch.nn.BCEWithLogitsLoss(reduction="none")
        told, outputs = self.check("sigmoidCrossEntropy", labels, lambda x, y: loss_of(x, y).squeeze(1), target,
                                   "batch", metrics=["auc", "logLoss", "calibration"])
        shares = 1 / (1 + numpy.exp(-outputs[:, 0]))
        metrics = told["metrics"]
        self.assertAlmostEqual(metrics["logLoss"], told["loss"], places=5)
        self.assertAlmostEqual(metrics["auc"], weighted_area(shares, labels, self.weights), places=3)
        self.assertAlmostEqual(metrics["calibration"], (self.weights * shares).sum() / (self.weights * labels).sum(),
                               places=5)
        right = (shares > 0.5) == labels
        self.assertAlmostEqual(told["accuracy"], numpy.average(right, weights=self.weights), places=6)

    def test_classes_however_the_rows_make_a_step(self):
        labels = self.scores.argmax(1)
        loss_of = torch.nn.CrossEntropyLoss(reduction="none")
        for how in STEPS:
            with self.subTest(how=how):
                told, outputs = self.check("softmaxCrossEntropy", labels, loss_of, torch.tensor(labels), how)
                right = outputs.argmax(1) == labels
                self.assertAlmostEqual(told["accuracy"], numpy.average(right, weights=self.weights), places=6)

    def test_numbers(self):
        self.rate = 0.1
        labels = self.scores[:, 0].round(4)
        target = torch.tensor(labels[:, None].astype("float32"))
        loss_of = torch.nn.MSELoss(reduction="none")
        told, outputs = self.check("meanSquaredError", labels, lambda x, y: loss_of(x, y).squeeze(1), target, "batch",
                                   metrics=["rmse"])
        squares = (outputs[:, 0] - labels) ** 2
        self.assertAlmostEqual(told["metrics"]["rmse"], numpy.average(squares, weights=self.weights) ** 0.5, places=5)

    def test_examples_of_no_weight_teach_nothing(self):
        labels = self.scores.argmax(1)
        self.weights = numpy.zeros(ROWS, int)
        self.job("softmaxCrossEntropy", labels, {"batchSize": 64, "metrics": ["logLoss"], "epochs": 2})
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
        self.assertEqual(code, 0, out + err)
        for name, value in self.values(self.job_dir).items():
            numpy.testing.assert_array_equal(value, self.start[name].astype("float32"))
        told = self.evaluated(self.job_dir)
        self.assertEqual((told["loss"], told["accuracy"]), (0, 0))
        self.assertNotIn("metrics", told, "a mean over nothing is not defined")

    def test_a_weight_that_is_none_is_named_or_left_out(self):
        labels = self.scores.argmax(1)
        for wrong in ["-0.5", "nan", "inf", "", "many"]:
            self.weights = [1] * 4 + [wrong] + [1] * (ROWS - 5)
            self.job("softmaxCrossEntropy", labels, {"batchSize": 64, "epochs": 1})
            code, _, err = self.tool("check", self.job_file)
            self.assertEqual(code, 78, wrong)
            self.assertIn("rows.csv:6: field 'importance': ", err)
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--set", "data.skip=1")
        self.assertEqual(code, 0, out + err)
        self.assertEqual(json.loads((self.job_dir / "summary.json").read_text())["evalLoss"],
                         self.evaluated(self.job_dir)["loss"])

    def test_a_mistyped_field_is_named(self):
        self.job("softmaxCrossEntropy", self.scores.argmax(1), {"batchSize": 64}, weight="importnce")
        code, _, err = self.tool("check", self.job_file)
        self.assertEqual(code, 78)
        self.assertIn("has no field 'importnce'; did you mean importance?", err)

    def test_what_is_asked_of_the_model_has_no_weight(self):
        self.job("softmaxCrossEntropy", self.scores.argmax(1), {"batchSize": 64, "epochs": 1})
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
        self.assertEqual(code, 0, out + err)
        (self.folder / "new.csv").write_text("x0,x1,x2,x3\n1,2,3,4\n")
        (self.folder / "new.json").write_text('{"x0": 1, "x1": 2, "x2": 3, "x3": 4, "importance": -3}\n')
        code, first, err = self.tool("predict", self.job_dir, "--input", self.folder / "new.csv", "--to", "jsonl")
        self.assertEqual(code, 0, err)
        code, second, err = self.tool("predict", self.job_dir, "--instances", self.folder / "new.json", "--to", "jsonl")
        self.assertEqual(code, 0, err)
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()

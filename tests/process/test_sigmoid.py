"""The loss sigmoidCrossEntropy: what is learned, told and predicted is what PyTorch's BCEWithLogitsLoss makes of it."""

import csv
import io
import json
import unittest

import numpy
import torch
from cluster import ProcessTest
from model_files import read_safetensors
from test_onnx import Evaluator, onnx

ROWS, COLUMNS, EPOCHS, RATE = 600, 5, 20, 0.5


def write_safetensors(path, values):
    header, data = {}, b""
    for name, value in values.items():
        raw = numpy.asarray(value, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def area(scores, labels):
    """Of pairs of one of each class: how many are in the right order (Hanley and McNeil 1982); equal ones half."""
    ones, zeros = scores[labels == 1][:, None], scores[labels == 0][None, :]
    return ((ones > zeros) + 0.5 * (ones == zeros)).mean()


class SigmoidTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.draw = numpy.random.default_rng(8)

    def train(self, classes, words):
        """Gradient descent over all rows, by a job and by PyTorch; then (values of both, inputs, labels)."""
        units = 1 if classes == 2 else classes
        inputs = self.draw.normal(0, 1, (ROWS, COLUMNS)).round(4)
        logits = inputs @ self.draw.normal(0, 1, (COLUMNS, classes)) + self.draw.normal(0, 1, (ROWS, classes))
        labels = logits.argmax(1)
        names = [f"x{i}" for i in range(COLUMNS)]
        lines = [",".join([*map(str, row), words[label]]) for row, label in zip(inputs, labels)]
        (self.folder / "rows.csv").write_text("\n".join([",".join([*names, "label"]), *lines]) + "\n")
        start = {"out/kernel": self.draw.normal(0, 0.1, (COLUMNS, units)), "out/bias": numpy.zeros(units)}
        write_safetensors(self.folder / "start.safetensors", start)
        job = {
            "name": "sigmoid",
            "model": {"inputs": [{"name": "x", "columns": "all"}], "loss": "sigmoidCrossEntropy",
                      "layers": [{"name": "out", "dense": {"units": units}}], "initializeFrom": "start.safetensors"},
            "data": {"format": "csv", "train": "rows.csv", "eval": "rows.csv", "columns": names,
                     "label": {"column": "label", "classes": words}},
            "training": {"consistency": "sync", "batchSize": ROWS, "epochs": EPOCHS, "evaluateEveryEpochs": 0,
                         "optimizer": {"name": "sgd", "learningRate": RATE}},
        }
        if units == 1:
            job["training"]["metrics"] = ["auc", "logLoss", "calibration"]
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(job))
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
        self.assertEqual(code, 0, out + err)
        path = self.folder / "end.safetensors"
        code, _, err = self.tool("export", "--format", "safetensors", "--job-dir", self.job_dir, "--out", path)
        self.assertEqual(code, 0, err)
        values = read_safetensors(path)

        kernel = torch.tensor(start["out/kernel"].astype("float32"), requires_grad=True)
        bias = torch.zeros(units, requires_grad=True)
        x = torch.tensor(inputs.astype("float32"))
        target = torch.tensor((labels[:, None] if units == 1 else labels[:, None] == numpy.arange(units)) * 1.0)
        loss_of, optimizer = torch.nn.BCEWithLogitsLoss(), torch.optim.SGD([kernel, bias], lr=RATE)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            loss_of(x @ kernel + bias, target.float()).backward()
            optimizer.step()
        with torch.no_grad():
            self.logits = (x @ kernel + bias).numpy().astype("float64")
            self.loss = float(loss_of(x @ kernel + bias, target.float()))
        numpy.testing.assert_allclose(values["out/kernel"], kernel.detach().numpy(), rtol=2e-5, atol=2e-6)
        numpy.testing.assert_allclose(values["out/bias"], bias.detach().numpy(), rtol=2e-5, atol=2e-6)
        return inputs, labels

    def evaluated(self):
        code, out, err = self.tool("evaluate", "--job-dir", self.job_dir, "-o", "json")
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def predicted(self):
        code, out, err = self.tool("predict", self.job_dir, "--input", self.folder / "rows.csv", "--to", "csv")
        self.assertEqual(code, 0, err)
        return list(csv.DictReader(io.StringIO(out)))

    def onnx_outputs(self, inputs):
        path = self.folder / "model.onnx"
        code, _, err = self.tool("export", "--format", "onnx", "--job-dir", self.job_dir, "--out", path)
        self.assertEqual(code, 0, err)
        evaluator = Evaluator(str(path))
        (name,) = evaluator.inputs
        return evaluator.run({name: inputs.astype("float32")})

    def test_one_output_tells_two_classes_apart(self):
        inputs, labels = self.train(2, ["no", "yes"])
        shares = 1 / (1 + numpy.exp(-self.logits[:, 0]))
        told = self.evaluated()
        self.assertAlmostEqual(told["loss"], self.loss, places=5)
        self.assertAlmostEqual(told["metrics"]["logLoss"], self.loss, places=5)
        self.assertAlmostEqual(told["accuracy"], ((shares > 0.5) == labels).mean(), places=6)
        self.assertAlmostEqual(told["metrics"]["auc"], area(shares, labels), places=3)
        self.assertAlmostEqual(told["metrics"]["calibration"], shares.sum() / labels.sum(), places=5)
        rows = self.predicted()
        numpy.testing.assert_allclose([float(row["probability"]) for row in rows], shares, rtol=1e-4, atol=1e-6)
        self.assertEqual([row["class"] for row in rows], [str(int(share > 0.5)) for share in shares])
        self.assertEqual([row["label"] for row in rows], [["no", "yes"][int(share > 0.5)] for share in shares])
        if onnx:
            found = self.onnx_outputs(inputs)
            numpy.testing.assert_allclose(found["probability"][:, 0], shares, rtol=1e-4, atol=1e-6)
            self.assertEqual(list(found["class"]), list((shares > 0.5) * 1))

    def test_several_outputs_each_know_their_class(self):
        inputs, labels = self.train(3, ["a", "b", "c"])
        shares = 1 / (1 + numpy.exp(-self.logits))
        told = self.evaluated()
        self.assertAlmostEqual(told["loss"], self.loss, places=5)
        self.assertAlmostEqual(told["accuracy"], (shares.argmax(1) == labels).mean(), places=6)
        rows = self.predicted()
        found = [[float(row[f"probabilities_{i}"]) for i in range(3)] for row in rows]
        numpy.testing.assert_allclose(found, shares, rtol=1e-4, atol=1e-6)
        self.assertEqual([int(row["class"]) for row in rows], list(shares.argmax(1)))
        if onnx:
            numpy.testing.assert_allclose(self.onnx_outputs(inputs)["probabilities"], shares, rtol=1e-4, atol=1e-6)

    def test_a_single_output_takes_no_third_class(self):
        self.train(2, ["no", "yes"])
        text = self.job_file.read_text().replace('["no", "yes"]', '["no", "yes", "perhaps"]')
        self.job_file.write_text(text)
        (self.folder / "rows.csv").write_text((self.folder / "rows.csv").read_text().replace("yes", "perhaps", 9))
        code, _, err = self.tool("run", self.job_file, "--job-dir", self.folder / "other")
        self.assertNotEqual(code, 0)
        self.assertIn("1 unit, which tells two classes", err)


if __name__ == "__main__":
    unittest.main()

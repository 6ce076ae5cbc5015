"""Trained models answer: predictions are those of `downpour evaluate`, and what numpy computes from the same values."""

import csv
import gzip
import json
import os
import pathlib
import subprocess
import unittest

import numpy
from cluster import LONG, ROOT, TOOL, ProcessTest
from model_files import images_in, labels_in, read_safetensors

DATA = os.environ.get("DOWNPOUR_DATA")


def softmax(outputs):
    shares = numpy.exp(outputs - outputs.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


class PredictTest(ProcessTest):
    def shared(self, name):
        path = pathlib.Path(DATA or "/nowhere") / name
        if not path.exists():
            self.skipTest(f"{name} is not there: set DOWNPOUR_DATA")
        return path

    def run_job(self, file, *more):
        code, out, err = self.tool("run", file, "--job-dir", self.job_dir, *more)
        self.assertEqual(code, 0, out + err)

    def run_sample(self, name, train, evaluate, *more):
        sets = [f"data.train={train}", f"data.eval={evaluate}", "training.epochs=1", *more]
        self.run_job(ROOT / f"deploy/jobs/{name}.yaml", *[word for one in sets for word in ("--set", one)])

    def predicted(self, *words, origin=None):
        code, out, err = self.tool("predict", origin or self.job_dir, *words)
        self.assertEqual(code, 0, err)
        return [json.loads(line) for line in out.splitlines()]

    def refused(self, *words, origin=None):
        code, out, err = self.tool("predict", origin or self.job_dir, *words)
        self.assertEqual(code, 1, out + err)
        return err

    def evaluated(self, *more):
        code, out, err = self.tool("evaluate", "--job-dir", self.job_dir, "-o", "json", *more)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def check_evaluation(self, predictions, labels, *more):
        """The accuracy and the loss that these predictions have are those that `evaluate` tells."""
        told = self.evaluated(*more)
        shares = numpy.array([one["probabilities"] for one in predictions], "float64")
        self.assertEqual(told["examples"], len(labels))
        classes = numpy.array([one["class"] for one in predictions])
        self.assertEqual(round(told["accuracy"] * len(labels)), int((classes == labels).sum()))
        loss = -numpy.log(shares[numpy.arange(len(labels)), labels]).mean()
        self.assertAlmostEqual(told["loss"], loss, delta=1e-5)
        self.assertLess(abs(shares.sum(1) - 1).max(), 1e-5)

    def test_images(self):
        self.run_job(self.write_job())
        pixels, labels = images_in(self.folder / "eval-images"), labels_in(self.folder / "eval-labels")
        predictions = self.predicted("--input", self.folder / "eval-images")
        self.check_evaluation(predictions, labels)

        # The same by instances in each of their forms, by an exported file, and by numpy.
        rows = self.folder / "rows.json"
        forms = [lambda row: row, lambda row: numpy.reshape(row, (8, 8)).tolist(), lambda row: {"image": row}]
        rows.write_text("".join(json.dumps(forms[i % 3](row)) + "\n" for i, row in enumerate(pixels.tolist())))
        self.assertEqual(self.predicted("--instances", rows), self.predicted("--instances", rows, "--best"))
        model = self.folder / "model.safetensors"
        self.assertEqual(self.tool("export", "--job-dir", self.job_dir, "--out", model)[0], 0)
        checkpoint = self.job_dir / self.summary()["checkpoint"]
        values = read_safetensors(model)
        hidden = pixels / 255.0 @ values["dense_0/kernel"] + values["dense_0/bias"]
        shares = softmax(numpy.maximum(hidden, 0) @ values["dense_1/kernel"] + values["dense_1/bias"])
        for origin in (self.job_dir, model, checkpoint):
            got = self.predicted("--instances", rows, origin=origin)
            for one, exact in zip(got, shares, strict=True):
                self.assertLess(abs(numpy.array(one["probabilities"]) - exact).max(), 1e-5)
        piped = subprocess.run(
            [TOOL, "predict", self.job_dir, "--instances", "-", "--to", "csv"],
            input=rows.read_text(), capture_output=True, text=True, timeout=LONG,
        )  # fmt: skip
        lines = list(csv.reader(piped.stdout.splitlines()))
        self.assertEqual(lines[0], [f"probabilities_{i}" for i in range(10)] + ["class"])
        self.assertEqual([int(line[-1]) for line in lines[1:]], [one["class"] for one in predictions])

        bad = self.folder / "bad.json"
        bad.write_text("\n" + json.dumps(pixels[0].tolist()) + "\n[1, 2, 3]\n")
        said = self.refused("--instances", bad)
        self.assertIn(f"{bad}:3: column 'image' has 3 numbers, where the model takes 64", said)
        self.assertIn("name a job's folder", self.refused("--instances", bad, origin=self.folder / "nowhere"))

    def test_mnist(self):
        images = self.shared("mnist/t10k-images-idx3-ubyte.gz")
        labels = images.with_name("t10k-labels-idx1-ubyte.gz")
        train = "{images: %s, labels: %s}" % (images, labels)
        self.run_sample("mnist-mlp", train, train)
        self.check_evaluation(self.predicted("--input", images), labels_in(labels))

    def test_a9a(self):
        train, test = self.shared("a9a/a9a"), self.shared("a9a/a9a.t")
        self.run_sample("a9a", train, test)
        lines = test.read_text().splitlines()
        labels = numpy.array([int(line.split()[0] == "+1") for line in lines])
        predictions = self.predicted("--input", test)
        self.check_evaluation(predictions, labels)
        self.assertEqual({(one["class"], one["label"]) for one in predictions}, {(0, "-1"), (1, "+1")})
        dense = [0] * 123
        for pair in lines[0].split()[1:]:
            dense[int(pair.split(":")[0]) - 1] = float(pair.split(":")[1])
        rows = self.folder / "rows.json"
        rows.write_text(json.dumps({"features": dense}))
        (one,) = self.predicted("--instances", rows)
        self.assertAlmostEqual(one["probabilities"][0], predictions[0]["probabilities"][0], delta=1e-6)

    def test_the_census_by_a_model_with_tables(self):
        train, test = self.shared("adult/adult.data"), self.shared("adult/adult.test")
        lines = [line for line in test.read_text().splitlines()[1:] if line]
        records = [[field.strip() for field in line.rstrip(".").split(",")] for line in lines]
        labels = numpy.array([int(record[-1] == ">50K") for record in records])
        new = self.folder / "new.csv"
        new.write_text("\n".join(lines))
        for sample in ("census-wide-deep", "census-deep"):
            with self.subTest(sample=sample):
                self.job_dir = self.folder / sample
                self.run_sample(sample, train, test)
                predictions = self.predicted("--input", new)
                self.check_evaluation(predictions, labels)
                # Without their labels, and as JSON, rows are answered alike.
                unlabelled = self.folder / "unlabelled.csv.gz"
                with gzip.open(unlabelled, "wt") as file:
                    csv.writer(file).writerows(record[:-1] for record in records)
                self.assertEqual(self.predicted("--input", unlabelled), predictions)
                self.check_instances(records, predictions)

    def check_instances(self, records, predictions):
        code, out, err = self.tool("predict", self.job_dir, "--signature")
        self.assertEqual(code, 0, err)
        wanted = [one["name"] for one in json.loads(out)["inputs"]]
        names = ["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
                 "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week",
                 "native_country"]  # fmt: skip
        numbers = {"age", "education_num", "capital_gain", "capital_loss", "hours_per_week"}
        rows = self.folder / "rows.json"
        with open(rows, "w") as file:
            for record in records[:300]:
                fields = [(name, word) for name, word in zip(names, record) if name in wanted]
                row = {name: int(word) if name in numbers else word for name, word in fields}
                file.write(json.dumps(row) + "\n")
        for one, exact in zip(self.predicted("--instances", rows), predictions):
            self.assertLess(abs(numpy.array(one["probabilities"]) - exact["probabilities"]).max(), 1e-6)
            self.assertEqual((one["class"], one["label"]), (exact["class"], exact["label"]))
        rows.write_text(json.dumps({**row, "age": "old"}) + "\n")
        self.assertIn(f"{rows}:1: field 'age': 'old' is no number", self.refused("--instances", rows))
        del row["age"]
        rows.write_text(json.dumps(row) + "\n")
        self.assertIn(f"{rows}:1: column 'age' is missing", self.refused("--instances", rows))

    def test_a_file_that_does_not_fit_is_told_with_line_column_and_remedy(self):
        lines = [f"{i % 7},w{i % 3},{i % 2}\n" for i in range(300)]
        (self.folder / "train.csv").write_text("x,word,y\n" + "".join(lines))
        job = {
            "name": "lines",
            "data": {"format": "csv", "train": "train.csv", "label": "y",
                     "columns": [{"name": "x"}, {"name": "word", "hash": 5}]},
            "model": {"inputs": [{"name": "all", "columns": ["x", "word"]}],
                      "layers": [{"dense": {"units": 2}}]},
        }  # fmt: skip
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(job))
        self.run_job(self.job_file)
        new = self.folder / "new.csv"
        new.write_text("x,word\n" + "1,a\n" * 700 + "one,b\n" + "2,c\n" * 10)
        self.assertIn(f"{new}:702: field 'x': 'one' is no number: write a finite one", self.refused("--input", new))
        new.write_text("x;word\n" + "1;a\n" * 700)
        output = self.folder / "answers.csv"
        code, out, err = self.tool("predict", self.job_dir, "--input", new, "--output", output)
        self.assertEqual((code, out), (0, ""), err)
        self.assertEqual(len(output.read_text().splitlines()), 701)
        new.write_text("word,z\na,1\n")
        self.assertIn(f"{new} has no field 'x'", self.refused("--input", new))
        (self.folder / "new.jsonl").write_text('{"x": 1, "word": "a"}\n{"x": 1, "word": ["a", "b"]}\n')
        self.assertIn("new.jsonl:2", self.refused("--input", self.folder / "new.jsonl", "--format", "jsonl"))
        self.assertIn("name rows by --input", self.tool("predict", self.job_dir)[2])


if __name__ == "__main__":
    unittest.main()

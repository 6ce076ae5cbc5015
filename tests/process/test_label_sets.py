"""Labels that are sets of classes: learned as PyTorch's BCEWithLogitsLoss learns rows of 0 and 1, from every format."""

import importlib
import json
import struct
import unittest

import numpy
import torch
from cluster import ProcessTest
from model_files import read_safetensors
from test_sigmoid import area, write_safetensors

ROWS, COLUMNS, EPOCHS, RATE = 400, 4, 20, 1.0
WORDS = ["spam", "ad", "news"]
CASTAGNOLI = 0x82F63B78


def masked_checksum(data):
    """As TFRecord has it: CRC-32C, turned by 15 bits, and a constant added."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (CASTAGNOLI if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def message(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(features):
    """A tf.train.Example of lists of texts, floats or whole numbers, by tensorflow's feature.proto."""
    entries = b""
    for key, values in features.items():
        if values and isinstance(values[0], str):
            body = message(1, b"".join(message(1, value.encode()) for value in values))
        elif values and isinstance(values[0], float):
            body = message(2, message(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            body = message(3, message(1, b"".join(map(varint, values))))
        entries += message(1, message(1, key.encode()) + message(2, body))
    return message(1, entries)


def tfrecord(examples):
    parts = []
    for data in examples:
        length = struct.pack("<Q", len(data))
        parts += [length, struct.pack("<I", masked_checksum(length)), data, struct.pack("<I", masked_checksum(data))]
    return b"".join(parts)


class LabelSetsTest(ProcessTest):
    def setUp(self):
        super().setUp()
        draw = numpy.random.default_rng(3)
        self.x = draw.normal(0, 1, (ROWS, COLUMNS)).round(3)
        scores = self.x @ draw.normal(0, 1, (COLUMNS, len(WORDS))) + draw.normal(-0.5, 1, (ROWS, len(WORDS)))
        self.targets = (scores > 0).astype(int)
        self.start = {"out/kernel": draw.normal(0, 0.1, (COLUMNS, len(WORDS))), "out/bias": numpy.zeros(len(WORDS))}
        write_safetensors(self.folder / "start.safetensors", self.start)
        self.assertIn(0, self.targets.sum(1), "some example has no class")
        self.logits = None

    def sets(self, names=range(len(WORDS))):
        return [[names[i] for i in numpy.flatnonzero(row)] for row in self.targets]

    def by_torch(self):
        if self.logits is not None:
            return
        kernel = torch.tensor(self.start["out/kernel"].astype("float32"), requires_grad=True)
        bias = torch.zeros(len(WORDS), requires_grad=True)
        x, target = torch.tensor(self.x.astype("float32")), torch.tensor(self.targets.astype("float32"))
        loss_of, optimizer = torch.nn.BCEWithLogitsLoss(), torch.optim.SGD([kernel, bias], lr=RATE)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            loss_of(x @ kernel + bias, target).backward()
            optimizer.step()
        with torch.no_grad():
            self.logits = (x @ kernel + bias).numpy().astype("float64")
            self.loss = float(loss_of(x @ kernel + bias, target))
        self.kernel, self.bias = kernel.detach().numpy(), bias.detach().numpy()

    def check(self, name, form, label, columns):
        """Trains on the file `name` and holds values and metrics against PyTorch and numpy."""
        self.by_torch()
        job = {
            "name": "sets",
            "model": {"inputs": [{"name": "x", "columns": "all"}], "loss": "sigmoidCrossEntropy",
                      "layers": [{"name": "out", "dense": {"units": len(WORDS)}}],
                      "initializeFrom": "start.safetensors"},
            "data": {"format": form, "train": name, "eval": name, "columns": columns, "label": label},
            "training": {"consistency": "sync", "batchSize": ROWS, "epochs": EPOCHS, "evaluateEveryEpochs": 0,
                         "metrics": ["auc", "logLoss", "calibration"],
                         "optimizer": {"name": "sgd", "learningRate": RATE}},
        }
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(job))
        folder = self.folder / f"job-{name}"
        code, out, err = self.tool("run", self.job_file, "--job-dir", folder)
        self.assertEqual(code, 0, out + err)
        path = folder / "end.safetensors"
        code, _, err = self.tool("export", "--format", "safetensors", "--job-dir", folder, "--out", path)
        self.assertEqual(code, 0, err)
        values = read_safetensors(path)
        numpy.testing.assert_allclose(values["out/kernel"], self.kernel, rtol=2e-5, atol=2e-6)
        numpy.testing.assert_allclose(values["out/bias"], self.bias, rtol=2e-5, atol=2e-6)
        code, out, err = self.tool("evaluate", "--job-dir", folder, "-o", "json")
        self.assertEqual(code, 0, err)
        told, summary = json.loads(out), json.loads((folder / "summary.json").read_text())
        shares = 1 / (1 + numpy.exp(-self.logits))
        self.assertAlmostEqual(told["loss"], self.loss, places=5)
        self.assertAlmostEqual(told["metrics"]["logLoss"], self.loss, places=5)
        self.assertAlmostEqual(told["accuracy"], ((shares > 0.5) == self.targets).mean(), places=6)
        self.assertAlmostEqual(told["metrics"]["auc"], area(shares.ravel(), self.targets.ravel()), places=3)
        self.assertAlmostEqual(told["metrics"]["calibration"], shares.sum() / self.targets.sum(), places=5)
        self.assertAlmostEqual(summary["evalLoss"], told["loss"], places=6)
        self.assertAlmostEqual(summary["evalAccuracy"], told["accuracy"], places=6)
        return folder, shares

    def lines(self, name, rows):
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def test_lists_of_words_and_of_numbers_in_json(self):
        names = [f"x{i}" for i in range(COLUMNS)]
        rows = [dict(zip(names, map(float, row))) for row in self.x]
        self.lines("words.jsonl", [{**row, "tags": tags} for row, tags in zip(rows, self.sets(WORDS))])
        label = {"column": "tags", "multiple": True, "classes": WORDS}
        folder, shares = self.check("words.jsonl", "jsonl", label, names)
        self.lines("numbers.jsonl", [{**row, "tags": tags} for row, tags in zip(rows, self.sets())])
        self.check("numbers.jsonl", "jsonl", {"column": "tags", "multiple": True}, names)
        code, out, err = self.tool("predict", folder, "--input", self.folder / "words.jsonl", "--to", "jsonl")
        self.assertEqual(code, 0, err)
        told = [json.loads(line) for line in out.splitlines()]
        numpy.testing.assert_allclose([one["probabilities"] for one in told], shares, rtol=1e-4, atol=1e-6)
        self.assertEqual([one["label"] for one in told], [WORDS[i] for i in shares.argmax(1)])

    def test_texts_with_separators_in_a_csv_of_pandas(self):
        pandas = self.package("pandas")
        frame = pandas.DataFrame(self.x, columns=[f"x{i}" for i in range(COLUMNS)])
        frame["tags"] = ["|".join(tags) for tags in self.sets(WORDS)]
        frame.to_csv(self.folder / "rows.csv", index=False)
        label = {"column": "tags", "multiple": True, "separator": "|", "classes": WORDS}
        self.check("rows.csv", "csv", label, list(frame.columns[:COLUMNS]))

    def test_a_field_of_zero_and_one_for_each_class(self):
        lines = [",".join(map(str, [*row, *target])) for row, target in zip(self.x, self.targets)]
        names = [f"x{i}" for i in range(COLUMNS)]
        (self.folder / "each.csv").write_text("\n".join([",".join([*names, *WORDS]), *lines]) + "\n")
        self.check("each.csv", "csv", WORDS, names)
        self.job_file.write_text(self.job_file.read_text().replace('"ad"', '"x0"'))
        code, _, err = self.tool("check", self.job_file)
        self.assertEqual(code, 78)
        self.assertRegex(err, r"each.csv:2: field 'x0': '.*' is neither 0 nor 1")

    def test_lists_in_tfrecords(self):
        records = [example({"x": [float(value) for value in row], "tags": tags})
                   for row, tags in zip(self.x, self.sets())]
        (self.folder / "numbers.tfrecord").write_bytes(tfrecord(records))
        columns = [{"name": "x", "width": COLUMNS}]
        self.check("numbers.tfrecord", "tfrecord", {"column": "tags", "multiple": True}, columns)
        records = [example({"x": [float(value) for value in row], "tags": tags})
                   for row, tags in zip(self.x, self.sets(WORDS))]
        (self.folder / "words.tfrecord").write_bytes(tfrecord(records))
        self.check("words.tfrecord", "tfrecord", {"column": "tags", "multiple": True, "classes": WORDS}, columns)

    def libsvm(self, name):
        columns = [{"name": "x", "from": "features0", "width": COLUMNS}]
        self.check(name, "libsvm", {"column": "label", "multiple": True}, columns)

    def test_libsvm_by_hand(self):
        lines = [",".join(map(str, tags)) + "".join(f" {i}:{value}" for i, value in enumerate(row))
                 for row, tags in zip(self.x, self.sets())]
        (self.folder / "hand.svm").write_text("\n".join(lines) + "\n")
        self.libsvm("hand.svm")

    def test_libsvm_by_scikit_learn(self):
        datasets = self.package("sklearn.datasets")
        datasets.dump_svmlight_file(self.x, self.targets, str(self.folder / "sk.svm"), multilabel=True)
        self.libsvm("sk.svm")

    def test_lists_in_parquet(self):
        pyarrow = self.package("pyarrow")
        parquet = self.package("pyarrow.parquet")
        table = {f"x{i}": self.x[:, i] for i in range(COLUMNS)}
        table["tags"] = pyarrow.array(self.sets(WORDS), pyarrow.list_(pyarrow.string()))
        parquet.write_table(pyarrow.table(table), self.folder / "rows.parquet")
        self.check("rows.parquet", "parquet", {"column": "tags", "multiple": True, "classes": WORDS},
                   [f"x{i}" for i in range(COLUMNS)])

    def package(self, name):
        try:
            return importlib.import_module(name)
        except ImportError:
            self.skipTest(f"{name} is not installed")

    def test_a_class_that_is_none_is_named(self):
        self.lines("wrong.jsonl", [{"x": 1, "tags": ["ad"]}, {"x": 2, "tags": ["ad", "ham"]}])
        job = {
            "name": "sets",
            "model": {"inputs": [{"name": "x"}], "loss": "sigmoidCrossEntropy", "layers": [{"dense": {"units": 3}}]},
            "data": {"format": "jsonl", "train": "wrong.jsonl", "columns": ["x"],
                     "label": {"column": "tags", "multiple": True, "classes": WORDS}},
        }
        path = self.folder / "wrong.yaml"
        path.write_text(json.dumps(job))
        code, _, err = self.tool("check", path)
        self.assertEqual(code, 78)
        self.assertIn("wrong.jsonl:2: field 'tags': 'ham' is no word of data.label.classes", err)
        code, _, err = self.tool("check", path, "--set", "data.label.classes=")
        self.assertEqual(code, 78)
        self.assertIn("field 'tags': 'ad' is no class from 0 to 2", err)
        code, _, err = self.tool("check", path, "--set", "model.loss=softmaxCrossEntropy")
        self.assertIn("data.label: is a set of classes, which only the loss sigmoidCrossEntropy learns", err)


if __name__ == "__main__":
    unittest.main()

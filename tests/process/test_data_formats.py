"""`downpour data` on JSON lines, libsvm and TFRecord as other programs wrote them: it reads what was written."""

import gzip
import importlib
import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest

TOOL = os.path.join(os.environ["DOWNPOUR_BUILD"], "tools", "downpour")
DATA = os.environ.get("DOWNPOUR_DATA")


def data(*arguments):
    outcome = subprocess.run([TOOL, "data", *arguments, "-o", "json"], capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)


def stats(path):
    said = data("stats", path)
    return said, {column["name"]: column for column in said["columns"]}


def word_of(value):
    """As the tool shows a value of a JSON line."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


class FormatsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-formats-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file")
        self.draw = random.Random(1)

    def package(self, name):
        try:
            return importlib.import_module(name)
        except ImportError:
            self.skipTest(f"{name} is not installed")

    def shared(self, name):
        if DATA is None or not os.path.exists(os.path.join(DATA, name)):
            self.skipTest(f"DOWNPOUR_DATA has no {name}")
        return os.path.join(DATA, name)

    def test_json_lines_by_pandas(self):
        pandas = self.package("pandas")
        rows = 300
        frame = pandas.DataFrame(
            {
                "number": [self.draw.randrange(-1000, 1000) for _ in range(rows)],
                "price": [self.draw.choice([None, self.draw.uniform(-5, 5)]) for _ in range(rows)],
                "word": [self.draw.choice(["", "a", 'b "c"', "line\nend", "ä€\U0001f600"]) for _ in range(rows)],
                "truth": [self.draw.random() < 0.5 for _ in range(rows)],
                "vector": [[self.draw.uniform(0, 1) for _ in range(3)] for _ in range(rows)],
            }
        )
        for packed in (None, "gzip"):
            with self.subTest(packed=packed):
                frame.to_json(self.path, orient="records", lines=True, compression=packed)
                said, columns = stats(self.path)
                self.assertEqual((said["format"], said["rows"], said["badRecords"]), ("jsonl", rows, 0))
                self.assertEqual([columns[name]["type"] for name in frame.columns],
                                 ["int64", "float", "text", "text", "float[3]"])
                self.assertEqual(columns["price"]["missing"], frame["price"].isna().sum())
                self.assertAlmostEqual(columns["price"]["mean"], frame["price"].mean(), 7)
                self.assertAlmostEqual(columns["vector"]["mean"], sum(map(sum, frame["vector"])) / (3 * rows), 7)
                head = data("head", self.path, "-n", str(rows))
                with (gzip.open if packed else open)(self.path, "rt") as file:
                    written = [json.loads(line) for line in file]
                for shown, record in zip(head["rows"], written, strict=True):
                    for name, word in zip(head["columns"], shown, strict=True):
                        if isinstance(record[name], float):
                            self.assertEqual(float(word), record[name])
                        elif not isinstance(record[name], list):
                            self.assertEqual(word, word_of(record[name]))

    def test_zstd_by_its_own_program(self):
        if not shutil.which("zstd"):
            self.skipTest("there is no zstd")
        rows = [json.dumps({"n": i, "word": str(i) * 20}) + "\n" for i in range(5000)]
        with open(self.path + ".jsonl", "w") as file:
            file.writelines(rows)
        for options in (["-1"], ["-19", "--no-check"], ["--ultra", "-22", "--long=27"], ["-T2", "-B100KB"]):
            with self.subTest(options=options):
                command = ["zstd", "-qc", *options, self.path + ".jsonl"]
                packed = subprocess.run(command, check=True, capture_output=True)
                with open(self.path, "wb") as file:
                    file.write(packed.stdout * 2)
                said, columns = stats(self.path)
                self.assertEqual((said["format"], said["rows"]), ("jsonl", 10_000))
                self.assertAlmostEqual(columns["n"]["mean"], 2499.5, 6)

    def test_libsvm_by_scikit_learn(self):
        datasets = self.package("sklearn.datasets")
        numpy = self.package("numpy")
        draw = numpy.random.default_rng(1)
        values = draw.normal(size=(200, 30)) * (draw.random(size=(200, 30)) < 0.3)
        values[0, 0] = values[0, 29] = 1  # so that it is seen where indices begin and end
        labels = numpy.arange(200) % 2 * 2 - 1
        for zero_based in (False, True):
            with self.subTest(zero_based=zero_based):
                datasets.dump_svmlight_file(values, labels, self.path, zero_based=zero_based, comment="by hand",
                                            query_id=numpy.arange(200))
                said = data("head", self.path, "-n", "1000", "--format", "libsvm")
                self.assertEqual(said["columns"], ["label", *(str(i + (not zero_based)) for i in range(30))])
                read = numpy.array(said["rows"], dtype="float64")
                self.assertTrue((read[:, 0] == labels).all())
                numpy.testing.assert_allclose(read[:, 1:], values, rtol=1e-14)

    def test_libsvm_of_libsvm_and_xgboost(self):
        for name, rows, label, count, ones, greatest in (
            ("a9a/a9a", 32561, "-1", 24720, 451592, 123),
            ("a9a/a9a.t", 16281, "-1", 12435, 225731, 123),
            ("agaricus/agaricus.txt.train", 6513, "0", 3373, 6513 * 22, 126),
            ("agaricus/agaricus.txt.test", 1611, "0", 835, 1611 * 22, 126),
        ):
            with self.subTest(name=name):
                said, columns = stats(self.shared(name))
                self.assertEqual((said["format"], said["rows"], said["badRecords"]), ("libsvm", rows, 0))
                self.assertEqual((columns["label"]["mostFrequent"], columns["label"]["frequency"]), (label, count))
                self.assertEqual(list(columns), ["label", *map(str, range(1, greatest + 1))])
                total = sum(column["mean"] * rows for column in columns.values()) - columns["label"]["mean"] * rows
                self.assertAlmostEqual(total, ones, 3)

    def test_tfrecord_by_tensorflow(self):
        tensorflow = self.package("tensorflow")
        numpy = self.package("numpy")
        train = tensorflow.train
        records = []
        for i in range(100):
            records.append(
                {
                    "price": numpy.float32(self.draw.gauss(0, 100)),
                    "count": self.draw.randrange(-(2**63), 2**63),
                    "word": self.draw.choice([b"", b"a", "ä".encode(), b"two words"]),
                    "vector": [float(numpy.float32(self.draw.random())) for _ in range(5)],
                    "sometimes": None if i % 3 else i,
                }
            )
        kinds = {
            "price": lambda v: train.Feature(float_list=train.FloatList(value=[v])),
            "count": lambda v: train.Feature(int64_list=train.Int64List(value=[v])),
            "word": lambda v: train.Feature(bytes_list=train.BytesList(value=[v])),
            "vector": lambda v: train.Feature(float_list=train.FloatList(value=v)),
            "sometimes": lambda v: train.Feature(int64_list=train.Int64List(value=[v])),
        }
        for packed in ("", "GZIP"):
            with self.subTest(packed=packed):
                with tensorflow.io.TFRecordWriter(self.path, packed) as writer:
                    for record in records:
                        features = {key: kinds[key](value) for key, value in record.items() if value is not None}
                        example = train.Example(features=train.Features(feature=features))
                        writer.write(example.SerializeToString())
                said = data("head", self.path, "-n", "1000")
                self.assertEqual(said["columns"], sorted(kinds))
                for shown, record in zip(said["rows"], records, strict=True):
                    row = dict(zip(said["columns"], shown, strict=True))
                    self.assertEqual(numpy.float32(row["price"]), record["price"])
                    self.assertEqual(row["count"], str(record["count"]))
                    self.assertEqual(row["word"], record["word"].decode())
                    self.assertEqual(row["sometimes"], word_of(record["sometimes"]))
                said, columns = stats(self.path)
                self.assertEqual((said["format"], columns["vector"]["type"]), ("tfrecord", "float[5]"))
                self.assertAlmostEqual(columns["vector"]["mean"], sum(sum(r["vector"]) for r in records) / 500, 9)

    def test_tfrecord_of_tfx_and_beam(self):
        present, sums = {}, {}
        for part in ("00000", "00001"):
            said, columns = stats(self.shared(f"tfrecord/taxi_data_tfrecord-{part}-of-00002.gz"))
            self.assertEqual((said["format"], said["badRecords"], len(columns)), ("tfrecord", 0, 18))
            for name, column in columns.items():
                count = said["rows"] - column["missing"]
                present[name] = present.get(name, 0) + count
                sums[name] = sums.get(name, 0) + column.get("mean", 0) * count
        expected = {"company": 9860, "dropoff_latitude": 14520, "fare": 15000, "pickup_census_tract": 0,
                    "trip_seconds": 14994, "trip_start_timestamp": 15000}
        self.assertEqual({name: present[name] for name in expected}, expected)
        for name, value in (("dropoff_latitude", 608426.7048416138), ("fare", 176532.53002255782),
                            ("pickup_community_area", 333807), ("trip_seconds", 11661302),
                            ("dropoff_census_tract", 183274305896448)):
            self.assertAlmostEqual(sums[name] / value, 1, 9, name)

    def test_tfrecord_of_images(self):
        said, columns = stats(self.shared("tfrecord/mnist1000.tfrecord"))
        self.assertEqual(said["rows"], 1000)
        self.assertEqual(columns["image_floats"]["type"], "float[784]")
        self.assertEqual((columns["image_floats"]["min"], columns["image_floats"]["max"]), (-0.5, 0.5))
        counts = [87, 137, 87, 90, 118, 79, 78, 107, 120, 97]
        self.assertAlmostEqual(columns["image_class"]["mean"] * 1000, sum(i * n for i, n in enumerate(counts)), 6)
        self.assertEqual((columns["image_class"]["mostFrequent"], columns["image_class"]["frequency"]), ("1", 137))


if __name__ == "__main__":
    unittest.main()

"""`downpour data convert`: what other programs read from what it wrote is what they wrote."""

import csv
import gzip
import importlib
import json
import math
import os
import pathlib
import random
import resource
import subprocess
import tempfile
import unittest

TOOL = os.path.join(os.environ["DOWNPOUR_BUILD"], "tools", "downpour")
DATA = os.environ.get("DOWNPOUR_DATA")
WORDS = ["a", "two words", "comma, in it", 'a "quote"', "line\nend", "semi;colon", "tab\there", "bar|", " blank",
         "ä€\U0001f600", "\x01", "00501"]  # fmt: skip
MEBIBYTE = 1 << 20


class ConvertTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-convert-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.draw = random.Random(1)
        self.outs = 0

    def package(self, name):
        try:
            return importlib.import_module(name)
        except ImportError:
            self.skipTest(f"{name} is not installed")

    def convert(self, *sources, to, options=()):
        """The parts."""
        self.outs += 1
        out = self.folder / f"out{self.outs}"
        words = [TOOL, "data", "convert", *sources, "--to", to, "--out", out, *options]
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(out.iterdir())

    def frame(self, pandas, rows=300):
        draw = self.draw
        return pandas.DataFrame(
            {
                "number": [draw.randrange(-(2**63), 2**63) for _ in range(rows)],
                "price": [draw.choice([None, draw.uniform(-5, 5), 10 ** draw.uniform(-30, 30)]) for _ in range(rows)],
                "word": [draw.choice([None, *WORDS]) for _ in range(rows)],
                "odd name, with a comma": [draw.choice("xyz") for _ in range(rows)],
            }
        )

    def test_pandas_reads_from_json_lines_what_it_wrote_as_csv(self):
        pandas = self.package("pandas")
        frame = self.frame(pandas)
        # Blanks around what has no quotes are no part of a field.
        frame.to_csv(self.folder / "file.csv.gz", index=False, quoting=csv.QUOTE_NONNUMERIC)
        for to in ("jsonl", "jsonl.gz"):
            with self.subTest(to=to):
                (part,) = self.convert(self.folder / "file.csv.gz", to=to)
                opened = gzip.open(part, "rt") if to.endswith("gz") else open(part, encoding="utf-8")
                with opened as file:
                    read = pandas.DataFrame([json.loads(line) for line in file])
                # 'float_precision' of pandas rounds otherwise: both are the double that is next to the digits.
                expected = pandas.read_csv(self.folder / "file.csv.gz", float_precision="round_trip",
                                           dtype={"word": object})  # fmt: skip
                pandas.testing.assert_frame_equal(read, expected, check_exact=True)

    def test_pandas_reads_from_csv_what_it_wrote_as_json_lines(self):
        pandas = self.package("pandas")
        frame = self.frame(pandas)
        with open(self.folder / "file.jsonl", "w", encoding="utf-8") as file:
            for row in frame.to_dict("records"):
                gone = {name: None if isinstance(value, float) and math.isnan(value) else value
                        for name, value in row.items()}  # fmt: skip
                file.write(json.dumps(gone) + "\n")
        parts = self.convert(self.folder / "file.jsonl", to="csv", options=["--records-per-file", "100"])
        self.assertEqual([part.name for part in parts], [f"part-0000{i}.csv" for i in range(3)])
        read = pandas.concat([pandas.read_csv(part, float_precision="round_trip") for part in parts], ignore_index=True)
        pandas.testing.assert_frame_equal(read, frame, check_exact=True)

    def test_tensorflow_reads_what_was_in_the_source(self):
        tensorflow = self.package("tensorflow")
        records = [{"n": i - 50, "x": self.draw.gauss(0, 1), "w": self.draw.choice(WORDS), "v": [i, i + 1, i + 2],
                    "gone": None if i % 3 else float(i)} for i in range(100)]  # fmt: skip
        source = self.folder / "file.jsonl"
        source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        features = {
            "n": tensorflow.io.FixedLenFeature([], tensorflow.int64),
            "x": tensorflow.io.FixedLenFeature([], tensorflow.float32),
            "w": tensorflow.io.FixedLenFeature([], tensorflow.string),
            "v": tensorflow.io.FixedLenFeature([3], tensorflow.int64),
            "gone": tensorflow.io.FixedLenFeature([], tensorflow.float32, default_value=-1),
        }
        for to, packed in (("tfrecord", ""), ("tfrecord.gz", "GZIP")):
            (part,) = self.convert(source, to=to)
            read = [tensorflow.io.parse_single_example(one, features)
                    for one in tensorflow.data.TFRecordDataset(str(part), packed)]  # fmt: skip
            for one, record in zip(read, records, strict=True):
                self.assertEqual(int(one["n"]), record["n"])
                self.assertEqual(float(one["x"]), float(tensorflow.constant(record["x"], tensorflow.float32)))
                self.assertEqual(one["w"].numpy().decode(), record["w"])
                self.assertEqual(one["v"].numpy().tolist(), record["v"])
                self.assertEqual(float(one["gone"]), -1 if record["gone"] is None else record["gone"])

    def test_there_and_back_is_the_same(self):
        """By way of every format: there are words in each field of words, so that none is taken for one of numbers."""
        records = [{"n": i, "x": i / 8, "w": self.draw.choice(WORDS), "t": None if i % 2 else "x"} for i in range(500)]
        source = self.folder / "file.jsonl"
        source.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
        for way in (["csv.zst"], ["tfrecord.gz"], ["tfrecord", "csv", "tfrecord.zst"]):
            with self.subTest(way=way):
                parts = [source]
                for to in [*way, "jsonl"]:
                    parts = self.convert(*parts, to=to, options=["--records-per-file", "200"])
                read = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
                self.assertEqual([dict(sorted(one.items())) for one in read],
                                 [dict(sorted(one.items())) for one in records])  # fmt: skip

    def test_shared_files(self):
        if DATA is None or not os.path.exists(os.path.join(DATA, "a9a/a9a")):
            self.skipTest("DOWNPOUR_DATA has no a9a")
        (part,) = self.convert(os.path.join(DATA, "a9a/a9a"), to="jsonl.gz")
        with gzip.open(part, "rt") as file:
            records = [json.loads(line) for line in file]
        self.assertEqual(len(records), 32561)
        self.assertEqual(sum(record["label"] == -1 for record in records), 24720)
        self.assertEqual(sum(record[str(i)] for record in records for i in range(1, 124)), 451592)

    def test_memory_does_not_grow_with_the_file(self):
        """200 MiB here; 1 GiB needs as much memory."""
        source = self.folder / "file.csv"
        with open(source, "w", encoding="utf-8") as file:
            file.write("a,b,c\n")
            line = "".join(f"{i},word {i},{i / 7}\n" for i in range(10_000))
            for _ in range(200 * MEBIBYTE // len(line)):
                file.write(line)

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (400 * MEBIBYTE, 400 * MEBIBYTE))

        words = [TOOL, "data", "convert", source, "--to", "tfrecord", "--out", self.folder / "out"]
        child = subprocess.Popen(words, preexec_fn=limit, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        self.assertEqual(status, 0)
        self.assertLess(usage.ru_maxrss / 1024, 64, "MiB")


if __name__ == "__main__":
    unittest.main()

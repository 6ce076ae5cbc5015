"""Parquet as pyarrow and pandas write it: what is read is what was written, and jobs train on it."""

import datetime
import decimal
import json
import os
import pathlib
import random
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", "build")).absolute()
TOOL = BUILD / "tools/downpour"
MODULE = BUILD / "data/downpour-parquet.so"

try:
    import pandas
    import pyarrow
    import pyarrow.parquet as parquet
except ImportError:
    pyarrow = None

MEMORY = 2 << 30  # of a program that reads a hostile file
JOB = {
    "name": "parquet",
    "cluster": {"workerCount": 2, "parameterServerCount": 1},
    "data": {
        "format": "parquet",
        "train": "train-*.parquet",
        "eval": "eval.parquet",
        "columns": [{"name": "x"}, {"name": "v", "from": "nested.v", "width": 2}, {"name": "city", "hash": 16}],
        "label": {"column": "label", "classes": ["no", "yes"]},
    },
    "model": {"inputs": [{"name": "all", "columns": "all"}], "layers": [{"dense": {"units": 2}}]},
    "training": {"batchSize": 64, "epochs": 3, "optimizer": {"name": "adagrad", "learningRate": 0.3}},
}


@unittest.skipUnless(pyarrow and MODULE.exists(), "pyarrow or the module for Parquet is not there: "
                     "tools/dev/parquet_environment makes both")  # fmt: skip
class ParquetTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-parquet-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "file.parquet"
        self.draw = random.Random(1)

    def run_tool(self, *arguments, memory=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

        words = [str(word) for word in (TOOL, *arguments)]
        return subprocess.run(words, capture_output=True, text=True, preexec_fn=limit if memory else None)

    def data(self, *arguments):
        done = self.run_tool("data", *arguments, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def write(self, columns, **options):
        parquet.write_table(pyarrow.table(columns), self.path, **options)

    def head(self):
        said = self.data("head", self.path, "-n", "100000")
        return {name: [row[i] for row in said["rows"]] for i, name in enumerate(said["columns"])}

    def columns_of(self, rows):
        draw = self.draw
        return {
            "int": [draw.choice([None, draw.randrange(-(2**63), 2**63)]) for _ in range(rows)],
            "unsigned": pyarrow.array([draw.randrange(2**64) for _ in range(rows)], pyarrow.uint64()),
            "double": [draw.uniform(-1e9, 1e9) for _ in range(rows)],
            "word": [draw.choice([None, "", "a", "ä\U0001f600", "two words"]) for _ in range(rows)],
            "truth": [draw.choice([None, True, False]) for _ in range(rows)],
            "category": pyarrow.array([draw.choice(["x", "y", None]) for _ in range(rows)]).dictionary_encode(),
        }

    def assert_head_is(self, written):
        read = self.head()
        self.assertEqual(list(read), list(written))
        for name, values in written.items():
            for word, value in zip(read[name], pyarrow.array(values).to_pylist(), strict=True):
                if isinstance(value, float):
                    self.assertEqual(float(word), value)
                else:
                    self.assertEqual(word, "" if value is None else str(value).lower() if value in (True, False)
                                     and isinstance(value, bool) else str(value))  # fmt: skip

    def test_each_type_codec_and_encoding_is_read_as_it_was_written(self):
        for options in (
            {"compression": "none", "use_dictionary": False},
            {"compression": "snappy", "row_group_size": 700},
            {"compression": "zstd", "data_page_size": 500, "row_group_size": 10_000},
            {"compression": "gzip", "data_page_version": "2.0", "write_page_checksum": True},
            {"compression": "brotli", "row_group_size": 1},
            {"compression": "lz4", "use_dictionary": False, "column_encoding": {"int": "DELTA_BINARY_PACKED",
             "word": "DELTA_BYTE_ARRAY", "double": "BYTE_STREAM_SPLIT"}},
        ):  # fmt: skip
            with self.subTest(options):
                columns = self.columns_of(50 if options.get("row_group_size") == 1 else 3000)
                self.write(columns, **options)
                self.assert_head_is(columns)

    def test_lists_groups_times_and_decimals(self):
        rows = 2500
        draw = self.draw
        lists = [draw.choice([None, [], [1.5], [1.0, None, 3.0], [2.0] * draw.randrange(2, 6)]) for _ in range(rows)]
        day = datetime.date(2026, 11, 29)
        self.write({
            "list": lists,
            "nested": [{"a": {"b": i}, "v": [float(i), 2.0]} for i in range(rows)],
            "map": pyarrow.array([[("k", 1), ("l", 2)]] * rows, pyarrow.map_(pyarrow.string(), pyarrow.int32())),
            "day": [day] * rows,
            "time": pyarrow.array([i * 10**6 for i in range(rows)], pyarrow.timestamp("us")),
            "price": pyarrow.array([decimal.Decimal(f"-{i}.25") for i in range(rows)], pyarrow.decimal128(30, 2)),
            "small": pyarrow.array([decimal.Decimal(f"{i}.5") for i in range(rows)], pyarrow.decimal128(9, 1)),
        }, store_decimal_as_integer=True, row_group_size=1100, data_page_size=2000)  # fmt: skip
        read = self.head()
        self.assertEqual(list(read), ["list", "nested.a.b", "nested.v", "map.key", "map.value", "day", "time", "price",
                                      "small"])  # fmt: skip
        self.assertEqual(read["map.key"], ["[2 texts]"] * rows)
        self.assertEqual(read["nested.a.b"], [str(i) for i in range(rows)])
        self.assertEqual([float(word) for word in read["price"]], [-i - 0.25 if i else -0.25 for i in range(rows)])
        self.assertEqual([float(word) for word in read["small"]], [i + 0.5 for i in range(rows)])
        self.assertEqual(read["time"], [str(i * 10**6) for i in range(rows)])
        self.assertEqual(read["day"][0], str((day - datetime.date(1970, 1, 1)).days))
        columns = {column["name"]: column for column in self.data("stats", self.path)["columns"]}
        self.assertEqual(columns["list"]["missing"], sum(not one for one in lists))
        numbers = [number for one in lists for number in one or [] if number is not None]
        self.assertAlmostEqual(columns["list"]["mean"], sum(numbers) / len(numbers), 9)
        self.assertEqual(columns["nested.v"]["type"], "float[2]")

    def test_what_pandas_writes(self):
        frame = pandas.DataFrame({"n": range(5000), "c": pandas.Categorical(["a", "b"] * 2500),
                                  "x": [None, 0.5] * 2500}, index=[f"i{i}" for i in range(5000)])  # fmt: skip
        frame.to_parquet(self.path)
        read = self.head()
        self.assertEqual(read["n"], [str(i) for i in range(5000)])
        self.assertEqual(read["c"], ["a", "b"] * 2500)
        self.assertEqual(read["x"], ["", "0.5"] * 2500)
        self.assertEqual(read["__index_level_0__"][4999], "i4999")
        said = self.data("stats", self.path)
        self.assertEqual((said["format"], said["rows"]), ("parquet", 5000))

    def frame(self, rows, seed):
        draw = random.Random(seed)
        x = [draw.gauss(0, 1) for _ in range(rows)]
        return pyarrow.table({
            "label": ["yes" if one > 0 else "no" for one in x],
            "x": x,
            "nested": [{"v": [draw.random(), one]} for one in x],
            "city": pyarrow.array([draw.choice(["Ulm", "Bern", None]) for _ in x]).dictionary_encode(),
        })  # fmt: skip

    def job(self, job_dir, *more):
        (self.folder / "job.yaml").write_text(json.dumps(JOB))
        return self.run_tool("run", self.folder / "job.yaml", "--job-dir", self.folder / job_dir, *more)

    def test_a_job_trains_on_each_record_once_an_epoch(self):
        for i, options in enumerate(({"row_group_size": 500}, {"compression": "zstd"}, {"row_group_size": 10})):
            parquet.write_table(self.frame(3000 + i, i), self.folder / f"train-{i}.parquet", **options)
        parquet.write_table(self.frame(1000, 9), self.folder / "eval.parquet")
        done = self.job("out")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.folder / "out/summary.json").read_text())
        self.assertEqual(summary["examples"], 3 * (3000 + 3001 + 3002))
        self.assertGreater(summary["evalAccuracy"], 0.95)
        done = self.run_tool("predict", self.folder / "out", "--input", self.folder / "eval.parquet", "--to", "jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line)["label"] for line in done.stdout.splitlines()]
        labels = self.frame(1000, 9)["label"].to_pylist()
        right = sum(answer == label for answer, label in zip(answers, labels, strict=True))
        self.assertEqual(right / 1000, summary["evalAccuracy"])

    def test_rows_of_wide_lists_are_passed_over_one_by_one(self):
        rows, width = 1000, 20_000  # together more numbers than are read at once
        lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.repeat(pyarrow.scalar(0.5), rows * width), width)
        labels = ["yes", "no"] * (rows // 2)
        for name in ("train-0", "eval"):
            parquet.write_table(pyarrow.table({"v": lists, "label": labels}), self.folder / f"{name}.parquet")
        columns = json.dumps([{"name": "v", "width": width}])
        done = self.job("wide", "--set", f"data.columns={columns}", "--set", "training.epochs=1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_is_wrong_is_told_with_file_and_row(self):
        parquet.write_table(self.frame(3000, 1), self.folder / "train-0.parquet", row_group_size=999)
        parquet.write_table(self.frame(10, 2), self.folder / "eval.parquet")
        other = self.frame(3000, 1).to_pydict()
        other["x"][2345] = None
        parquet.write_table(pyarrow.table(other), self.folder / "train-1.parquet")
        done = self.job("a")
        self.assertRegex(done.stdout + done.stderr, r"train-1\.parquet at row 2345: field 'x': .*default")
        del other["x"]
        parquet.write_table(pyarrow.table(other), self.folder / "train-1.parquet")
        self.assertRegex(self.job("b").stderr, r"train-1\.parquet has no field 'x'; it has label, nested\.v, city")
        other["x"] = ["words"] * 3000
        parquet.write_table(pyarrow.table(other), self.folder / "train-1.parquet")
        self.assertRegex(self.job("c").stderr, r"train-1\.parquet at row \d+: field 'x': 'words' is no number")
        whole = (self.folder / "train-0.parquet").read_bytes()
        (self.folder / "train-1.parquet").write_bytes(whole[:-100])
        self.assertRegex(self.job("d").stderr, r"train-1\.parquet: the file is damaged, or is no Parquet")
        (self.folder / "train-1.parquet").write_bytes(b"")
        self.assertRegex(self.job("e").stderr, r"train-1\.parquet: the file is damaged, or is no Parquet")

    def test_an_index_is_written_and_a_changed_file_is_not_taken_for_it(self):
        parquet.write_table(self.frame(3000, 1), self.path)
        done = self.run_tool("data", "index", self.path)
        self.assertEqual(done.stdout, f"{self.path}.downpour-index: 3,000 records\n".replace("3,000", "3000"))
        self.assertTrue(self.path.with_name("file.parquet.downpour-index").exists())

    def test_a_file_that_lies_is_refused_in_bounded_memory(self):
        self.write(self.columns_of(400), row_group_size=150, compression="snappy")
        whole = self.path.read_bytes()
        hostile = [whole[: self.draw.randrange(len(whole))] for _ in range(10)]
        for _ in range(60):
            changed = bytearray(whole)
            for _ in range(self.draw.choice([1, 1, 8])):
                # Half of them in the footer, which says where all lies.
                begin = self.draw.choice([0, len(whole) - 8 - struct.unpack("<I", whole[-8:-4])[0]])
                changed[self.draw.randrange(begin, len(whole))] = self.draw.choice([0, 0xFF, self.draw.randrange(256)])
            hostile.append(bytes(changed))
        hostile.append(whole[:-8] + struct.pack("<I", 0xFFFFFFFF) + b"PAR1")
        hostile.append(b"PAR1" + bytes(12) + b"PAR1")
        refused = 0
        for i, content in enumerate(hostile):
            self.path.write_bytes(content)
            done = self.run_tool("data", "stats", "--format", "parquet", self.path, memory=MEMORY)
            self.assertIn(done.returncode, (0, 1), f"file {i}: {done.stderr}")
            if done.returncode == 1:
                refused += 1
                self.assertIn(str(self.path), done.stderr)
        self.assertGreater(refused, len(hostile) // 3)

    def test_pages_that_unpack_to_more_than_there_is_memory_for_are_refused(self):
        zeros = pyarrow.array([b"\0" * (15 << 20)] * 100, pyarrow.large_binary())
        parquet.write_table(pyarrow.table({"a": zeros}), self.path, compression="zstd", use_dictionary=False,
                            data_page_size=1 << 31)  # fmt: skip
        self.assertLess(self.path.stat().st_size, 4 << 20)
        done = self.run_tool("data", "stats", self.path, memory=MEMORY)
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(self.path), done.stderr)
        self.assertIn("MiB", done.stderr)


if __name__ == "__main__":
    python = BUILD / "parquet/bin/python3"
    if pathlib.Path(sys.executable) != python and python.exists():
        os.execv(python, [python, __file__, *sys.argv[1:]])
    unittest.main()

"""`downpour data` reads what other programs wrote, CSV by pandas in its dialects: it reads what was written."""

import csv
import gzip
import json
import os
import random
import subprocess
import tempfile
import unittest

import pandas

TOOL = os.path.join(os.environ["DOWNPOUR_BUILD"], "tools", "downpour")
WORDS = ["", "a", "two words", "comma, in it", 'a "quote"', "line\nend", "semi;colon", "tab\there", "bar|"]


def data(*arguments):
    outcome = subprocess.run([TOOL, "data", *arguments, "-o", "json"], capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)


class DataFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-data-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file.csv")

    def frame(self, seed):
        draw = random.Random(seed)
        rows = draw.randrange(2, 400)
        return pandas.DataFrame(
            {
                "number": [draw.randrange(-1000, 1000) for _ in range(rows)],
                "price": [draw.choice([None, draw.uniform(-5, 5)]) for _ in range(rows)],
                "word": [draw.choice(WORDS) for _ in range(rows)],
                "odd name, with a comma": [draw.choice("xyz") for _ in range(rows)],
            }
        )

    def test_what_pandas_wrote_in_any_dialect(self):
        quotings = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]
        for seed, (separator, quoting, ending) in enumerate(
            (s, q, e) for s in ",;\t|" for q in quotings for e in ("\n", "\r\n")
        ):
            with self.subTest(separator=separator, quoting=quoting, ending=ending):
                frame = self.frame(seed)
                packed = "gzip" if seed % 2 else None
                frame.to_csv(
                    self.path, sep=separator, quoting=quoting, lineterminator=ending, index=False, compression=packed
                )
                said = data("head", self.path, "-n", "1000")
                self.assertEqual(said["columns"], list(frame.columns))
                with (gzip.open if packed else open)(self.path, "rt", newline="") as file:
                    written = list(csv.reader(file, delimiter=separator))[1:]
                # Blanks around what is not quoted go, and pandas quotes only where a separator asks for it.
                self.assertEqual([[field.strip() for field in row] for row in said["rows"]],
                                 [[field.strip() for field in row] for row in written])

    def test_statistics_are_those_of_pandas(self):
        frame = self.frame(7)
        frame.to_csv(self.path, index=False)
        columns = {column["name"]: column for column in data("stats", self.path)["columns"]}
        self.assertEqual(columns["number"]["type"], "int64")
        self.assertEqual(columns["price"]["type"], "float")
        self.assertEqual(columns["word"]["type"], "text")
        for name in ("number", "price"):
            self.assertEqual(columns[name]["min"], frame[name].min())
            self.assertEqual(columns[name]["max"], frame[name].max())
            self.assertAlmostEqual(columns[name]["mean"], frame[name].mean())
            self.assertEqual(columns[name]["missing"], frame[name].isna().sum())
        counts = frame["odd name, with a comma"].value_counts()
        self.assertEqual(columns["odd name, with a comma"]["frequency"], counts.max())

    def test_several_gzip_members_are_one_file(self):
        with open(self.path, "wb") as file:
            for part in (b"a,b\n1,2\n", b"3,4\n"):
                file.write(gzip.compress(part))
        self.assertEqual(data("head", self.path)["rows"], [["1", "2"], ["3", "4"]])

    def index(self, *arguments):
        return subprocess.run([TOOL, "data", "index", *arguments], capture_output=True, text=True)

    def test_an_index_has_every_record_that_pandas_wrote(self):
        quotings = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL]
        for seed, (quoting, ending) in enumerate((q, e) for q in quotings for e in ("\n", "\r\n")):
            with self.subTest(quoting=quoting, ending=ending):
                frame = self.frame(seed + 40)
                packed = "gzip" if seed % 2 else None
                frame.to_csv(self.path, quoting=quoting, lineterminator=ending, index=False, compression=packed)
                outcome = self.index(self.path)
                self.assertEqual(outcome.stdout, f"{self.path}.downpour-index: {len(frame)} records\n", outcome.stderr)

    def test_indexes_stand_beside_all_files_of_a_pattern_alone(self):
        folder = os.path.dirname(self.path)
        for name in ("b.csv", "a.csv"):
            self.frame(3).to_csv(os.path.join(folder, name), index=False)
        for _ in range(2):
            outcome = self.index(os.path.join(folder, "*"))
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            expected = ["a.csv", "a.csv.downpour-index", "b.csv", "b.csv.downpour-index"]
            self.assertEqual(sorted(os.listdir(folder)), expected)
        outcome = self.index(os.path.join(folder, "c*"))
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("no file matches", outcome.stderr)

    def test_a_bomb_takes_bounded_memory(self):
        commas = (b"," * 100_000 + b"\n") * 10  # ten records that have a column for each byte
        for piece, said in [(b"x" * (1 << 20), "a record of more than 16 MiB"),
                            (b"," * (1 << 20), "more than 131072 fields"),
                            (commas, "")]:
            with self.subTest(said=said):
                with gzip.open(self.path, "wb") as file:
                    for _ in range(300 if said else 20):
                        file.write(piece)
                outcome = subprocess.run(
                    ["bash", "-c", f"ulimit -v 400000; {TOOL} data stats {self.path} >/dev/null"],
                    capture_output=True, text=True,
                )
                self.assertEqual(outcome.returncode, 1 if said else 0, outcome.stderr)
                self.assertIn(said, outcome.stderr)

    def test_without_memory_there_is_a_sentence(self):
        with open(self.path, "wb") as file:
            file.write((b"1," * 100_000 + b"1\n") * 40)
        outcome = subprocess.run(
            ["bash", "-c", f"ulimit -v 150000; {TOOL} data stats {self.path} -o json"], capture_output=True, text=True
        )
        self.assertEqual(outcome.returncode, 1, outcome.stderr)
        self.assertIn("out of memory", outcome.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

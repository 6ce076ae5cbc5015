"""downpour.data: files of records as datasets, read by the real tool."""

import gzip
import json
import os
import pathlib
import pickle
import signal
import struct
import tempfile
import unittest
import warnings
from unittest import mock

from package import is_there  # first: it says where the others are

import downpour
from cluster import TOOL
from downpour import data

TORCH = is_there("torch")
if is_there("numpy"):
    import numpy
if TORCH:
    import torch

PEOPLE = "age,job,hours,income\n20,cook,10.5,low\n30,clerk,20,high\n40,,30,low\n50,cook,40,high\n60,pilot,50,low\n"
JOB = {"name": "job", "vocabulary": ["clerk", "cook"]}
INCOME = {"column": "income", "classes": ["low", "high"]}


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@unittest.skipUnless(is_there("numpy"), "python3-numpy is not there")
class DataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-data-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "people.csv").write_text(PEOPLE)

    def people(self, columns=("age", "hours"), label=INCOME, **others):
        return data.csv(self.folder / "people.csv", list(columns), label, tool=TOOL, **others)

    def same(self, found, wanted):
        numpy.testing.assert_array_equal(found, numpy.asarray(wanted))

    def test_a_batch_is_of_whole_numbers_and_may_count_from_the_end(self):
        rows = self.people()
        self.same(rows.batch(numpy.array([-1, 0, -5], "i1"))[0], [[60, 50], [20, 10.5], [20, 10.5]])
        for numbers in ([5], [-6], numpy.array([2**64 - 1], "u8")):
            with self.assertRaisesRegex(IndexError, "there is no row"):
                rows.batch(numbers)
        for numbers in ([[1, 2], [3, 4]], [1.0], [2**64], numpy.array([True, False])):
            with self.assertRaisesRegex(TypeError, "a batch is a list of whole numbers"):
                rows.batch(numbers)
        self.same(rows.batch([1])[0], [[30, 20]])  # nothing of the refused ones reached the child

    def test_an_answer_that_was_broken_off_is_not_taken_for_the_next_one(self):
        rows = self.people()
        reader = rows._reader

        def broken_off(place):
            raise KeyboardInterrupt

        with mock.patch.object(reader, "_fill", broken_off), self.assertRaises(KeyboardInterrupt):
            rows.batch([0, 1])
        self.same(rows.batch([3, 4])[0], [[50, 40], [60, 50]])

    def test_what_is_no_file_or_column_is_named(self):
        for files, columns, said in [
            (3, ["age"], "files is an int: give a path, an address, or a list of those"),
            ([3], ["age"], "a file is an int: give its path as text, or its address"),
            (b"a.csv", ["age"], "files is a bytes: give a path"),
            ("n\udce9.csv", ["age"], "the path .* is not UTF-8: give the file another name, or a link to it"),
            ("a.csv", [3], "a column is an int: give its name, or a dict as a job file has it"),
            ("a.csv", [None], "a column is a NoneType"),
        ]:
            with self.subTest(said), self.assertRaisesRegex(downpour.TrainingError, said):
                data.csv(files, columns, tool=TOOL)
        rows = data.csv(self.folder.glob("p*.csv"), ["age"], INCOME, tool=TOOL)
        self.assertEqual(len(rows), 5)

    def test_words_may_stand_in_files_of_their_own(self):
        (self.folder / "jobs.txt").write_text("clerk\ncook\n")
        (self.folder / "incomes.txt").write_text("high\nlow\n")
        job = {"name": "job", "vocabulary": {"file": str(self.folder / "jobs.txt")}}
        income = {"column": "income", "classes": {"file": str(self.folder / "incomes.txt")}}
        inputs, labels = self.people([job], income).batch(range(5))
        self.same(inputs["job"], [1, 0, 2, 1, 2])
        self.same(labels, [1, 0, 1, 0, 1])
        (self.folder / "jobs.txt").write_text("clerk\ncook\nclerk\n")
        with self.assertRaisesRegex(downpour.ToolError, "line 3 of .*jobs.txt 'clerk' stands there twice"):
            self.people([job])

    def test_numbers_are_one_matrix_in_the_order_that_is_asked_for(self):
        rows = self.people()
        self.assertEqual((len(rows), rows.width, rows.matrix), (5, 2, True))
        inputs, labels = rows.batch([4, 0, 4])
        self.same(inputs, [[60, 50], [20, 10.5], [60, 50]])
        self.same(labels, [0, 0, 0])
        self.assertEqual((inputs.dtype, labels.dtype), ("float32", "int64"))
        item, label = rows[-2]
        self.same(item, [50, 40])
        self.assertEqual(label, 1)
        self.same(rows[1:3][1], [1, 0])
        self.assertEqual(len(list(rows)), 5)
        self.same(rows.batch([])[0], numpy.zeros((0, 2)))

    def test_categories_are_a_dict_unless_a_matrix_is_wanted(self):
        rows = self.people(["age", JOB])
        inputs, _ = rows.batch([2, 4])
        self.same(inputs["age"], [40, 60])
        self.same(inputs["job"], [2, 2])
        self.assertEqual(inputs["job"].dtype, "int64")
        self.assertEqual(rows[0][0], {"age": 20, "job": 1})
        self.assertEqual([column.categories for column in rows.columns], [0, 3])
        rows = self.people(["age", JOB], matrix=True)
        self.assertEqual(rows.width, 4)
        self.same(rows.batch([0, 1, 2])[0], [[20, 0, 1, 0], [30, 1, 0, 0], [40, 0, 0, 1]])
        keys = {"name": "job", "key": "text"}
        self.assertEqual(self.people([keys])[2][0]["job"], -(2**63), "there is none")
        with self.assertRaisesRegex(downpour.TrainingError, "keys are no numbers of a matrix"):
            self.people([keys], matrix=True)

    def test_labels_are_classes_numbers_or_none(self):
        self.same(self.people(label="hours", labels="numbers").batch([0])[1], numpy.float32([10.5]))
        rows = self.people(label=None)
        self.same(rows.batch([1]), [[30, 20]])
        self.same(rows[1], [30, 20])
        with self.assertRaisesRegex(downpour.TrainingError, 'labels is .many., but must be "classes" or "numbers"'):
            self.people(labels="many")

    def test_what_is_wrong_is_named_with_its_place(self):
        for columns, label, why in (
            (["agee"], INCOME, "agee"),
            (["job"], INCOME, r"people\.csv:2: .*job.*cook"),
            ([{"name": "age", "buckets": [3, 1]}], INCOME, "^data.columns.0.buckets"),
            (["age"], {"column": "income", "classes": ["low", "other"]}, r"people\.csv:3: .*income.*high"),
            (["age"], {"column": "hours", "scale": {"mean": 3}}, "data.label.scale"),
        ):
            with self.subTest(why), self.assertRaisesRegex(downpour.ToolError, why):
                self.people(columns, label).batch(range(5))
        with self.assertRaisesRegex(downpour.ToolError, "none.csv"):
            data.csv(self.folder / "none.csv", ["age"], tool=TOOL)
        with self.assertRaisesRegex(downpour.TrainingError, "columns is a str: give a list"):
            data.csv(self.folder / "people.csv", "age", tool=TOOL)
        with self.assertRaisesRegex(downpour.TrainingError, "texts, numbers, lists and dicts"):
            data.csv(self.folder / "people.csv", [{"name": "age", "default": object()}], tool=TOOL)
        rows = self.people()
        for number in (5, -6):
            with self.assertRaisesRegex(IndexError, f"no row {number}: there are 5"):
                rows[number]
        with self.assertRaisesRegex(TypeError, "whole numbers or slices, but this is a str"):
            rows["age"]
        with self.assertRaisesRegex(IndexError, "no row 5: there are 5"):
            rows.batch([5])
        self.same(rows.batch([0])[1], [0])

    def test_a_file_that_changes_is_named(self):
        rows = self.people()
        (self.folder / "people.csv").write_text(PEOPLE.replace("60", "61"))
        with self.assertRaisesRegex(downpour.ToolError, "people.csv"):
            rows.batch([4])

    def test_a_child_that_is_replaced_reads_the_same_rows_or_says_so(self):
        rows = self.people()
        copy = pickle.dumps(rows)
        (self.folder / "people.csv").write_text(PEOPLE + "70,cook,60,low\n")
        with self.assertRaisesRegex(downpour.ToolError, "other rows than when they were opened"):
            pickle.loads(copy).batch([0])

    def test_so_many_records_may_be_left_out(self):
        (self.folder / "people.csv").write_text(PEOPLE.replace("40", "many"))
        self.assertEqual(len(self.people(skip=2)), 3)

    def test_other_formats(self):
        lines = [{"x": [1, 2], "tag": ["a", "b"], "y": 1}, {"x": [3, 4], "tag": [], "y": 0}]
        text = "".join(json.dumps(line) + "\n" for line in lines).encode()
        (self.folder / "a.jsonl.gz").write_bytes(gzip.compress(text))
        columns = [{"name": "x", "width": 2}, {"name": "tag", "key": "text", "width": 3}]
        rows = data.jsonl([self.folder / "a.jsonl.gz"] * 2, columns, "y", tool=TOOL)
        self.assertEqual(len(rows), 4)
        inputs, labels = rows.batch([3, 0])
        self.same(inputs["x"], [[3, 4], [1, 2]])
        self.assertEqual((inputs["tag"] == -(2**63)).sum(axis=1).tolist(), [3, 1])
        self.same(labels, [0, 1])
        (self.folder / "a.svm").write_text("1 1:0.5 3:2\n0 2:7\n")
        rows = data.libsvm(str(self.folder / "a.svm"), [{"name": "features", "width": 3}], "label", tool=TOOL)
        self.same(rows.batch([0, 1])[0], [[0.5, 0, 2], [0, 7, 0]])
        images = struct.pack(">IIII", 0x803, 2, 1, 2) + bytes([0, 255, 51, 0])
        (self.folder / "images").write_bytes(images)
        (self.folder / "labels").write_bytes(struct.pack(">II", 0x801, 2) + bytes([3, 9]))
        rows = data.idx(self.folder / "images", self.folder / "labels", tool=TOOL)
        self.same(rows.batch([0, 1])[0], numpy.float32([[0, 1], [0.2, 0]]))
        self.same(rows.batch([0, 1])[1], [3, 9])

    def test_a_copy_in_another_process_has_a_child_of_its_own(self):
        rows = self.people()
        again = pickle.loads(pickle.dumps(rows))
        self.same(again.batch([1])[0], rows.batch([1])[0])
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            os.write(write, repr(rows.batch([3])[0].tolist()).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        self.assertEqual(os.read(read, 100), b"[[50.0, 40.0]]")
        os.close(read), os.close(write)
        self.same(rows.batch([0])[0], [[20, 10.5]])

    def test_its_child_ends_with_it_and_one_that_was_killed_is_replaced(self):
        rows = self.people()
        rows.batch([0])
        child = rows._reader._child.pid
        os.kill(child, signal.SIGKILL)
        self.same(rows.batch([3])[1], [1])
        answer = data._Reader.read

        def die(reader, numbers, columns):
            os.kill(reader._child.pid, signal.SIGKILL)
            return answer(reader, numbers, columns)

        with mock.patch.object(data._Reader, "read", die), self.assertRaisesRegex(downpour.ToolError, "ended with -9"):
            rows.batch([0])
        self.same(rows.batch([0])[1], [0])
        child = rows._reader._child.pid
        self.assertTrue(is_alive(child))
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:  # it has the child's pipes, until it is told to end
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        del rows
        self.assertFalse(is_alive(child))
        os.close(write), os.close(read)
        os.waitpid(pid, 0)

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_a_data_loader_reads_it(self):
        for workers in (0, 2):
            loader = torch.utils.data.DataLoader(self.people(["age", JOB]), batch_size=2, num_workers=workers)
            batches = list(loader)
            self.assertEqual([len(labels) for _, labels in batches], [2, 2, 1])
            self.same(torch.cat([inputs["job"] for inputs, _ in batches]), [1, 0, 2, 1, 2])

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_fit_trains_on_it(self):
        draws = numpy.random.default_rng(1)
        x = draws.normal(size=(1000, 3))
        table = numpy.column_stack([x, x @ [1, -2, 0.5] + 3])
        numpy.savetxt(self.folder / "line.csv", table, delimiter=",", header="a,b,c,y", comments="")
        rows = data.csv(self.folder / "line.csv", ["a", "b", "c"], "y", labels="numbers", tool=TOOL)
        model = torch.nn.Linear(3, 1)
        loss = lambda output, y: torch.nn.functional.mse_loss(output[:, 0], y)  # noqa: E731
        seen = []
        collate = lambda items: seen.append(len(items)) or torch.utils.data.default_collate(items)  # noqa: E731
        for how in ({}, {"collate": collate}):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            _, history = downpour.fit(
                model, train=rows, eval=rows, loss=loss, optimizer=optimizer, epochs=5, batch_size=16, **how
            )
            self.assertLess(history[-1]["evalLoss"], 1e-6)
            downpour.local.Local.finished = False
        self.assertIn(16, seen)
        numpy.testing.assert_allclose(model.weight.detach()[0], [1, -2, 0.5], atol=1e-3)


if __name__ == "__main__":
    unittest.main()

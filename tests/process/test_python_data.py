"""Python code that trains on files of records: each worker reads them by downpour.data, and each row counts once."""

import json
import signal
import unittest

from cluster import complete, kill, task_of
from own_code import OwnCodeTest

TASK = """
import sys, torch, downpour

folder = sys.argv[1]
def opened(name):
    return downpour.data.csv(f"{folder}/{name}-*.csv", ["a", "b", {"name": "c", "vocabulary": ["x", "y"]}],
                             {"column": "label", "classes": ["no", "yes"]}, matrix=True)
train = opened("train")
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(train.width, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
downpour.fit(model, train=train, eval=opened("eval"), loss=torch.nn.functional.cross_entropy, batch_size=16,
             optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
"""


class PythonDataTest(OwnCodeTest):
    def put(self, name, rows, seed):
        import numpy

        draws = numpy.random.default_rng(seed)
        numbers, words = draws.normal(size=(rows, 2)).round(4), draws.choice(["x", "y"], rows)
        labels = numbers @ [1, -2] + 2 * (words == "x") > 1
        lines = [f"{a},{b},{word},{'yes' if label else 'no'}" for (a, b), word, label in zip(numbers, words, labels)]
        (self.folder / f"{name}.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")

    def setUp(self):
        super().setUp()
        for part in range(3):
            self.put(f"train-{part}", 700, part)
        self.put("eval-0", 500, 9)

    def test_each_row_counts_once_whatever_dies(self):
        self.write_package(TASK, training={"epochs": 20})
        run = self.start_python_run(args=[str(self.folder)])
        status = self.wait_until(complete)
        kill(task_of(status, "worker-1")["pid"], signal.SIGKILL)
        self.assertEqual(run.finish()[0], 0, run.said)
        summary = self.summary()
        self.assertEqual(summary["samplesCommitted"], 20 * 2100)
        self.assertGreater(summary["evalAccuracy"], 0.97)
        self.check_ledger()
        data = json.loads((self.job_dir / "python/job.json").read_text())["data"]
        self.assertEqual((data["trainExamples"], data["order"], data["blockExamples"]), (2100, "blocks", 128))

    def test_the_program_and_the_job_file_may_want_examples_in_any_order(self):
        of_program = TASK.replace("batch_size=16,", 'batch_size=16, job={"data.order": "examples"},')
        for who, task, changes in (("program", of_program, {}), ("file", TASK, {"data": {"order": "examples"}})):
            with self.subTest(who):
                self.write_package(task, **changes)
                code, _, err = self.tool("check", self.job_file, *self.code("--", str(self.folder)))
                self.assertEqual((code, err), (0, ""))

    def test_other_rows_are_refused_though_they_are_as_many(self):
        self.write_package(TASK, training={"epochs": 2})
        run = self.start_python_run(args=[str(self.folder)])
        self.assertEqual(run.finish()[0], 0, run.said)
        self.put("train-1", 700, 77)
        again = self.start_python_run("--resume", "--set", "training.epochs=4", args=[str(self.folder)])
        self.assertNotEqual(again.finish()[0], 0)
        self.assertIn("the bytes of train of downpour.fit", again.said)
        self.put("train-1", 700, 1)
        again = self.start_python_run("--resume", "--set", "training.epochs=4", args=[str(self.folder)])
        self.assertEqual(again.finish()[0], 0, again.said)
        self.assertEqual(self.summary()["samplesCommitted"], 4 * 2100)

    def test_a_row_that_cannot_be_read_is_named_before_anything_starts(self):
        lines = (self.folder / "train-0.csv").read_text().splitlines()
        (self.folder / "train-0.csv").write_text("\n".join([*lines[:9], "1,many,x,no", *lines[9:]]) + "\n")
        self.write_package(TASK)
        said = self.refused(1, "--", str(self.folder))
        self.assertRegex(said, r"train-0\.csv:10: .*many")


if __name__ == "__main__":
    unittest.main()

"""More data tomorrow: a job that is resumed with further files trains on them in further epochs, and knows its own."""

import contextlib
import json
import signal
import unittest

import numpy
from cluster import ProcessTest, kill


class MoreDataTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.draw = numpy.random.default_rng(4)
        for day in range(1, 4):
            self.put_day(day)
        self.put_day("test")

    def put_day(self, day, rows=2000):
        numbers = self.draw.normal(0, 1, (rows, 4)).round(4)
        labels = (numbers @ [1, -2, 0.5, 1] > 0).astype(int)
        lines = [",".join([*map(str, row), str(label)]) for row, label in zip(numbers, labels)]
        (self.folder / f"day-{day}.csv").write_text("\n".join(["a,b,c,d,label", *lines]) + "\n")

    def write(self, train, epochs, **training):
        job = {
            "name": "days",
            "cluster": {"workerCount": 2, "parameterServerCount": 2},
            "model": {"inputs": [{"name": "x", "columns": "all"}],
                      "layers": [{"dense": {"units": 8, "activation": "relu"}}, {"dense": {"units": 2}}]},
            "data": {"format": "csv", "train": train, "eval": "day-test.csv", "columns": ["a", "b", "c", "d"],
                     "label": "label"},
            "training": {"batchSize": 20, "leaseBatches": 4, "epochs": epochs,
                         "optimizer": {"name": "adam", "learningRate": 0.01}, **training},
            "checkpoint": {"every": "200ms"},
        }
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(job))

    def run_job(self, *more, code=0):
        found, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--trace", *more)
        self.assertEqual(found, code, out + err)
        return out + err

    def ledger(self):
        code, out, err = self.tool("ledger", "--job-dir", self.job_dir, "-o", "json")
        self.assertEqual(code, 0, out + err)
        return {row["epoch"]: row["samplesEverywhere"] for row in json.loads(out)["begun"]}

    def test_tomorrows_files_are_trained_on_in_further_epochs(self):
        self.write(["day-1.csv"], 2)
        self.run_job()
        self.assertEqual(self.summary()["samplesCommitted"], 2 * 2000)
        self.write(["day-1.csv", "day-2.csv"], 3)
        self.run_job("--resume")
        self.assertEqual(self.summary()["samplesCommitted"], 2 * 2000 + 4000)
        self.check_ledger()
        self.assertEqual(self.ledger(), {1: 2000, 2: 2000, 3: 4000})
        # The day after, by a pattern.
        self.write("day-[123].csv", 5)
        self.run_job("--resume")
        self.check_ledger()
        self.assertEqual(self.ledger(), {1: 2000, 2: 2000, 3: 4000, 4: 6000, 5: 6000})
        # What an optimizer keeps went on: each slice counts every step since the first day.
        code, out, err = self.tool("checkpoint", "inspect", "--job-dir", self.job_dir, "-o", "json")
        self.assertEqual(code, 0, err)
        self.assertIn(str(100 + 100 + 200 + 300 + 300), out)

    def test_what_is_not_what_it_was_is_refused_by_name(self):
        self.write(["day-1.csv", "day-2.csv"], 1)
        self.run_job()
        two = (self.folder / "day-2.csv").read_text()
        self.write(["day-1.csv", "day-2.csv", "day-3.csv"], 1)
        said = self.run_job("--resume", code=78)
        self.assertIn("day-3.csv. The job's 1 epoch keeps the data that it was begun with", said)
        self.assertIn("raise training.epochs and add --resume", said)
        (self.folder / "day-2.csv").write_text(two.replace("0", "1", 1))
        self.write(["day-1.csv", "day-2.csv", "day-3.csv"], 2)
        self.assertIn("day-2.csv has changed", self.run_job("--resume", code=78))
        (self.folder / "day-2.csv").write_text(two + two.splitlines()[1] + "\n")
        self.assertIn("day-2.csv has changed", self.run_job("--resume", code=78))
        (self.folder / "day-2.csv").write_text(two)
        self.write(["day-1.csv", "day-3.csv"], 2)
        self.assertIn("day-2.csv is missing", self.run_job("--resume", code=78))
        self.write(["day-2.csv", "day-1.csv", "day-3.csv"], 2)
        self.assertIn("day-1.csv was file 1 of them, and is file 2", self.run_job("--resume", code=78))
        # None of which has done any harm.
        self.write(["day-1.csv", "day-2.csv", "day-3.csv"], 2)
        self.run_job("--resume")
        self.assertEqual(self.ledger(), {1: 4000, 2: 6000})
        self.check_ledger()

    def test_a_run_that_is_killed_in_mid_epoch_and_its_resume_too(self):
        self.write(["day-1.csv"], 30)
        run = self.start_run()
        status = self.wait_until(lambda s: s.get("checkpoint", {}).get("round") and s["progress"]["epoch"] >= 2)
        self.kill_all(run, status)
        self.write(["day-1.csv", "day-2.csv"], 40)
        run = self.start_run("--resume")
        status = self.wait_until(lambda s: s["state"] == "RUNNING" and s["progress"]["epoch"] >= 4)
        self.kill_all(run, status)
        self.run_job("--resume")
        self.check_ledger()
        ledger = self.ledger()
        self.assertEqual([ledger[epoch] for epoch in range(1, 41)], [2000] * 30 + [4000] * 10)

    def kill_all(self, run, status):
        run.signal(signal.SIGKILL)  # first: it would start the others again
        for pid in [status["chief"]["pid"], *(task["pid"] for task in status["tasks"])]:
            with contextlib.suppress(ProcessLookupError):
                kill(pid)
        run.finish()


if __name__ == "__main__":
    unittest.main()

"""Models of Python code with tables: whoever is killed, each row is what its examples made of it."""

import json
import signal
import subprocess
import sys
import unittest

from cluster import ROOT, TOOL, complete, kill, task_of
from own_code import HAS_TORCH, OwnCodeTest

sys.path.insert(0, str(ROOT / "python"))
if HAS_TORCH:
    import downpour
    import numpy
    from downpour import local_tables
    from downpour.tables import checked

SAMPLE = ROOT / "deploy/python/recommender"
EXAMPLES, EPOCHS, IDS = 2000, 6, 97
# Gradients are whole numbers that follow from the examples alone. So with plain sums of them every row is exact, in
# whatever order they came. It is slow until the file `mark` is there.
TASK = """
import os, sys, threading
import torch, downpour
from trainer import data

class Sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        plain = {"optimizer": {"name": "sgd", "learningRate": 1.0}, "initializer": "zeros"}
        self.users = downpour.Embedding(2, **plain)
        self.words = downpour.EmbeddingBag(1, mode="sum", padding_idx=0, **plain)
        self.total = torch.nn.Parameter(torch.zeros(()))

    def forward(self, user, words):
        rows = self.users(user)
        # The second layer's ids follow from what the first one gave, as far as anyone can tell before.
        words = words + (rows.detach().isnan().any(1, keepdim=True)).long()
        return rows[:, 0] + 2 * rows[:, 1] + self.words(words)[:, 0] + self.total

def step(model, batch):
    user, words, counts = batch
    if not os.path.exists(sys.argv[1]):
        threading.Event().wait(0.05)
    return (model(user, words) * counts).sum()

def keys(batch):
    return {"users": batch[0], "words": batch[1]}

downpour.fit(Sums(), train=data.draw(), step=step, epochs=int(sys.argv[2]), batch_size=20,
             keys=keys if "hint" in sys.argv else None, optimizer=dict(name="sgd", learningRate=1.0),
             job={"training.staleness.method": "none", "model.tableBuckets": 5})
"""
DATA = f"""
import numpy

def draw():
    rng = numpy.random.default_rng(5)
    user = (rng.integers({IDS}, size={EXAMPLES}) - {IDS // 2}) * 10**16
    return user, rng.integers({IDS}, size=({EXAMPLES}, 3)), rng.integers(-3, 4, size={EXAMPLES}).astype("float32")
"""


class PythonTablesTest(OwnCodeTest):
    def rows(self, folder, name):
        ids, values = downpour.Job(folder, tool=TOOL).table(name)
        return dict(zip(ids.tolist(), values.tolist()))

    def check_exact(self, epochs):
        module = {}
        exec(DATA, module)
        users, words = {}, {}
        all_users, all_words, counts = module["draw"]()
        for user, some, count in zip(all_users.tolist(), all_words.tolist(), counts.tolist()):
            users[user] = users.get(user, 0) - epochs * count
            for word in some:
                words[word] = words.get(word, 0) - epochs * count
        words.pop(0)
        self.assertEqual(self.rows(self.job_dir, "users"), {user: [one, 2 * one] for user, one in users.items()})
        self.assertEqual(self.rows(self.job_dir, "words"), {word: [one] for word, one in words.items()})
        total = downpour.Job(self.job_dir, tool=TOOL).state_dict()["total"]
        self.assertEqual(float(total), -epochs * counts.sum())

    def kill_some(self, run):
        for name in ("worker-1", "ps-0", "worker-0", "ps-1"):
            status = self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
            pid = task_of(status, name)["pid"]
            kill(pid)
            run.wait_for_line(rf"{name} \(pid {pid}\) ended: signal 9 \(SIGKILL\); started again")

    def test_every_row_is_exact_whoever_is_killed(self):
        mark = self.folder / "enough"
        for how in ([], ["hint"]):
            with self.subTest(how=how):
                self.job_dir = self.folder / f"job-{len(how)}"
                mark.unlink(missing_ok=True)
                self.write_package(TASK)
                (self.folder / "trainer/data.py").write_text(DATA)
                run = self.start_python_run(args=[str(mark), EPOCHS, *how])
                self.kill_some(run)
                run.signal(signal.SIGINT)
                self.assertEqual(run.finish()[0], 130, run.said)
                mark.touch()
                more = ["--resume", "--set", "cluster.parameterServerCount=3"]
                run = self.start_python_run(*more, args=[str(mark), EPOCHS, *how])
                self.assertEqual(run.finish()[0], 0, run.said)
                self.check_ledger()
                self.assertGreaterEqual(self.summary()["examples"], EPOCHS * EXAMPLES)
                self.check_exact(EPOCHS)

    def test_a_job_begins_with_what_an_earlier_one_learned(self):
        mark = self.folder / "enough"
        mark.touch()
        self.write_package(TASK)
        (self.folder / "trainer/data.py").write_text(DATA)
        run = self.start_python_run(args=[str(mark), 2])
        self.assertEqual(run.finish()[0], 0, run.said)
        earlier, self.job_dir = self.job_dir, self.folder / "tomorrow"
        # The model has a parameter more, which begins as it says.
        more = "        self.more = torch.nn.Parameter(torch.ones(3))\n"
        task = TASK.replace("torch.zeros(()))\n", "torch.zeros(()))\n" + more)
        self.write_package(task.replace("+ self.total", "+ self.total + 0 * self.more.sum()"))
        run = self.start_python_run("--set", f"model.initializeFrom={earlier}", "--set",
                                    "cluster.parameterServerCount=3", args=[str(mark), 1])  # fmt: skip
        self.assertEqual(run.finish()[0], 0, run.said)
        self.check_exact(3)
        self.assertEqual(downpour.Job(self.job_dir, tool=TOOL).state_dict()["more"].tolist(), [1, 1, 1])
        log = (self.job_dir / "logs/chief.log").read_text()
        self.assertRegex(log, "model.initializeFrom: 1 variable and 2 tables from .*; not from there: more")

    def test_a_function_of_keys_changes_no_value(self):
        (self.folder / "job.yaml").write_text(json.dumps({"name": "own"}))
        found = []
        for hint in ([], ["--hint"]):
            folder = self.folder / f"job{len(hint)}"
            job = downpour.run(self.folder / "job.yaml", folder, tool=TOOL, module="trainer.task", package=SAMPLE,
                               args=["--examples", "4000", *hint], set={"training.epochs": 2})  # fmt: skip
            self.addCleanup(job.cancel)
            summary = job.wait(240)
            found.append([summary["evalLoss"], *(self.rows(folder, t) for t in ("users", "films", "words"))])
        self.assertEqual(found[0], found[1])
        self.assertGreater(len(found[0][2]), 400)
        table = checked("users", 8, None, None, admit_after=1, evict_after=0, max_rows=0, precision="fp32")
        code, out, err = self.tool("table", "get", "--job-dir", folder, "--table", "users", "--", "-3", "12345678901")
        self.assertEqual(code, 1, err)
        keys = numpy.array([-3, 12345678901], numpy.int64).view(numpy.uint64)
        for line, row in zip(out.splitlines(), local_tables.initial_rows(table, 0, 1, keys)):
            numpy.testing.assert_allclose([float(word) for word in line.split(":")[1].split()[:8]], row, rtol=1e-5)

    def test_it_learns_as_the_program_does_by_itself(self):
        (self.folder / "job.yaml").write_text(json.dumps({"name": "own", "cluster": {"workerCount": 2}}))
        command = [sys.executable, "-m", "trainer.task", "--examples", "10000"]
        done = subprocess.run(command, cwd=SAMPLE, capture_output=True, text=True, check=True)
        alone = float(done.stdout.split()[-1])
        job = downpour.run(self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="trainer.task",
                           package=SAMPLE, args=["--examples", "10000"])  # fmt: skip
        self.addCleanup(job.cancel)
        self.assertAlmostEqual(job.wait(240)["evalLoss"], alone, delta=0.1 * alone)

    def test_more_rows_than_a_message_has_fail_the_job_with_the_remedy(self):
        wide = TASK
        for before, after in (("Embedding(2,", "Embedding(4096,"), ("=20", "=500"), ('Buckets": 5', 'Buckets": 1')):
            wide = wide.replace(before, after)
        self.write_package(wide)
        (self.folder / "trainer/data.py").write_text(DATA)
        run = self.start_python_run(args=["none", 1])
        self.assertEqual(run.finish()[0], 1, run.said)
        told = self.summary()["errorMessage"]
        self.assertRegex(told, r"^the job ended at worker-\d: the Python code: the rows of one step have [0-9]+")
        self.assertIn("take a smaller training.batchSize or pushEvery, or more model.tableBuckets, at trainer/", told)

    def test_what_does_not_go_with_tables_is_refused(self):
        self.write_package(TASK)
        (self.folder / "trainer/data.py").write_text(DATA)
        for setting in ("training.consistency=sync", "training.localSteps=2", "training.pullAhead=true"):
            said = self.refused(78, "--set", setting, "--", "none", "1")
            self.assertIn("does not go with model.tables in this version", said)


if __name__ == "__main__":
    unittest.main()

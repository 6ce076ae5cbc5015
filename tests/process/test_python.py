"""Models of the user's own Python code, trained by the real binaries. PyTorch is Debian's python3-torch."""

import json
import os
import pathlib
import re
import signal
import sys
import unittest
import unittest.mock

from cluster import ROOT, TOOL, Process, complete, kill, task_of, wait_for_death
from own_code import DATA, EXAMPLES, FIT, OwnCodeTest

# Holds each step back until haste is wanted; few and long ones, since they all take processor time in the end.
HOLD = """
import os, threading
plainly = cross_entropy
def cross_entropy(output, target):
    if not os.path.exists({mark!r}):
        threading.Event().wait(0.5)
    return plainly(output, target)
"""
HELD_EPOCHS = 40


class PythonTest(OwnCodeTest):
    def child_of(self, worker):
        """The Python process beside it."""
        children = pathlib.Path(f"/proc/{worker['pid']}/task").glob("*/children")
        return int("".join(file.read_text() for file in children).split()[0])

    def start_run_to_kill_in(self, *parts, **options):
        """A run that outlasts what is killed in it, on any machine: ten minutes, or until haste is wanted."""
        self.haste = self.folder / "haste"
        self.write_package(DATA, *parts, HOLD.format(mark=str(self.haste)), FIT)
        return self.start_python_run("--set", f"training.epochs={HELD_EPOCHS}", **options)

    def kill_a_process_of_the_user_and_a_worker(self):
        before = self.wait_until(complete)
        for name in ("worker-0", "worker-1"):
            worker = task_of(self.wait_until(complete), name)
            child = self.child_of(worker)
            kill(child if name == "worker-0" else worker["pid"])
            wait_for_death(child)
        replaced = lambda s, name: task_of(s, name)["pid"] != task_of(before, name)["pid"]
        self.wait_until(lambda s: complete(s) and replaced(s, "worker-0") and replaced(s, "worker-1"))

    def export(self):
        code, _, err = self.tool("export", "--job-dir", self.job_dir, "--out", self.folder / "model.safetensors")
        self.assertEqual(code, 0, err)
        sys.path.insert(0, str(ROOT / "python"))
        from downpour.safetensors import read_safetensors

        return read_safetensors(self.folder / "model.safetensors")

    def test_a_model_of_torch_learns_with_its_metrics_and_its_statistics(self):
        self.write_package(DATA, FIT)
        run = self.start_python_run(args=["--width", "3"])
        self.assertEqual(run.finish()[0], 0, run.said)
        summary = self.summary()
        self.assertEqual((summary["state"], summary["samplesCommitted"]), ("SUCCEEDED", 4 * EXAMPLES))
        self.assertGreaterEqual(summary["evalMetrics"]["top2"], summary["evalAccuracy"])
        self.check_ledger()
        self.assertIn("built from ['--width', '3']", self.tool("logs", "--job-dir", self.job_dir)[1])
        values = self.export()
        self.assertIn("1.running_mean", values)
        self.assertNotEqual(set(values["1.running_var"]), {1.0}, "the statistics of batches have moved")

    def test_local_steps_of_one_worker_that_count_in_full_are_plain_steps(self):
        import numpy

        models = []
        for training in ({}, {"localSteps": 4, "outer": {"name": "sgd"}}):
            self.job_dir = self.folder / f"run{len(models)}"
            self.write_package(DATA, FIT, cluster={"workerCount": 1, "parameterServerCount": 2}, training=training)
            run = self.start_python_run()
            self.assertEqual(run.finish()[0], 0, run.said)
            self.assertEqual(self.summary()["samplesCommitted"], 4 * EXAMPLES)
            self.check_ledger()
            models.append(self.export())
        plain, local = models
        for name, values in plain.items():
            difference = numpy.abs(numpy.asarray(values) - numpy.asarray(local[name]))
            self.assertLess(difference.max(), 1e-4, name)

    def test_steps_are_those_of_plain_torch(self):
        one = """
        import json
        steps, whole = 60, len(train)
        optimizer = lambda: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
        if sys.argv[1:] == ["plain"]:
            stepping, (inputs, labels) = optimizer(), train.tensors
            for step in range(steps):
                stepping.zero_grad()
                cross_entropy(model(inputs), labels).backward()
                stepping.step()
            json.dump({name: value.tolist() for name, value in model.state_dict().items()}, sys.stdout)
        else:
            downpour.fit(model, train=train, loss=cross_entropy, optimizer=optimizer(), epochs=steps, batch_size=whole)
        """
        self.write_package(DATA, one, cluster={"workerCount": 1, "parameterServerCount": 2})
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        plain = Process(self, [sys.executable, self.folder / "trainer/task.py", "plain"])
        code, text = plain.finish()
        self.assertEqual(code, 0, plain.said)
        import numpy

        values = self.export()
        for name, expected in json.loads(text).items():
            difference = numpy.abs(numpy.asarray(expected) - numpy.asarray(values[name]).reshape(numpy.shape(expected)))
            self.assertLess(difference.max(), 1e-5, name)

    def test_whoever_dies_no_example_is_lost_or_counts_twice(self):
        run = self.start_run_to_kill_in()
        self.kill_a_process_of_the_user_and_a_worker()
        pid = task_of(self.wait_until(complete), "ps-0")["pid"]
        kill(pid)
        self.wait_until(lambda s: complete(s) and task_of(s, "ps-0")["pid"] != pid)
        self.haste.touch()
        self.assertEqual(run.finish()[0], 0, run.said)
        self.assertEqual(self.summary()["samplesCommitted"], HELD_EPOCHS * EXAMPLES)
        self.check_ledger()
        self.assertGreater(self.summary()["workersLost"], 0)

    def test_processes_that_the_code_started_keep_nobody_waiting(self):
        helpers = self.folder / "helpers"
        run = self.start_run_to_kill_in("""
        import multiprocessing, os, threading
        def help():
            with open(sys.argv[1], "a") as file:
                file.write(f"{os.getpid()}\\n")
            threading.Event().wait()
        multiprocessing.get_context("fork").Process(target=help, daemon=True).start()
        """, args=[helpers])
        self.kill_a_process_of_the_user_and_a_worker()
        self.haste.touch()
        self.assertEqual(run.finish()[0], 0, run.said)
        self.check_ledger()
        for helper in map(int, helpers.read_text().split()):
            wait_for_death(helper)  # that of the process which described the model, too

    def test_an_exception_is_told_with_its_words(self):
        self.write_package(DATA, """
        def broken(output, target):
            raise RuntimeError("the loss of " + str(tuple(output.shape)) + " has no meaning")
        calls = 0
        def loss(output, target):
            global calls
            calls += 1
            return broken(output, target) if calls > 1 else cross_entropy(output, target)
        downpour.fit(model, train=train, loss=loss, optimizer={"name": "sgd"}, epochs=2, batch_size=16)
        """)
        run = self.start_python_run()
        told = (r"the Python code: RuntimeError: the loss of \(16, 10\) has no meaning, at trainer/task.py:\d+, in "
                r"broken: raise RuntimeError.*; called from trainer/task.py:\d+, in loss; called from trainer/task.py")
        raised = lambda told_of: [f for f in told_of["failures"] if re.search(told, f["what"])]
        status = self.wait_until(raised)
        self.assertIn("handed on", raised(status)[0]["what"])
        code, out, _ = self.tool("status", "--job-dir", self.job_dir)
        self.assertRegex(out, rf"Failures: +{raised(status)[0]['task']}: .*{told}")
        self.assertEqual(code, 1, "degraded")
        self.assertEqual(run.finish()[0], 1, run.said)
        self.assertRegex(self.summary()["errorMessage"], told)
        self.assertEqual({f["task"] for f in raised(self.summary())}, {"worker-0", "worker-1"})
        self.assertGreater(self.summary()["workersLost"], 0)
        self.assertIn("RuntimeError", self.tool("logs", "--job-dir", self.job_dir)[1])

    def test_code_that_hangs_is_named_while_others_go_on(self):
        self.write_package(DATA, """
        import pathlib, threading
        def loss(output, target):
            try:
                pathlib.Path(sys.argv[1]).unlink()
            except FileNotFoundError:
                return cross_entropy(output, target)
            threading.Event().wait()
        downpour.fit(model, train=train, loss=loss, optimizer={"name": "sgd"}, epochs=10**6, batch_size=16)
        """)
        run = self.start_python_run(args=[self.folder / "hang"])
        begun = self.wait_until(lambda s: complete(s) and s["progress"]["leasesCommitted"] > 10)
        (self.folder / "hang").touch()
        named = lambda wait: "its Python code to compute step" in wait["for"] and "task.py" in wait["why"]
        status = self.wait_until(lambda s: any(map(named, s["waits"])))
        (wait,) = filter(named, status["waits"])
        self.assertRegex(wait["why"], r"in one call for \d+ s, at trainer/task.py:\d+, in loss: threading.Event")
        self.assertEqual(status["stalled"], "")
        self.assertGreater(status["progress"]["leasesCommitted"], begun["progress"]["leasesCommitted"])
        # The doctor names it later than the status does, once it is long for any code.
        named_so = f"{wait['task']} has waited for .* in loss: (?s:.*)see what it does: downpour logs"
        self.wait_until(lambda _: re.search(named_so, self.tool("doctor", "--job-dir", self.job_dir)[1]))
        kill(self.child_of(task_of(status, wait["task"])))
        self.wait_until(lambda s: complete(s) and not any(map(named, s["waits"])))
        run.signal(signal.SIGINT)
        run.finish()
        self.check_cancelled()

    def test_what_is_no_model_is_refused_before_anything_starts(self):
        self.write_package("print('done')\n")
        self.assertIn("downpour.fit", self.refused(78))
        (self.folder / "trainer/task.py").unlink()
        self.assertIn("trainer.task", self.refused(78))
        self.write_package("import nothing_of_this_name\n")
        self.assertIn("nothing_of_this_name", self.refused(78))
        self.write_package("raise ValueError('of the user')\n")
        self.assertIn("of the user", self.refused(1))
        for verb in ("check", "stage"):  # which say it with the same exit code
            more = ("--job-dir", self.job_dir) if verb == "stage" else ()
            code, _, err = self.tool(verb, self.job_file, *more, *self.code())
            self.assertEqual(code, 1, err)
            self.assertIn("of the user", err)
        code, _, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--module-name", "other.task",
                                 "--package-path", self.folder / "trainer")  # fmt: skip
        self.assertEqual(code, 78, err)
        self.assertIn("needs other/ or other.py", err)

    def test_a_worker_that_makes_another_model_is_refused_by_name(self):
        self.write_package(DATA, """
        import pathlib
        seen = pathlib.Path(sys.argv[1])
        width = 33 if seen.exists() else 32
        seen.touch()
        model = torch.nn.Linear(20, 10) if width == 32 else torch.nn.Linear(20, 11)
        downpour.fit(model, train=train, loss=cross_entropy, epochs=1, batch_size=16)
        """)
        run = self.start_python_run(args=[self.folder / "seen"])
        self.assertEqual(run.finish()[0], 1, run.said)
        self.assertRegex(self.summary()["errorMessage"], r"variable 0 is .*\[11,20\] here, and was .*\[10,20\] when")

    def test_a_host_that_has_something_else_is_told(self):
        self.write_package(DATA, """
        import pathlib
        seen = pathlib.Path(sys.argv[1])
        if seen.exists():
            exec(sys.argv[2])
        seen.touch()
        downpour.fit(model, train=train, loss=cross_entropy, epochs=1, batch_size=16)
        """)
        for number, (change, sentence) in enumerate([
            ("train = train.tensors[0][:900], train.tensors[1][:900]",
             "have 900 trainExamples here, and had 1000 when .*; every host with workers has to have the same data"),
            ("downpour.__version__ = '9.9'", 'is of version "9.9" here, this program of .*: install the one of this'),
            ("sys.exit(3)", "exit code 3 before it called downpour.fit; this worker's log says why"),
        ]):  # fmt: skip
            with self.subTest(change=change):
                self.job_dir = self.folder / f"job{number}"
                run = self.start_python_run(args=[self.folder / f"seen{number}", change])
                self.assertEqual(run.finish()[0], 1, run.said)
                self.assertRegex(self.summary()["errorMessage"], sentence)

    def test_a_python_without_the_package_is_told_how_to_get_it(self):
        self.write_package(DATA, FIT)
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=""):
            self.assertIn(f"{sys.executable} -m pip install", self.refused(78))

    def test_the_doctor_looks_at_the_code_and_a_job_of_it_is_scaled(self):
        self.write_package(DATA, FIT)
        code, out, err = self.tool("doctor", self.job_file, "--cluster=none", *self.code())
        self.assertEqual(code, 0, out + err)
        self.assertIn("train: 1,000 examples, which the Python code brings", out)
        run = self.start_python_run("--set", "training.epochs=1000000", "--set", "cluster.workerCount=1")
        self.wait_until(complete)
        code, out, err = self.tool("scale", "--workers", 2, "--job-dir", self.job_dir)
        self.assertEqual(code, 0, out + err)
        self.wait_until(lambda status: len([t for t in status["tasks"] if t["role"] == "worker"]) == 2)
        run.signal(signal.SIGINT)
        run.finish()
        self.write_package("raise SystemExit('no data here')\n")
        code, out, err = self.tool("doctor", self.job_file, "--cluster=none", *self.code())
        self.assertEqual(code, 1, out + err)
        self.assertRegex(out, "PROBLEM +code +the Python code makes no model here")
        self.assertIn("no data here", err)

    def test_gradients_that_are_no_numbers_change_nothing_and_are_told(self):
        self.write_package(DATA, "train.tensors[0][5] = float('nan')\n", FIT)
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        self.assertGreater(self.summary()["pushesSkipped"], 0)
        self.assertGreater(self.summary()["evalAccuracy"], 0.9, "the other batches trained it")
        self.write_package(DATA, "cross_entropy = lambda *given: float('nan') * given[0].mean()\n", FIT)
        self.job_dir = self.folder / "hopeless"
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 1, run.said)
        # By too many skipped pushes, or by an evaluation, whichever comes first.
        self.assertRegex(self.summary()["errorMessage"], "not finite.* try a lower")

    def test_what_the_job_file_says_beats_the_code(self):
        self.write_package(DATA, FIT, training={"epochs": 2})
        run = self.start_python_run("--set", "training.optimizer.learningRate=0.01")
        self.assertEqual(run.finish()[0], 0, run.said)
        job = json.loads((self.job_dir / "python/job.json").read_text())
        self.assertEqual((job["training"]["epochs"], job["training"]["batchSize"]), (2, 16))
        optimizer = job["training"]["optimizer"]
        self.assertEqual((optimizer["learningRate"], optimizer["momentum"]), (0.01, 0.9))

    def test_a_job_goes_on_where_it_was_stopped(self):
        self.write_package(DATA, FIT)
        run = self.start_python_run("--set", "training.epochs=1000000")
        self.wait_until(lambda status: status["progress"]["leasesCommitted"] > 20)
        run.signal(signal.SIGINT)
        run.finish()
        self.check_cancelled()
        self.assertIn("--module-name trainer.task", self.summary()["errorMessage"])
        begun = self.summary()["samplesCommitted"]
        run = self.start_python_run("--resume", "--set", "training.epochs=1000000")
        status = self.wait_until(complete)
        self.assertGreaterEqual(status["progress"]["examplesCommitted"], begun)
        run.signal(signal.SIGINT)
        run.finish()
        self.check_cancelled()


if __name__ == "__main__":
    unittest.main()

"""The rest of a user's program, behind fit(): it runs in one process, with the trained values, and ends the job."""

import importlib.util
import json
import os
import pathlib
import signal
import sys
import unittest

from cluster import ROOT, complete, kill, wait_for_death
from own_code import DATA, FIT, OwnCodeTest

sys.path.insert(0, str(ROOT / "python"))
from downpour.safetensors import read_safetensors  # noqa: E402

RETURNED = FIT.replace("downpour.fit(", "before = downpour.is_master()\nmodel, history = downpour.fit(", 1)
SAVE = """
import json, os, pathlib, sys
folder = pathlib.Path(sys.argv[-1])
with open(folder / "runs", "a") as file:
    print(os.getpid(), before, downpour.is_master(), file=file)
(folder / "history").write_text(json.dumps(history))
torch.save(model.state_dict(), folder / "model.pt")
print("saved behind fit")
"""
PLOT = """
import matplotlib.pyplot as plot
plot.plot([epoch["epoch"] for epoch in history], [epoch["loss"] for epoch in history])
plot.xlabel("epoch")
plot.savefig(folder / "loss.png")
"""
ONNX = """
model.eval()
torch.onnx.export(model, torch.zeros(1, 20), str(folder / "model.onnx"), input_names=["x"], output_names=["y"])
"""
# Until it is let go on.
WAIT = """
import threading
print("waits behind fit", flush=True)
while not (folder / "go").exists():
    threading.Event().wait(0.05)
"""


class PythonRestTest(OwnCodeTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.out.mkdir()

    def start(self, *parts, words=(), **changes):
        self.write_package(DATA, *parts, **changes)
        return self.start_python_run(*words, args=[str(self.out)])

    def runs(self):
        path = self.out / "runs"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def trained(self):
        """The newest values that the job has."""
        code, _, err = self.tool("export", "--job-dir", self.job_dir, "--out", self.folder / "model.safetensors")
        self.assertEqual(code, 0, err)
        return read_safetensors(self.folder / "model.safetensors")

    def saved(self):
        import torch

        return torch.load(self.out / "model.pt")

    def check_saved(self):
        saved = self.saved()
        for name, value in self.trained().items():
            self.assertTrue((saved[name].numpy() == value).all(), name)

    def log_of(self, task):
        return (self.job_dir / f"logs/{task}.log").read_text()

    def test_fit_returns_in_one_process_with_the_values_and_the_history(self):
        run = self.start(RETURNED, SAVE)
        self.assertEqual(run.finish()[0], 0, run.said)
        self.assertEqual(self.summary()["state"], "SUCCEEDED")
        self.assertEqual([line[1:] for line in self.runs()], [["True", "True"]])
        self.check_saved()
        history = json.loads((self.out / "history").read_text())
        epochs = [entry["epoch"] for entry in history]
        self.assertEqual((epochs, epochs[-1]), (sorted(set(epochs)), 4))  # two may be committed at once
        self.assertEqual(set(history[-1]), {"epoch", "loss", "evalLoss", "evalAccuracy", "top2"})
        self.assertAlmostEqual(history[-1]["evalLoss"], self.summary()["evalLoss"], places=6)
        self.assertIn("saved behind fit", self.log_of("worker-0"))

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "python3-matplotlib is not there")
    def test_a_plot_of_the_history(self):
        run = self.start(RETURNED, SAVE, PLOT)
        self.assertEqual(run.finish()[0], 0, run.said)
        self.assertEqual((self.out / "loss.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    @unittest.skipUnless(importlib.util.find_spec("onnx"), "python3-onnx is not there")
    def test_an_export_to_onnx_has_the_trained_values(self):
        run = self.start(RETURNED, SAVE, ONNX)
        self.assertEqual(run.finish()[0], 0, run.said)
        import onnx.numpy_helper

        exported = onnx.load(self.out / "model.onnx")
        onnx.checker.check_model(exported)
        values = {value.name: onnx.numpy_helper.to_array(value) for value in exported.graph.initializer}
        # The linear layer behind the batch norm is as it was; the one before it has the batch norm folded in.
        self.assertTrue((values["3.weight"] == self.trained()["3.weight"]).all())

    def test_the_task_that_runs_it_is_marked(self):
        run = self.start(RETURNED, SAVE, WAIT)
        status = self.wait_until(lambda _: len(self.runs()) == 1)
        self.assertEqual([task["name"] for task in status["tasks"] if task["master"]], ["worker-0"])
        self.assertRegex(self.tool("status", "--job-dir", self.job_dir)[1], r"worker-0 \(master\) +RUNNING")
        (self.out / "go").write_text("")
        self.assertEqual(run.finish()[0], 0, run.said)

    def test_what_it_raises_fails_the_job_and_resume_runs_the_rest_alone(self):
        fails = "\nif not (folder / 'go').exists():\n    raise ValueError('no room behind fit')\n"
        run = self.start(RETURNED, SAVE, fails)
        self.assertEqual(run.finish()[0], 1, run.said)
        summary = self.summary()
        self.assertEqual(summary["state"], "FAILED")
        self.assertRegex(summary["errorMessage"], r"ValueError: no room behind fit, at trainer/task.py:\d+")
        self.assertIn("Traceback", self.log_of("worker-0"))
        (self.out / "go").write_text("")
        again = self.start_python_run("--resume", args=[str(self.out)])
        self.assertEqual(again.finish()[0], 0, again.said)
        self.assertEqual(self.summary()["state"], "SUCCEEDED")
        self.assertEqual(len(self.runs()), 2)
        self.assertEqual(self.summary()["pushesApplied"], 0)
        self.check_saved()

    def test_what_removes_the_job_folder_is_told(self):
        run = self.start(RETURNED, f"import shutil\nshutil.rmtree({str(self.job_dir)!r})")
        code, said = run.finish()[0], run.said
        self.assertEqual(code, 1, said)
        self.assertIn("something removed that folder", "".join(said))

    def test_it_is_run_again_by_another_process_if_it_is_killed(self):
        run = self.start(RETURNED, SAVE, WAIT)
        self.wait_until(lambda _: len(self.runs()) == 1)
        child = int(self.runs()[0][0])
        kill(child)
        wait_for_death(child)
        self.wait_until(lambda _: len(self.runs()) == 2)
        (self.out / "go").write_text("")
        self.assertEqual(run.finish()[0], 0, run.said)
        self.assertEqual(self.summary()["state"], "SUCCEEDED")

    def test_a_chief_that_dies_repeats_nothing(self):
        run = self.start(RETURNED, SAVE, WAIT)
        self.wait_until(lambda _: len(self.runs()) == 1)
        chief = lambda: json.loads((self.job_dir / "chief.json").read_text())  # noqa: E731
        before = chief()
        kill(before["pid"])
        self.wait_until(lambda s: chief()["term"] > before["term"] and complete(s))
        (self.out / "go").write_text("")
        self.assertEqual(run.finish()[0], 0, run.said)
        self.assertEqual(self.summary()["state"], "SUCCEEDED")
        self.assertEqual(len(self.runs()), 1)

    def test_a_later_chief_hears_of_an_end_before_it_though_the_program_cannot_begin_again(self):
        once = """
        import pathlib, sys, threading
        if (pathlib.Path(sys.argv[-1]) / "runs").exists():
            threading.Event().wait()
        """
        run = self.start(once, RETURNED, SAVE, WAIT)
        self.wait_until(lambda _: len(self.runs()) == 1)
        chief = json.loads((self.job_dir / "chief.json").read_text())["pid"]
        kill(chief, signal.SIGSTOP)
        (self.out / "go").write_text("")
        wait_for_death(int(self.runs()[0][0]))
        kill(chief)
        self.assertEqual(run.finish()[0], 0, run.said)
        summary = self.summary()
        self.assertEqual((summary["state"], len(self.runs())), ("SUCCEEDED", 1))
        self.assertIn("evalLoss", summary)

    def test_exit_codes_are_the_jobs(self):
        for ends, code in (("os._exit(0)", 0), ("sys.exit()", 0), ("sys.exit(3)", 1), ("os._exit(4)", 1),
                           ("os.abort()", 1), ("os.closerange(3, 64)", 0)):  # fmt: skip
            with self.subTest(ends):
                self.job_dir = self.folder / f"job-{code}-{abs(hash(ends))}"
                run = self.start(RETURNED, SAVE, f"\n{ends}\n", words=["--set", "training.epochs=1"])
                self.assertEqual(run.finish()[0], code, run.said)

    def test_early_stopping_returns_the_best_values(self):
        stop = {"evaluateEveryEpochs": 1, "stopEarly": {"metric": "loss", "patience": 1}}
        run = self.start(RETURNED, SAVE, words=["--set", "training.epochs=60"], training=stop)
        self.assertEqual(run.finish()[0], 0, run.said)
        best = self.summary()["bestCheckpoint"]["round"]
        code, _, err = self.tool("export", "--job-dir", self.job_dir, "--checkpoint", best, "--out",
                                 self.folder / "best.safetensors")  # fmt: skip
        self.assertEqual(code, 0, err)
        saved = self.saved()
        for name, value in read_safetensors(self.folder / "best.safetensors").items():
            self.assertTrue((saved[name].numpy() == value).all(), name)

    def test_a_loop_of_the_users_own_ends_too_and_arrays_are_its_own_again(self):
        run = self.start("""
            import numpy, pathlib, sys
            model = {"w": numpy.zeros(3, numpy.float32)}
            x = numpy.arange(30, dtype=numpy.float32).reshape(10, 3) / 30
            y = x @ numpy.array([1, 2, 3], numpy.float32)
            loop = downpour.steps((x, y), batch_size=5, epochs=20, optimizer={"name": "sgd", "learningRate": 0.1})
            for count, (x, y) in enumerate(loop):
                if count > 0:  # the first batch is a probe, of the arrays as they were given
                    try:
                        model["w"].flags.writeable = True
                        sys.exit("a parameter can be written")
                    except ValueError:
                        pass
                error = x @ model["w"] - y
                downpour.push(model, loss=float((error**2).mean()), gradients={"w": 2 * x.T @ error / len(y)})
            trained = model["w"].copy()
            model["w"] += 1
            last = loop.history[-1]["epoch"]
            numpy.savez(pathlib.Path(sys.argv[-1]) / "w.npz", w=trained, more=model["w"], epochs=last)
            """)
        self.assertEqual(run.finish()[0], 0, run.said)
        import numpy

        with numpy.load(self.out / "w.npz") as saved:
            self.assertTrue((saved["w"] == self.trained()["w"]).all())
            self.assertTrue((saved["more"] == saved["w"] + 1).all())
            self.assertEqual(saved["epochs"], 20)

    def test_a_stop_ends_it(self):
        run = self.start(RETURNED, SAVE, WAIT)
        self.wait_until(lambda _: len(self.runs()) == 1)
        child = int(self.runs()[0][0])
        run.signal(signal.SIGINT)
        run.finish()
        wait_for_death(child)
        self.assertEqual(self.summary()["state"], "CANCELLED")


if __name__ == "__main__":
    unittest.main()

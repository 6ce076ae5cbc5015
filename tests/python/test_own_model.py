"""Models of Python code as jobs of the real tool: they learn, and what they learned comes back."""

import os
import subprocess
import sys
import unittest
import unittest.mock

from package import is_there  # first: it says where the others are
from wheels import write_wheel

import downpour
from cluster import TOOL
from own_job import SAMPLES, TRAINED, OwnJobTest

TORCH = is_there("torch")


@unittest.skipUnless(is_there("numpy"), "python3-numpy is not there")
class OwnModelTest(OwnJobTest):
    def test_numpy(self):
        job, summary = self.train("numpy_linear", **{"training.epochs": 4})
        self.assertEqual(summary["examples"], 4 * 4000)
        self.assertLess(summary["evalLoss"], 0.02)  # the noise has 0.01
        values = job.state_dict()
        self.assertEqual({name: value.shape for name, value in values.items()}, {"weight": (10,), "bias": ()})
        self.assertLess(abs(values["weight"] - range(10)).max(), 0.05)
        self.assertLess(abs(values["bias"] - 3), 0.05)

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_batch_norm(self):
        import torch

        job, summary = self.train("batch_norm")
        self.assertGreater(summary["evalAccuracy"], 0.6)
        given = {}
        sys.path.insert(0, str(SAMPLES / "batch_norm"))
        self.addCleanup(sys.path.remove, str(SAMPLES / "batch_norm"))
        from trainer import task

        with unittest.mock.patch.object(downpour, "fit", lambda model, **options: given.update(options, model=model)):
            task.main()
        model, judged = given["model"].eval(), given["eval"]
        job.load_state_dict(model)
        images, labels = zip(*(judged[number] for number in range(len(judged))))
        with torch.no_grad():
            right = (model(torch.stack(images)).argmax(1) == torch.tensor(labels)).float().mean()
        self.assertAlmostEqual(float(right), summary["evalAccuracy"], delta=0.005)

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_resnet20(self):
        _, summary = self.train("resnet20", "--examples", "640", **{"training.epochs": 6})
        self.assertEqual(summary["examples"], 6 * 640)
        self.assertGreater(summary["evalAccuracy"], 0.3)  # chance has 0.1

    @unittest.skipUnless(is_there("pip"), "python3-pip is not there")
    def test_packages_and_another_python(self):
        own, wheels = self.folder / "own", self.folder / "wheels, ours"
        wheels.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", own], check=True)
        (packages,) = own.glob("lib/python*/site-packages")
        (packages / "of_this_python.py").write_text("WORD = 'own'\n")
        task = "import of_this_python, further\nprint('runs', of_this_python.WORD, further.VERSION)\n"
        task += (SAMPLES / "numpy_linear/trainer/task.py").read_text()
        given = [write_wheel(wheels, "trainer", "1.0", {"trainer/__init__.py": "", "trainer/task.py": task}),
                 write_wheel(wheels, "further", "2.0")]  # fmt: skip
        ours = {"XDG_CACHE_HOME": str(self.folder / "cache"), "PIP_NO_INDEX": "1"}
        with unittest.mock.patch.dict(os.environ, ours):
            job = downpour.run(
                self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="trainer.task", packages=given,
                python=own / "bin/python", set={"training.epochs": 1},
            )  # fmt: skip
            self.addCleanup(job.cancel)
            self.assertEqual(job.wait(TRAINED)["examples"], 4000)
        # A job this short may be over before one of the two has work.
        self.assertIn("runs own 2.0", job.logs("worker-0") + job.logs("worker-1"))

    def test_an_accuracy_of_its_own_decides_when_to_stop(self):
        (self.folder / "task.py").write_text("""
import downpour, numpy
x = numpy.arange(-40, 40, dtype=numpy.float32) + 0.5
def step(values, batch):
    (found,), error = batch, values["bias"] * 0.01
    return error, {"bias": numpy.float32(0.01)}, found, found
downpour.fit({"bias": numpy.zeros((), numpy.float32)}, train=(x,), eval=(x,), step=step, epochs=30, batch_size=7,
             optimizer={"name": "sgd"}, metrics={"accuracy": lambda output, target: output > 10})
""")
        job = downpour.run(
            self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="task", package=self.folder,
            set={"training.stopEarly": "{metric: accuracy, patience: 2}"},
        )  # fmt: skip
        self.addCleanup(job.cancel)
        summary = job.wait(TRAINED)
        self.assertEqual(summary["evalMetrics"], {"accuracy": 30 / 80})
        self.assertIn("2 evaluations brought no better accuracy", summary["stoppedEarly"])

    def test_code_without_a_module_is_refused(self):
        for code in ({"package": self.folder}, {"packages": ["a.whl"]}, {"args": ["--x"]}):
            with self.subTest(code), self.assertRaisesRegex(downpour.ToolError, "has no meaning here") as raised:
                downpour.run(self.folder / "job.yaml", self.folder / "job", tool=TOOL, **code)
            self.assertEqual(raised.exception.exit_code, 2)

    def test_code_that_is_wrong_is_told_at_submission(self):
        (self.folder / "task.py").write_text("import downpour\ndowndour.fit()")
        with self.assertRaisesRegex(downpour.ToolError, "NameError: name 'downdour' is not defined"):
            downpour.run(self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="task", package=self.folder)


if __name__ == "__main__":
    unittest.main()

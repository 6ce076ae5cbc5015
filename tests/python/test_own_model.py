"""Models of Python code as jobs of the real tool: they learn, and what they learned comes back."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from package import PACKAGE, ROOT, is_there  # first: it says where the others are

import downpour
from cluster import LONG, TOOL

TORCH = is_there("torch")
SAMPLES = ROOT / "deploy/python"
JOB = "name: own\ncluster: {workerCount: 2, parameterServerCount: 2}\n"
HELP = subprocess.run([TOOL, "run", "--help"], capture_output=True, text=True).stdout


@unittest.skipUnless("--module-name" in HELP, "this tool runs no Python code")
@unittest.skipUnless(is_there("numpy"), "python3-numpy is not there")
class OwnModelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "job.yaml").write_text(JOB)
        saved = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(PACKAGE)
        self.addCleanup(lambda: os.environ.update(PYTHONPATH=saved) if saved else os.environ.pop("PYTHONPATH"))

    def train(self, sample, **settings):
        job = downpour.run(
            self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="trainer.task", package=SAMPLES / sample,
            set=settings,
        )
        self.addCleanup(job.cancel)
        return job, job.wait(LONG)

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

    def test_code_that_is_wrong_is_told_at_submission(self):
        (self.folder / "task.py").write_text("import downpour\ndowndour.fit()")
        with self.assertRaisesRegex(downpour.ToolError, "NameError: name 'downdour' is not defined"):
            downpour.run(self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="task", package=self.folder)


if __name__ == "__main__":
    unittest.main()

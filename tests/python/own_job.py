"""What tests of models as jobs share: a sample of deploy/python, trained by the real tool."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from package import PACKAGE, ROOT  # first: it says where the others are

import downpour
from cluster import LONG, TOOL

SAMPLES = ROOT / "deploy/python"
JOB = "name: own\ncluster: {workerCount: 2, parameterServerCount: 2}\n"
TRAINED = 4 * LONG  # seconds, in which any of them is: a model may take minutes where much else runs
HELP = subprocess.run([TOOL, "run", "--help"], capture_output=True, text=True).stdout


@unittest.skipUnless("--module-name" in HELP, "this tool runs no Python code")
class OwnJobTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "job.yaml").write_text(JOB)
        saved = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(PACKAGE)
        self.addCleanup(lambda: os.environ.update(PYTHONPATH=saved) if saved else os.environ.pop("PYTHONPATH"))

    def train(self, sample, *args, **settings):
        job = downpour.run(
            self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="trainer.task", package=SAMPLES / sample,
            args=args, set=settings,
        )  # fmt: skip
        self.addCleanup(job.cancel)
        return job, job.wait(TRAINED)

"""deploy/cluster with Python code of the user's own, which workers' hosts do not see."""

import json
import os
import shutil
import signal
import struct
import subprocess
import unittest
import unittest.mock

from cluster import ROOT, complete, kill
from ssh_hosts import SSHD, SshHostsTest

PYTHON = "/usr/bin/python3"
HAS_NUMPY = subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode == 0
# Each step takes a second until there was a kill, so that the job outlasts it on any machine: two minutes at least.
NUMPY_TASK = """
import os, pathlib, sys, threading
import numpy
import downpour
here = pathlib.Path(__file__).resolve().parent
print("runs in", here, sys.argv[1:], (here / "words.txt").read_text())
values = dict(weight=numpy.zeros(8, numpy.float32))
def step(model, batch):
    if not os.path.exists({mark!r}):
        threading.Event().wait(1)
    return 0.5, dict(weight=numpy.ones(8, numpy.float32))
downpour.fit(values, train=numpy.zeros((2000, 1)), step=step, epochs=2, batch_size=10)
"""


@unittest.skipUnless(SSHD and shutil.which("ssh"), "sshd or ssh is not there: clusters are not brought up")
class PythonOnHostsTest(SshHostsTest):
    @unittest.skipUnless(HAS_NUMPY, "there is no python3-numpy: Python code cannot run")
    def test_python_code_reaches_hosts_that_do_not_see_it(self):
        package, mark = self.folder / "only here" / "trainer", self.folder / "killed"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "words.txt").write_text("not code, but needed")
        (package / "task.py").write_text(NUMPY_TASK.format(mark=str(mark)))
        self.job_file.write_text(json.dumps({"name": "own", "cluster": {"workerCount": 3, "parameterServerCount": 2},
                                             "checkpoint": {"every": "1h"}}))  # fmt: skip
        # Values of the user's own, which only the chief's host needs.
        header = json.dumps({"weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}).encode()
        begin = self.folder / "begin.safetensors"
        begin.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<8f", *[5] * 8))
        code = ("--module-name", "trainer.task", "--package-path", package, "--python", PYTHON,
                "--set", f"model.initializeFrom={begin}")  # fmt: skip
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=str(ROOT / "python")):
            code, out, err = self.up(*code, "--", "--scale", "2")
        self.assertEqual(code, 0, err)
        shutil.rmtree(package)
        self.job_dir = self.folder / "h0/run"
        self.wait_until(complete)  # each has said where it runs
        kill(self.tasks()["worker-0"], signal.SIGKILL)  # the others go on
        mark.touch()
        self.wait_until(lambda s: s["state"] == "SUCCEEDED")
        self.assertIn("each exactly once", self.tool("ledger", "--job-dir", self.job_dir)[1])
        files = [file for file in (self.folder / "h0").rglob("chief*") if file.is_file()]
        said = "".join(file.read_text(errors="replace") for file in files)
        self.assertIn(f"initial values: 1 variable from {begin}", said)
        for host in ("h1", "h2"):
            for file in (self.folder / host / "logs").glob("worker-*.out"):
                said = rf"runs in {self.folder}/{host}/code/\w+/trainer \['--scale', '2'\] not code, but needed"
                self.assertRegex(file.read_text(), said)

    def test_code_without_a_module_is_refused(self):
        self.write_job()
        for words in (("--package-path", self.folder), ("--packages", self.folder / "a.whl")):
            code, _, err = self.up(*words)
            self.assertEqual(code, 2, err)
            self.assertIn(f"{words[0]} has no meaning here: it goes with the Python module that --module-name", err)


if __name__ == "__main__":
    unittest.main()

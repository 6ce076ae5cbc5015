"""A short run of tools/dev/chaos with workers of Python code: each kind of process is killed, and nothing is lost."""

import importlib.util
import os
import re
import subprocess
import sys
import unittest

from cluster import BUILD, LONG, ROOT, ProcessTest

HAS_TORCH = importlib.util.find_spec("torch") is not None
KILLS = 6
# Two workers hold back until there were enough kills, so that the job outlasts them. Three minutes at least.
TASK = """
import os, threading
import torch, downpour
torch.manual_seed(7)
inputs = torch.randn(2000, 20)
labels = (inputs.sum(1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

def loss(output, target):
    if not os.path.exists({mark!r}):
        threading.Event().wait(0.1)
    return torch.nn.functional.cross_entropy(output, target)

downpour.fit(model, train=(inputs, labels), loss=loss, epochs=40, batch_size=20,
             optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
"""


@unittest.skipUnless(HAS_TORCH, "there is no torch for this Python")
class ChaosPythonTest(ProcessTest):
    def test_kills_of_every_kind_lose_nothing(self):
        package, mark = self.folder / "trainer", self.folder / "enough"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "task.py").write_text(TASK.format(mark=str(mark)))
        chaos = [sys.executable, ROOT / "tools/dev/chaos", BUILD, "--kills", KILLS, "--seed", 1]
        words = ["--package-path", package, "--mark", mark, "--set", "checkpoint.every=1s"]
        environment = {**os.environ, "DOWNPOUR_PYTHON": sys.executable}
        done = subprocess.run([str(word) for word in chaos + words], capture_output=True, text=True, env=environment,
                              timeout=4 * LONG)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        kills = re.search(r"kills (\d+) \(ps (\d+) chief (\d+) worker (\d+) python (\d+)\): SUCCEEDED", done.stdout)
        self.assertIsNotNone(kills, done.stdout)
        total, *each = map(int, kills.groups())
        self.assertEqual((total, sum(each)), (KILLS, KILLS))
        self.assertGreaterEqual(min(each), 1, "each kind was killed")
        self.assertIn("80000 of 80000 samples", done.stdout)


if __name__ == "__main__":
    unittest.main()

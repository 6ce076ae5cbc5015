"""What tests of the user's own PyTorch code are made of. PyTorch is Debian's python3-torch."""

import importlib.util
import json
import os
import sys
import textwrap
import unittest

from cluster import ROOT, TOOL, Process, ProcessTest

os.environ["PYTHONPATH"] = str(ROOT / "python")
os.environ["DOWNPOUR_PYTHON"] = sys.executable
HAS_TORCH = importlib.util.find_spec("torch") is not None
EXAMPLES, EVAL_EXAMPLES = 1000, 200

# Classes around patterns of their own; `task` puts what it does with them below.
DATA = f"""
import random, sys
import torch
import downpour

torch.manual_seed(7)
patterns = torch.randn(10, 20)
def draw(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    return torch.utils.data.TensorDataset(patterns[labels] + torch.randn(count, 20, generator=generator), labels)
train, evaluation = draw({EXAMPLES}, 1), draw({EVAL_EXAMPLES}, 2)
cross_entropy = torch.nn.functional.cross_entropy
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
"""
FIT = """
def top2(output, target):
    return (output.topk(2).indices == target[:, None]).any(1).float().mean()

print("built from", sys.argv[1:])
downpour.fit(model, train=train, eval=evaluation, loss=cross_entropy, metrics={"top2": top2}, epochs=4, batch_size=16,
             optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
"""


@unittest.skipUnless(HAS_TORCH, "there is no torch for this Python")
class OwnCodeTest(ProcessTest):
    def write_package(self, *parts, **changes):
        package = self.folder / "trainer"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "task.py").write_text("".join(map(textwrap.dedent, parts)))
        self.job = {"name": "own", "cluster": {"workerCount": 2, "parameterServerCount": 2},
                    "checkpoint": {"every": "200ms"}} | changes  # fmt: skip
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(self.job))

    def code(self, *args):
        return ["--package-path", self.folder / "trainer", "--module-name", "trainer.task", *args]

    def start_python_run(self, *words, args=()):
        more = ["--", *args] if args else []
        command = [TOOL, "run", self.job_file, "--job-dir", self.job_dir, "--trace", *words, *self.code(*more)]
        run = Process(self, command)
        run.wait_for_line("chief at ")
        return run

    def refused(self, code, *words):
        """What a run that ends before anything was started says last."""
        run = Process(self, [TOOL, "run", self.job_file, "--job-dir", self.job_dir, *self.code(*words)])
        self.assertEqual(run.finish()[0], code, run.said)
        self.assertFalse((self.job_dir / "chief.json").exists(), "nothing was started")
        return run.said

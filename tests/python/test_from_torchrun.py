"""docs/FROM_OTHER_FRAMEWORKS.md: the programs of PyTorch, before and after."""

import json
import subprocess
import sys
import unittest

from package import PACKAGE, is_there  # first: it says where the others are

if is_there("torch"):
    from programs_of_page import CHANCE, PageTest, programs
    from worker import COMMAND, LONG, ChildTest
else:
    PageTest = ChildTest = unittest.TestCase

OF_DDP = "torchrun and DistributedDataParallel"


@unittest.skipUnless(is_there("torch"), "python3-torch is not there")
class TorchrunPageTest(PageTest):
    def test_ddp_is_refused_with_the_line_to_write(self):
        before = programs(OF_DDP)[0]
        line = r"init_process_group would wait for ever in a job: .* downpour\.fit\(model, train=dataset"
        self.is_refused(before, line)

    def test_ddp_as_fit_and_as_a_loop(self):
        import torch

        _, *after = programs(OF_DDP)
        self.assertEqual(len(after), 2)
        for number, program in enumerate(after):
            summary = self.trains(program, number)
            saved = torch.load(self.folder / "model.pt")
            self.assertEqual(sorted(saved), ["0.bias", "0.weight", "3.bias", "3.weight"])
            (self.folder / "model.pt").unlink()
            if number == 0:  # a loop of one's own has no evaluation here
                self.assertGreater(summary["evalAccuracy"], 5 * CHANCE)

    def test_it_trains_by_itself_too(self):
        self.write(programs(OF_DDP)[1])
        done = subprocess.run([sys.executable, "-m", "trainer.task", "--job-dir", str(self.folder)], cwd=self.folder,
                              env={"PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"}, capture_output=True,
                              text=True, timeout=LONG)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "model.pt").exists())


@unittest.skipUnless(is_there("torch"), "python3-torch is not there")
class RendezvousTest(ChildTest):
    """Which of PyTorch's meetings are refused as they begin, and which are let through."""

    def described(self, code, **environment):
        (self.folder / "task.py").write_text(
            "import torch\nimport torch.distributed as dist\n"
            f"{code}\nimport downpour, numpy\n"
            "downpour.fit({'w': numpy.zeros(1, numpy.float32)}, train=[numpy.float32(1)] * 4, "
            "step=lambda v, b: (0.0, {}), epochs=1, batch_size=2)\n")  # fmt: skip
        words = ["describe", "--out", str(self.folder), "--package", str(self.folder), "--module", "task"]
        return subprocess.run([*COMMAND, *words], env=self.environment | environment, capture_output=True, text=True,
                              timeout=LONG)  # fmt: skip

    def test_what_waits_for_others_is_refused(self):
        several = f"init_method='file://{self.folder}/meet', world_size=2, rank=0"
        begin = "from torch.distributed import init_process_group as begin\n"
        rpc = "import torch.distributed.rpc as rpc\nrpc.init_rpc('worker0', rank=0, world_size=2)"
        for code in ("dist.init_process_group('gloo')", f"dist.init_process_group('gloo', {several})",
                     "dist.init_process_group('gloo', 'tcp://10.255.255.1:29500?rank=0&world_size=2')",
                     f"{begin}begin(backend='gloo', rank=1, world_size=4)", rpc):  # fmt: skip
            with self.subTest(code):
                done = self.described(code)
                self.assertEqual(done.returncode, 78, done.stderr)
                last = done.stderr.splitlines()[-1]
                known_as = "torch.distributed." + ("rpc.init_rpc" if code == rpc else "init_process_group")
                self.assertIn(f"downpour: {known_as} would wait for ever in a job: ", last)
        done = self.described("dist.init_process_group('gloo')", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                              MASTER_PORT="1")  # fmt: skip
        self.assertEqual(done.returncode, 78, done.stderr)

    def test_one_process_meets_itself(self):
        alone = f"init_method='file://{self.folder}/meet'"
        for code in (f"dist.init_process_group('gloo', {alone}, world_size=1, rank=0)", ""):
            with self.subTest(code):
                done = self.described(code)
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads((self.folder / "description.json").read_text())["trainExamples"], 4)


if __name__ == "__main__":
    unittest.main()

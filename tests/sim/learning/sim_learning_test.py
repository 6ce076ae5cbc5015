"""sim_learning on a small data set: it learns with one worker and with many, and each draw gives one history.

    sim_learning_test.py SIM_LEARNING
"""

import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()

JOB = """
name: quarters
cluster: {scaleTier: CUSTOM, workerCount: 1, parameterServerCount: 2}
model:
  inputs: [{name: image, shape: [8, 8]}]
  layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 4}}]
  loss: softmaxCrossEntropy
training: {batchSize: 16, leaseBatches: 2, epochs: 8, optimizer: {name: momentum, learningRate: 0.05, momentum: 0.9}}
data:
  format: idx
  train: {images: train-images, labels: train-labels}
  eval: {images: eval-images, labels: eval-labels}
"""


def write_quarters(folder, name, count, draw):
    """Images of 8 x 8, of which one quarter is bright: its number is the label."""
    labels = [draw.randrange(4) for _ in range(count)]
    pixels = bytearray()
    for label in labels:
        for row in range(8):
            for column in range(8):
                bright = 128 if label == row // 4 * 2 + column // 4 else 0
                pixels.append(bright + draw.randrange(100))
    (folder / f"{name}-images").write_bytes(struct.pack(">IIII", 2051, count, 8, 8) + pixels)
    (folder / f"{name}-labels").write_bytes(struct.pack(">II", 2049, count) + bytes(labels))


class SimLearningTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        here = pathlib.Path(self.folder.name)
        draw = random.Random(1)
        write_quarters(here, "train", 1024, draw)
        write_quarters(here, "eval", 256, draw)
        self.job = here / "job.yaml"
        self.job.write_text(JOB)

    def run_it(self, *words, check=True):
        done = subprocess.run([PROGRAM, self.job, *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode == 0, check, done.stderr)
        return json.loads(done.stdout) if check else done.stderr

    def test_one_worker_is_never_stale(self):
        summary = self.run_it()
        self.assertEqual(summary["state"], "SUCCEEDED")
        self.assertEqual(summary["staleness"]["max"], 0)
        self.assertEqual(summary["samplesCommitted"], 8 * 1024)

    def test_many_workers_are_as_stale_as_they_are_many(self):
        summary = self.run_it("--set", "cluster.workerCount=8")
        self.assertGreater(summary["staleness"]["mean"], 4)
        self.assertLess(summary["staleness"]["mean"], 8)
        self.assertGreater(summary["evalAccuracy"], 0.9)
        undamped = self.run_it("--set", "cluster.workerCount=8", "--set", "training.staleness.method=none")
        self.assertLess(undamped["evalAccuracy"], 0.7, "or it does not matter here how stale gradients are")

    def test_workers_in_step_are_one_with_all_their_examples(self):
        whole = {"batchSize": 1024, "leaseBatches": 1}
        split = {"batchSize": 128, "leaseBatches": 1, "consistency": "sync"}
        losses = [self.run_it(*words, *(f"--set=training.{key}={value}" for key, value in training.items()))["evalLoss"]
                  for training, words in ((whole, ()), (split, ("--set=cluster.workerCount=8",)),
                                          (whole, ("--set=training.optimizer.learningRate=0.1",)))]  # fmt: skip
        self.assertAlmostEqual(losses[1], losses[0], places=5)
        self.assertGreater(abs(losses[2] - losses[0]), 0.1, "or it does not matter here how much a gradient counts")

    def test_a_draw_gives_one_history(self):
        words = ("--set", "cluster.workerCount=4")
        first = self.run_it(*words)
        self.assertEqual(first, self.run_it(*words))
        self.assertNotEqual(first, self.run_it(*words, "--draw", "2"))

    def test_rounded_gradients_are_refused(self):
        self.assertIn("bf16", self.run_it("--set", "training.wire=bf16", check=False))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)

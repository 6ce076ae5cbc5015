"""The samples of deploy/python: each trains by itself and is described."""

import json
import math
import struct
import unittest

from package import ROOT, is_there  # first: it says where the others are

if is_there("numpy"):
    import numpy
    from worker import ChildTest
else:
    ChildTest = unittest.TestCase

SAMPLES = ROOT / "deploy/python"


@unittest.skipUnless(is_there("numpy"), "python3-numpy is not there")
class SampleTest(ChildTest):
    def described(self, sample, *arguments):
        words = ["describe", "--out", str(self.folder), "--package", str(SAMPLES / sample), "--module", "trainer.task"]
        code, _, err = self.ended("downpour.child", [*words, "--", *arguments])
        self.assertEqual(code, 0, err)
        return json.loads((self.folder / "description.json").read_text())

    def write_idx(self, name, numbers):
        shape = struct.pack(f">{numbers.ndim}I", *numbers.shape)
        (self.folder / name).write_bytes(bytes([0, 0, 8, numbers.ndim]) + shape + numbers.tobytes())

    @unittest.skipUnless(is_there("torch"), "python3-torch is not there")
    def test_mnist_cnn(self):
        draws = numpy.random.default_rng(1)
        for part, count in (("train", 70), ("t10k", 20)):
            self.write_idx(f"{part}-images-idx3-ubyte", draws.integers(256, size=(count, 28, 28), dtype=numpy.uint8))
            self.write_idx(f"{part}-labels-idx1-ubyte", draws.integers(10, size=count, dtype=numpy.uint8))
        description = self.described("mnist_cnn", "--data", str(self.folder))
        numbers = [description[name] for name in ("trainExamples", "evalExamples", "classes")]
        self.assertEqual(numbers, [70, 20, 10])
        self.assertEqual(description["settings"]["training.optimizer"]["name"], "momentum")

    @unittest.skipUnless(is_there("torch"), "python3-torch is not there")
    def test_batch_norm(self):
        description = self.described("batch_norm")
        statistics = [v["name"] for v in description["variables"] if not v["trainable"]]
        self.assertEqual(len(statistics), 14)
        optimizer = description["settings"]["training.optimizer"]
        self.assertEqual((optimizer["name"], optimizer["weightDecay"]), ("adamw", 0))
        self.assertEqual({override["weightDecay"] for override in optimizer["overrides"]}, {0.01})
        self.assertEqual(len(optimizer["overrides"]), 10)
        self.assertEqual(description["metrics"], [{"name": "crosses", "kind": "mean"}])

    @unittest.skipUnless(is_there("torch"), "python3-torch is not there")
    def test_resnet20(self):
        description = self.described("resnet20", "--examples", "64")
        count = {True: 0, False: 0}
        for variable in description["variables"]:
            count[variable["trainable"]] += math.prod(variable["shape"])
        self.assertEqual(count[True], 269_722)  # the paper has 0.27 million
        self.assertEqual(count[False], 2 * (7 * 16 + 6 * 32 + 6 * 64))  # a mean and a variance for each map
        self.assertEqual((description["classes"], description["trainExamples"]), (10, 64))

    @unittest.skipUnless(is_there("torch"), "python3-torch is not there")
    def test_recommender(self):
        description = self.described("recommender", "--examples", "2000", "--hint")
        widths = {table["name"]: table["width"] for table in description["tables"]}
        self.assertEqual(widths, {"users": 8, "films": 8, "words": 8, "user_offsets": 1, "film_offsets": 1})
        self.assertTrue(description["knowsKeys"])
        self.folder = SAMPLES / "recommender"
        said = self.alone("--examples", "20000", module="trainer.task").splitlines()
        self.assertLess(float(said[-1].split("evalLoss ")[1]), 0.5)  # the mean alone has more than 0.8

    def test_numpy_linear(self):
        self.assertEqual(self.described("numpy_linear")["trainExamples"], 4000)
        self.folder = SAMPLES / "numpy_linear"
        said = self.alone(module="trainer.task").splitlines()
        self.assertEqual(len(said), 3)
        self.assertLess(float(said[-1].split("evalLoss ")[1]), 0.011)  # the noise has 0.01


if __name__ == "__main__":
    unittest.main()

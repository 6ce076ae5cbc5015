"""Samples of deploy/python that need what Debian has not: Keras on small files of MNIST and CIFAR-10, and a BERT."""

import importlib.util
import os
import pathlib
import pickle
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

KERAS = importlib.util.find_spec("keras") is not None
TRANSFORMERS = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
if KERAS or TRANSFORMERS:
    import numpy
    from own_job import OwnJobTest
else:
    OwnJobTest = unittest.TestCase

TRAIN, EVAL = 600, 200
ABSENT = "is not there: tools/dev/keras_environment makes a Python that has it"


def draw(count, seed, shape):
    """(images [count, *shape] of bytes, labels): a class is where the image is bright."""
    draws = numpy.random.default_rng(seed)
    labels = draws.integers(10, size=count, dtype=numpy.uint8)
    images = draws.integers(100, size=(count, *shape), dtype=numpy.uint8)
    for image, label in zip(images, labels):
        row, column = 6 * (label // 4), 6 * (label % 4)
        image[..., row : row + 8, column : column + 8] += 150
    return images, labels


class KerasSamplesTest(OwnJobTest):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()

    def write_mnist(self):
        for part, count in (("train", TRAIN), ("t10k", EVAL)):
            images, labels = draw(count, len(part), (28, 28))
            for kind, numbers in (("images", images), ("labels", labels)):
                shape = struct.pack(f">{numbers.ndim}I", *numbers.shape)
                head = bytes([0, 0, 8, numbers.ndim]) + shape
                (self.data / f"{part}-{kind}-idx{numbers.ndim}-ubyte").write_bytes(head + numbers.tobytes())

    def write_cifar(self, write):
        parts = [(f"data_batch_{number}", TRAIN // 5, number) for number in range(1, 6)] + [("test_batch", EVAL, 6)]
        for name, count, seed in parts:
            images, labels = draw(count, seed, (3, 32, 32))
            write(self.data / name, images.reshape(count, -1), labels)

    def learns(self, sample, *args, **settings):
        _, summary = self.train(sample, *args, **settings)
        self.assertGreater(summary["evalAccuracy"], 0.8)  # chance has 0.1, or 0.5 of the BERT

    @unittest.skipUnless(KERAS, f"Keras {ABSENT}")
    def test_keras_on_mnist(self):
        self.write_mnist()
        self.learns("keras_cnn", "--data", str(self.data))

    @unittest.skipUnless(KERAS, f"Keras {ABSENT}")
    def test_keras_on_the_binary_version_of_cifar_10(self):
        def write(path, images, labels):
            path.with_suffix(".bin").write_bytes(numpy.column_stack([labels, images]).tobytes())

        self.write_cifar(write)
        self.learns("keras_cnn", "--data", str(self.data))

    @unittest.skipUnless(KERAS, f"Keras {ABSENT}")
    def test_keras_on_the_python_version_of_cifar_10(self):
        def write(path, images, labels):
            path.write_bytes(pickle.dumps({b"data": images, b"labels": labels.tolist()}, protocol=2))

        self.write_cifar(write)
        self.learns("keras_cnn", "--data", str(self.data))

    @unittest.skipUnless(TRANSFORMERS, f"transformers {ABSENT}")
    def test_bert(self):
        self.learns("bert")


if __name__ == "__main__":
    other = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", "build")) / "keras/bin/python3"
    if not KERAS and other.exists():
        os.execv(other, [str(other), *sys.argv])
    unittest.main()

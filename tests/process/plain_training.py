"""Training of cluster.JOB's model in NumPy, each step on all examples: where a job that does the same must end.

A job that learns may have scaled every gradient wrongly; one that ends here has not.
"""

import json
import struct

import numpy

from cluster import ProcessTest, merged
from model_files import images_in, labels_in, read_safetensors

STEPS, RATE, MOMENTUM = 20, 0.1, 0.9
# Each epoch is one update with all examples, half of them from each of two pushes, so it depends on no order.
TRAINING = {"consistency": "sync", "groupSize": 2, "batchSize": 500, "leaseBatches": 1, "epochs": STEPS,
            "optimizer": {"name": "momentum", "learningRate": RATE, "momentum": MOMENTUM}}  # fmt: skip
NAMES = ("dense_0/kernel", "dense_0/bias", "dense_1/kernel", "dense_1/bias")


class PlainTraining:
    def __init__(self, folder):
        self.inputs = images_in(folder / "train-images") / 255
        self.labels = labels_in(folder / "train-labels")
        draw = numpy.random.default_rng(5)
        shapes = ((self.inputs.shape[1], 16), (16,), (16, 10), (10,))
        self.first = [draw.normal(0, 0.2, shape).astype("float32").astype("float64") for shape in shapes]

    def write(self, path):
        """The values to begin with, as a job file names them."""
        header, data = {}, b""
        for name, values in zip(NAMES, self.first):
            packed = values.astype("<f4").tobytes()
            header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + len(packed)]}
            data += packed
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)

    def gradients(self, values):
        kernel, bias, last_kernel, last_bias = values
        hidden = numpy.maximum(self.inputs @ kernel + bias, 0)
        outputs = hidden @ last_kernel + last_bias
        shares = numpy.exp(outputs - outputs.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        shares[numpy.arange(len(shares)), self.labels] -= 1
        shares /= len(shares)
        back = shares @ last_kernel.T * (hidden > 0)
        return self.inputs.T @ back, back.sum(0), hidden.T @ shares, shares.sum(0)

    def end(self):
        values, velocities = self.first, [0] * len(self.first)
        for _ in range(STEPS):
            velocities = [MOMENTUM * v + g for v, g in zip(velocities, self.gradients(values))]
            values = [w - RATE * v for w, v in zip(values, velocities)]
        return values

    def distance(self, path):
        """Between what the file has and where plain training ends, by the way from the beginning."""
        found = read_safetensors(path)
        there = way = 0
        for name, begin, end in zip(NAMES, self.first, self.end()):
            there += ((found[name] - end) ** 2).sum()
            way += ((end - begin) ** 2).sum()
        return (there / way) ** 0.5


class PlainTrainingTest(ProcessTest):
    def distance(self, workers=2, **training):
        """Of a job with these settings from plain training. Twice its gradients have 0.8, half of them 0.5."""
        plain = PlainTraining(self.folder)
        plain.write(self.folder / "begin.safetensors")
        self.write_job(cluster={"workerCount": workers}, model={"initializeFrom": "begin.safetensors"},
                       training=merged(TRAINING, training))  # fmt: skip
        run = self.start_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        self.check_success()
        out = self.folder / "end.safetensors"
        code, _, err = self.tool("export", "--job-dir", self.job_dir, "--out", out)
        self.assertEqual(code, 0, err)
        return plain.distance(out)

"""TensorFlow itself, in a job's processes: it reads TF_CONFIG as we set it, and starts nothing because of it."""

import importlib.util
import json
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

TENSORFLOW = all(importlib.util.find_spec(name) for name in ("tensorflow", "keras"))
if TENSORFLOW:
    from own_job import TOOL, TRAINED, OwnJobTest, downpour
else:
    OwnJobTest = unittest.TestCase

TASK = """
import json, os, pathlib, re, sys, threading
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="")
import keras, numpy
import tensorflow as tf
import downpour.keras

def listening():
    "Sockets of this process that wait for connections."
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if
             os.path.islink(f"/proc/self/fd/{fd}")]
    own = {found[1] for link in links if (found := re.match(r"socket:.(\\\\d+)", link))}
    rows = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/self/net/{name}").readlines()[1:]]
    return sum(row[3] == "0A" and row[9] in own for row in rows)

def tell(when):
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    print("told", json.dumps({
        "when": when, "cluster": resolver.cluster_spec().as_dict(), "type": resolver.task_type,
        "index": resolver.task_id, "listening": listening(),
        "strategy": type(tf.distribute.get_strategy()).__name__, "hasStrategy": tf.distribute.has_strategy(),
    }))

tell("first")
draws = numpy.random.default_rng(1)
x = draws.standard_normal((400, 6)).astype("float32")
y = (x[:, 0] > 0).astype("int64")
keras.utils.set_random_seed(3)
model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
before = model.count_params()
model.fit(x[:50], y[:50], epochs=1, verbose=0)
tell("after model.fit")
task = json.loads(os.environ["TF_CONFIG"])["task"]
if task["type"] == "worker":  # else one could train all of it before the other is there
    here = pathlib.Path(sys.argv[1])
    (here / str(task["index"])).touch()
    while len(os.listdir(here)) < 2:
        threading.Event().wait(0.1)
downpour.keras.fit(model, x, y, validation_data=(x[:100], y[:100]), epochs=5, batch_size=20)
"""


@unittest.skipUnless(TENSORFLOW, "tensorflow is not there: tools/dev/keras_environment makes a Python that has it")
class TfConfigTest(OwnJobTest):
    def test_tensorflow_reads_the_cluster_and_starts_nothing(self):
        (self.folder / "task.py").write_text(TASK.replace("\\\\", "\\"))
        here = self.folder / "here"
        here.mkdir()
        job = downpour.run(self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="task", package=self.folder,
                           args=[here])  # fmt: skip
        self.addCleanup(job.cancel)
        summary = job.wait(TRAINED)
        self.assertEqual((summary["state"], summary["samplesCommitted"]), ("SUCCEEDED", 5 * 400))
        for index in range(2):
            told = [json.loads(text) for text in re.findall(r"told (\{.*\})", job.logs(f"worker-{index}"))]
            self.assertEqual([one["when"] for one in told], ["first", "after model.fit"])
            for one in told:
                self.assertEqual((one["type"], one["index"]), ("worker", index))
                self.assertEqual({kind: len(tasks) for kind, tasks in one["cluster"].items()},
                                 {"chief": 1, "worker": 2, "ps": 2})  # fmt: skip
                self.assertRegex(one["cluster"]["chief"][0], r"^127\.0\.0\.1:\d+$")
                self.assertEqual((one["strategy"], one["hasStrategy"]), ("_DefaultDistributionStrategy", False))
                self.assertEqual(one["listening"], 0, "no server of TensorFlow's was started")

    def test_strategies_that_would_wait_for_ever_are_named_as_they_are_built(self):
        resolver = "tf.distribute.cluster_resolver.TFConfigClusterResolver()"
        for name, arguments in (("MultiWorkerMirroredStrategy", ""), ("ParameterServerStrategy", resolver),
                                ("experimental.ParameterServerStrategy", resolver)):  # fmt: skip
            (self.folder / "task.py").write_text(
                f"import tensorflow as tf\ntf.distribute.{name}({arguments})\n")  # fmt: skip
            with self.assertRaises(downpour.ToolError) as refused:
                downpour.run(self.folder / "job.yaml", self.folder / "job", tool=TOOL, module="task",
                             package=self.folder)  # fmt: skip
            self.assertRegex(str(refused.exception), r"Strategy would wait for ever in a job: leave the strategy and")


if __name__ == "__main__":
    other = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", "build")) / "keras/bin/python3"
    if not TENSORFLOW and other.exists():
        os.execv(other, [str(other), *sys.argv])
    unittest.main()

"""TensorFlow reads and writes the service's objects in a job, by the paths that stand for gs:// in its arguments."""

import importlib.util
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

TENSORFLOW = all(importlib.util.find_spec(name) for name in ("tensorflow", "keras"))
if TENSORFLOW:
    import own_job  # noqa: F401 it finds what follows
    from job_service import ServiceTest
else:
    ServiceTest = unittest.TestCase

TASK = """
import argparse
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--lines")
parser.add_argument("--records")
options = parser.parse_args()
with tf.io.TFRecordWriter(options.records) as writer:
    writer.write(b"a record")
print("lines", [line.numpy() for line in tf.data.TextLineDataset(options.lines)])
print("records", [record.numpy() for record in tf.data.TFRecordDataset(options.records)])
print("found", len(tf.io.gfile.glob(options.lines[:-3] + "*")))
raise SystemExit("it trains nothing")
"""


@unittest.skipUnless(TENSORFLOW, "there is no TensorFlow for this Python")
class ServiceDataTest(ServiceTest):
    def test_datasets_read_objects(self):
        self.start_service()
        package = self.folder / "trainer"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "task.py").write_text(TASK)
        path = "/upload/storage/v1/b/data/o?uploadType=media&name=x.csv"
        self.assertEqual(self.ask("POST", path, b"1,2\n3,4\n")[0], 200)
        words = ["jobs", "submit", "reads", "--root", self.root, "--package-path", package, "--module-name",
                 "trainer.task", "--", "--lines", "gs://data/x.csv", "--records=gs://data/x.tfrecord"]  # fmt: skip
        code, _, err = self.tool(*words)
        self.assertEqual(code, 0, err)
        self.wait_for("reads", "FAILED")
        log = (self.root / "jobs/reads/logs/service.log").read_text()
        self.assertIn("lines [b'1,2', b'3,4']", log)
        self.assertIn("records [b'a record']", log)
        self.assertIn("found 2", log)
        names = [item["name"] for item in self.ask("GET", "/storage/v1/b/data/o")[1]["items"]]
        self.assertEqual(names, ["x.csv", "x.tfrecord"])


if __name__ == "__main__":
    unittest.main()

"""A service that answers from models, and two trained models for it to answer from."""

import http.client
import json
import pathlib
import subprocess
import tempfile

from cluster import CLASSES, JOB, LONG, SIDE, TOOL, draw_digits, merged
from job_service import ServiceTest

WIDTH = SIDE * SIDE
MODELS = "/v1/projects/p/models"


def rows_of(folder, count):
    """The first images of the evaluation's digits, as the model takes them, and their labels."""
    pixels = (folder / "eval-images").read_bytes()[16:]
    labels = (folder / "eval-labels").read_bytes()[8:]
    rows = [list(pixels[i * WIDTH : (i + 1) * WIDTH]) for i in range(count)]
    return rows, list(labels[:count])


class DeployingCase(ServiceTest):
    """Jobs are trained once for all tests of a class, each in a folder of its name in `trained`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trained = tempfile.TemporaryDirectory(prefix="downpour-trained-")
        cls.addClassCleanup(trained.cleanup)
        cls.trained = pathlib.Path(trained.name)

    @classmethod
    def train(cls, name, job):
        file = cls.trained / f"{name}.json"
        file.write_text(json.dumps(job))
        done = subprocess.run([TOOL, "run", file, "--job-dir", cls.trained / name], capture_output=True, text=True,
                              timeout=LONG)  # fmt: skip
        assert done.returncode == 0, done.stderr

    def create_model(self, name="digits", **fields):
        status, model = self.ask("POST", MODELS, {"name": name, **fields})
        self.assertEqual(status, 200, model)
        return model

    def deploy(self, version, origin, model="digits", expected=None):
        """The operation, once it has ended."""
        body = {"name": version, "deploymentUri": str(origin)}
        status, operation = self.ask("POST", f"{MODELS}/{model}/versions", body)
        self.assertEqual(status, 200, operation)
        while not operation.get("done"):
            operation = self.ask("GET", f"/v1/{operation['name']}")[1]
        self.assertEqual("error" in operation, expected is not None, operation)
        if expected is not None:
            self.assertIn(expected, operation["error"]["message"])
        return operation


class PredictionCase(DeployingCase):
    """Two of them: `first` and `second`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw_digits(cls.trained, "train", 1000, seed=1)
        draw_digits(cls.trained, "eval", 200, seed=2)
        small = {"cluster": {"workerCount": 1, "parameterServerCount": 1}}
        for name, seed in (("first", 1), ("second", 2)):
            changes = {"seed": seed, "training": {"epochs": 2}}
            cls.train(name, merged(merged(JOB, small), changes))
        cls.rows, cls.labels = rows_of(cls.trained, 40)

    def deploy_both(self):
        self.create_model()
        self.deploy("v1", self.trained / "first")
        self.deploy("v2", self.trained / "second")

    def predictions(self, place="digits", count=40):
        status, answer = self.ask("POST", f"{MODELS}/{place}:predict", {"instances": self.rows[:count]})
        self.assertEqual(status, 200, answer)
        return answer["predictions"]

    def check_right(self, predictions):
        """Most of the digits are recognised."""
        hits = sum(row["class"] == label for row, label in zip(predictions, self.labels))
        self.assertGreater(hits, len(predictions) * 0.7, predictions[:2])
        self.assertEqual(len(predictions[0]["probabilities"]), CLASSES)


class Connection:
    """One connection that is kept."""

    def __init__(self, address):
        self.http = http.client.HTTPConnection(address, timeout=LONG)

    def post(self, path, body, headers=None):
        """(status, headers, body)."""
        self.http.request("POST", path, body, {"Content-Type": "application/json", **(headers or {})})
        response = self.http.getresponse()
        return response.status, response.headers, response.read()

    def close(self):
        self.http.close()

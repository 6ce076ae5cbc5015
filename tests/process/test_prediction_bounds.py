"""Requests that compute for long: they end after their time, with whoever asked, and with the service."""

import json
import os
import pathlib
import signal
import threading
import unittest

from prediction_service import MODELS, Connection, DeployingCase

PREDICT = f"{MODELS}/wide:predict"
WIDTH = 1 << 20  # numbers of a row, so that it takes a millisecond and more
JOB = {
    "name": "wide",
    "cluster": {"workerCount": 1, "parameterServerCount": 1},
    "model": {"loss": "meanSquaredError", "inputs": [{"name": "w"}],
              "layers": [{"name": "l", "dense": {"units": 1, "bias": False}}]},
    "training": {"batchSize": 4, "epochs": 1},
}  # fmt: skip
COLUMNS = {"format": "csv", "columns": [{"name": "w", "hash": WIDTH}], "label": "y"}
ONE = json.dumps({"instances": [{"w": "x"}]})
MANY = json.dumps({"instances": [{"w": "x"}] * 60_000})  # minutes
AT_ONCE = min(os.cpu_count(), 30)  # of one user, as many as may compute


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class BoundsTest(DeployingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.trained / "rows.csv").write_text("w,y\n" + "x,1\n" * 8)
        cls.train("wide", JOB | {"data": COLUMNS | {"train": str(cls.trained / "rows.csv")}})

    def serve(self, *words):
        self.start_service(*words)
        self.create_model("wide")
        self.deploy("v1", self.trained / "wide", model="wide")

    def ask_for_many(self):
        """As many connections as can keep all cores busy, once they do."""
        before = processor_seconds(self.service.pid)
        asking = [Connection(self.address) for _ in range(AT_ONCE)]
        for connection in asking:
            self.addCleanup(connection.close)
            connection.http.request("POST", PREDICT, MANY, {"Content-Type": "application/json"})
        while processor_seconds(self.service.pid) < before + AT_ONCE:
            threading.Event().wait(0.05)
        return asking

    def test_who_hangs_up_is_not_computed_for(self):
        self.serve("--prediction-seconds", "3600")
        for connection in self.ask_for_many():
            connection.close()
        status, answer = self.ask("POST", PREDICT, ONE.encode())
        self.assertEqual(status, 200, answer)

    def test_a_request_ends_after_its_time_and_says_what_to_do(self):
        self.serve("--prediction-seconds", "1")
        status, answer = self.ask("POST", PREDICT, MANY.encode())
        self.assertEqual(status, 504, answer)
        self.assertRegex(answer["error"]["message"], r"may take 1 s, in which \d+ of its 60000 rows .* send fewer")
        self.assertEqual(self.ask("POST", PREDICT, ONE.encode())[0], 200)

    def test_the_service_ends_while_requests_are_computed(self):
        self.serve("--prediction-seconds", "3600")
        asking = self.ask_for_many()
        self.service.signal(signal.SIGTERM)
        for connection in asking:
            response = connection.http.getresponse()
            self.assertEqual((response.status, response.headers["Retry-After"]), (503, "1"), response.read())
        self.assertEqual(self.service.finish()[0], 143, self.service.said)
        self.start_service()
        self.assertEqual(self.ask("POST", PREDICT, ONE.encode())[0], 200)


if __name__ == "__main__":
    unittest.main()

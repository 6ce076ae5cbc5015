"""A `downpour serve` of a test's own, asked by HTTP as gcloud asks it."""

import fcntl
import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

from cluster import LONG, ROOT, TOOL, Process, ProcessTest, drawn, free_port, kill

OVER = ("SUCCEEDED", "FAILED", "CANCELLED")
# Parameters of a search.
RATE = {"parameterName": "training.optimizer.learningRate", "type": "DOUBLE", "minValue": 0.001, "maxValue": 1,
        "scaleType": "UNIT_LOG_SCALE"}  # fmt: skip
BATCH = {"parameterName": "training.batchSize", "type": "DISCRETE", "discreteValues": [32, 64]}
os.environ["PYTHONPATH"] = str(ROOT / "python")
os.environ["DOWNPOUR_PYTHON"] = sys.executable


class ServiceTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "root"
        self.address = f"127.0.0.1:{free_port()}"
        self.addCleanup(self.end_runs)

    def start_service(self, *words, tool=TOOL, around=lambda command: command):
        self.service = Process(self, around([tool, "serve", "--root", self.root, "--listen", self.address, *words]))
        self.service.wait_for_line("Serving jobs at ")

    def end_runs(self):
        """They outlive their service, but not the test."""
        for mark in self.root.glob("jobs/**/service/started"):
            try:
                os.killpg(int(mark.read_text()), signal.SIGKILL)
            except (ProcessLookupError, ValueError):
                continue
            with open(mark.with_name("lock")) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # until the last of them is gone

    def ask(self, method, path, body=None, headers=None):
        """(status, answer), whatever the status is."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LONG) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        return status, json.loads(text) if text.startswith(b"{") else text

    def asked_for_the_last_time(self, method, path, body=None):
        """Of a service that dies meanwhile: whether it answered."""
        try:
            return self.ask(method, path, body)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def job_text(self, **changes):
        """A job file of the C++ model on the test's digits, in a BASIC cluster unless told otherwise."""
        self.write_job(**{"cluster": {"workerCount": 1, "parameterServerCount": 1}} | changes)
        data = {part: {key: str(self.folder / name) for key, name in files.items()}
                for part, files in self.job["data"].items()}  # fmt: skip
        return json.dumps(self.job | {"data": data}, indent=2)

    def submit(self, name, **changes):
        """A job as job_text has it."""
        return self.ask("POST", "/v1/projects/p/jobs", {"jobId": name, "jobFile": self.job_text(**changes)})

    def submit_tuning(self, name, params, epochs=1, **search):
        """A tuning job of the C++ model on the test's digits."""
        self.write_job(cluster={"workerCount": 1, "parameterServerCount": 1}, training={"epochs": epochs})
        data = {part: {key: str(self.folder / file) for key, file in files.items()}
                for part, files in self.job["data"].items()}  # fmt: skip
        search = {"goal": "MAXIMIZE", "params": params} | search
        body = {"jobId": name, "jobFile": json.dumps(self.job | {"data": data}),
                "trainingInput": {"hyperparameters": search}}  # fmt: skip
        return self.ask("POST", "/v1/projects/p/jobs", body)

    def job_of(self, name):
        return self.ask("GET", f"/v1/projects/p/jobs/{name}")[1]

    def wait_for(self, name, *states):
        """The job, once it is in one of the states; looked at again and again, since ml v1 has nothing that waits."""
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            job = self.job_of(name)
            if job.get("state") in states:
                return job
            self.assertNotIn(job.get("state"), OVER, job)
            threading.Event().wait(0.05)
        raise AssertionError(f"not {states} within {LONG} s: {job}")

    def starts_of(self, name):
        """How many chiefs the job has had."""
        log = self.root / f"jobs/{name}/logs/chief.log"
        return log.read_text().count(" waits for its tasks at ") if log.exists() else 0

    def kill_by_chance(self, begin, kills, jobs, epochs, most_wait):
        """The service gets SIGKILL again and again, while jobs are submitted and cancelled. No job is lost or started
        twice. `begin` starts the service; a kill comes within `most_wait` seconds after that."""
        seed, rng = drawn()
        accepted, cancelled = set(), set()
        for number in range(kills):
            begin()
            if number < jobs:
                name = f"job{number}"
                status, answer = self.submit(name, training={"epochs": rng.choice(epochs)})
                self.assertEqual(status, 200, answer)
                accepted.add(name)
            if number % 4 == 3:
                name = rng.choice(sorted(accepted))
                if self.ask("POST", f"/v1/projects/p/jobs/{name}:cancel", {})[0] == 200:
                    cancelled.add(name)
            threading.Event().wait(rng.uniform(0, most_wait))
            kill(self.service.pid)
            self.service.end()
        begin()
        listed = self.ask("GET", "/v1/projects/p/jobs")[1]["jobs"]
        self.assertEqual({job["jobId"] for job in listed}, accepted, f"seed {seed}")
        for name in sorted(accepted):
            job = self.wait_for(name, *OVER)
            allowed = ("SUCCEEDED", "CANCELLED") if name in cancelled else ("SUCCEEDED",)
            self.assertIn(job["state"], allowed, f"seed {seed}: {job}")
            starts = self.starts_of(name)
            self.assertLessEqual(starts, 1, f"seed {seed}")
            if job["state"] == "SUCCEEDED":
                self.assertEqual(starts, 1, f"seed {seed}")
            self.assertNotIn("exit code 97", json.dumps(self.job_of(name)))

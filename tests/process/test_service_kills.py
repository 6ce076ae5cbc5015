"""The job service is killed in each phase of a job: nothing is lost, and nothing is started twice.

The phases are calls of the operating system at which faults.cc ends it. tests/process/test_job_service.py kills it at
random moments as well.
"""

import json
import signal
import threading
import unittest

from cluster import kill
from faults import Orders
from job_service import ServiceTest

JOBS = "/v1/projects/p/jobs"
RECORDS = "downpour:{root}/jobs.sqlite-wal"  # a state that goes to the disk
ENDLESS = {"training": {"epochs": 1_000_000}}


class ServiceKillsTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.orders = Orders(self.folder)
        self.start_service(around=self.orders.obeyed)

    def order_death(self, call, of, nth=1):
        self.orders.give("die-at", call, nth, of.format(root=self.root))

    def dies_and_comes_back(self):
        code, _ = self.service.finish()
        self.assertEqual(code, -9, "it lives: the phase was not reached")
        self.assertFalse(self.orders.given)
        self.start_service(around=self.orders.obeyed)

    def check_one_start(self, name, state="SUCCEEDED"):
        self.assertEqual(self.wait_for(name, state)["state"], state)
        self.assertEqual(self.starts_of(name), 1)
        self.assertEqual([job["jobId"] for job in self.ask("GET", JOBS)[1]["jobs"]], [name])

    def test_while_a_job_is_submitted(self):
        body = {"jobId": "one", "jobFile": self.job_text()}
        self.order_death("sync", RECORDS)
        self.assertFalse(self.asked_for_the_last_time("POST", JOBS, body), "accepted, and not on the disk")
        self.dies_and_comes_back()
        self.assertIn(self.ask("POST", JOBS, body)[0], (200, 409))  # it was not promised, and may be there
        self.check_one_start("one")

    def test_while_an_object_is_stored(self):
        upload = "/upload/storage/v1/b/models/o?uploadType=media&name=a"
        self.order_death("rename", "downpour:{root}/storage")
        self.assertFalse(self.asked_for_the_last_time("POST", upload, b"content"))
        self.dies_and_comes_back()
        self.assertEqual(self.ask("GET", "/b/models/o/a")[0], 404, "half an object is none")
        self.assertEqual(self.ask("POST", upload, b"content")[0], 200)
        self.assertEqual(self.ask("GET", "/download/storage/v1/b/models/o/a?alt=media"), (200, b"content"))

    def check_phase(self, call, of, nth=1):
        """Reached by the rounds of a service that has accepted the job."""
        self.order_death(call, of, nth)
        self.asked_for_the_last_time("POST", JOBS, {"jobId": "one", "jobFile": self.job_text()})
        self.dies_and_comes_back()
        self.check_one_start("one")

    def test_before_it_is_written_that_a_job_begins(self):
        self.check_phase("sync", RECORDS, nth=2)

    def test_while_a_job_is_staged(self):
        self.check_phase("sync", "downpour:{root}/jobs/one/service/job.json")

    def test_when_a_job_is_staged(self):
        self.check_phase("rename", "downpour:{root}/jobs/one/service/job.json")

    def test_before_a_run_is_started(self):
        self.check_phase("spawn", "downpour:/bin/sh")

    def test_when_a_run_was_just_started(self):
        self.check_phase("spawned", "downpour:/bin/sh")

    def test_before_it_is_written_that_a_job_runs(self):
        self.check_phase("sync", RECORDS, nth=3)

    def test_before_it_is_written_how_a_job_ended(self):
        self.start_endless()
        self.order_death("sync", RECORDS)
        self.end_run()
        self.dies_and_comes_back()
        self.check_one_start("one", "FAILED")

    def start_endless(self):
        self.submit("one", **ENDLESS)
        self.wait_for("one", "RUNNING")
        while self.starts_of("one") == 0:  # its chief is there a moment later
            threading.Event().wait(0.05)

    def end_run(self):
        """As somebody may who is not its service."""
        kill(-int((self.root / "jobs/one/service/started").read_text()), signal.SIGTERM)

    def cancel(self):
        return self.asked_for_the_last_time("POST", f"{JOBS}/one:cancel", {})

    def test_before_it_is_written_that_a_job_is_cancelled(self):
        self.start_endless()
        self.order_death("sync", RECORDS)
        self.assertFalse(self.cancel(), "promised, and not on the disk")
        self.dies_and_comes_back()
        self.ask("POST", f"{JOBS}/one:cancel", {})
        self.check_one_start("one", "CANCELLED")

    def test_before_a_cancelled_run_is_told(self):
        self.start_endless()
        self.order_death("signal", "downpour:15/group")
        self.assertTrue(self.cancel())
        self.dies_and_comes_back()
        self.check_one_start("one", "CANCELLED")

    def test_when_a_cancelled_run_was_just_told(self):
        self.start_endless()
        self.order_death("signalled", "downpour:15/group")
        self.assertTrue(self.cancel())
        self.dies_and_comes_back()
        self.check_one_start("one", "CANCELLED")

    def test_while_a_cancelled_run_takes_its_time(self):
        self.start_endless()
        chief = json.loads((self.root / "jobs/one/chief.json").read_text())["pid"]
        kill(chief, signal.SIGSTOP)
        self.assertTrue(self.cancel())
        while not (self.root / "jobs/one/service/told").exists():
            threading.Event().wait(0.05)
        kill(self.service.pid)
        self.service.end()
        self.start_service("--cores", "4")
        self.submit("two", **ENDLESS)
        self.wait_for("two", "RUNNING")  # so it has had a look at the first as well
        kill(chief, signal.SIGCONT)
        self.wait_for("one", "CANCELLED")
        log = (self.root / "jobs/one/logs/service.log").read_text()
        self.assertIn("stopping; once more to stop at once", log)
        self.assertNotIn("stopped at once", log)

    def test_a_run_ends_while_nobody_watches(self):
        self.start_endless()
        kill(self.service.pid)
        self.service.end()
        self.end_run()
        mark = self.root / "jobs/one/service/exit"
        while not mark.exists():
            threading.Event().wait(0.05)
        self.start_service()
        job = self.wait_for("one", "FAILED")
        self.assertEqual(self.starts_of("one"), 1, json.dumps(job))


if __name__ == "__main__":
    unittest.main()

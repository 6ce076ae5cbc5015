"""A service whose store of jobs was lost, or is an older copy: no run is taken for another's, and none is forgotten."""

import shutil
import signal
import unittest

from job_service import RATE, ServiceTest


class LostStoreTest(ServiceTest):
    def end_service(self):
        self.service.signal(signal.SIGTERM)
        self.service.finish()

    def lose_the_store(self):
        for file in self.root.glob("jobs.sqlite*"):
            file.unlink()

    def test_jobs_of_a_lost_store_are_found_and_keep_their_names(self):
        self.start_service()
        self.submit("first", training={"epochs": 1})
        over = self.wait_for("first", "SUCCEEDED")
        self.submit("long", training={"epochs": 1_000_000})
        self.wait_for("long", "RUNNING")
        self.end_service()
        self.lose_the_store()
        self.start_service()
        self.assertEqual(self.service.said.count("and the store of jobs did not know it"), 2, self.service.said)
        found = self.job_of("first")
        for key in ("state", "createTime", "startTime", "endTime", "jobFile"):
            self.assertEqual(found[key], over[key], key)
        status, answer = self.submit("first", training={"epochs": 2})
        self.assertEqual((status, answer["error"]["status"]), (409, "ALREADY_EXISTS"))
        self.wait_for("long", "RUNNING")
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})[0], 200)
        self.wait_for("long", "CANCELLED")
        self.assertEqual(self.starts_of("long"), 1)

    def test_a_job_that_waits_is_in_the_queue_again_and_a_search_is_cancelled(self):
        self.start_service("--cores", "2")
        self.submit("long", training={"epochs": 1_000_000})
        self.wait_for("long", "RUNNING")
        self.submit("waits", training={"epochs": 1})
        self.assertEqual(self.job_of("waits")["state"], "QUEUED")
        self.submit_tuning("search", [RATE], maxTrials=2)
        self.end_service()
        self.lose_the_store()
        self.start_service("--cores", "2")
        self.assertEqual(self.service.said.count("and the store of jobs did not know it"), 3, self.service.said)
        self.assertEqual(self.job_of("waits")["state"], "QUEUED")
        self.ask("POST", "/v1/projects/p/jobs/search:cancel", {})
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.wait_for("waits", "SUCCEEDED")
        self.wait_for("search", "CANCELLED")
        self.assertEqual((self.starts_of("long"), self.starts_of("waits")), (1, 1))

    def test_a_folder_that_tells_nothing_is_left_aside_and_its_name_is_not_used(self):
        self.start_service()
        self.submit("first", training={"epochs": 1})
        self.wait_for("first", "SUCCEEDED")
        self.end_service()
        self.lose_the_store()
        folder = self.root / "jobs/first"
        (folder / "service/submission.json").unlink()
        self.start_service()
        self.assertIn(f"the folder {folder} is of a job that the store does not know", self.service.said)
        status, answer = self.submit("first", training={"epochs": 1})
        self.assertEqual(status, 409, answer)
        self.assertIn("move it away, or choose another name", answer["error"]["message"])
        folder.rename(self.folder / "aside")
        self.assertEqual(self.submit("first", training={"epochs": 1})[0], 200)
        self.wait_for("first", "SUCCEEDED")
        self.assertEqual(self.starts_of("first"), 1)

    def test_an_older_copy_of_the_store_learns_what_came_since(self):
        self.start_service()
        self.submit("first", training={"epochs": 1})
        self.wait_for("first", "SUCCEEDED")
        self.end_service()
        shutil.copy(self.root / "jobs.sqlite", self.folder / "copy")
        self.start_service()
        self.ask("DELETE", "/v1/projects/p/jobs/first")
        self.submit("first", training={"epochs": 1_000_000})
        self.wait_for("first", "RUNNING")
        self.end_service()
        self.lose_the_store()
        shutil.copy(self.folder / "copy", self.root / "jobs.sqlite")
        self.start_service()
        self.wait_for("first", "RUNNING")
        self.ask("POST", "/v1/projects/p/jobs/first:cancel", {})
        self.wait_for("first", "CANCELLED")


if __name__ == "__main__":
    unittest.main()

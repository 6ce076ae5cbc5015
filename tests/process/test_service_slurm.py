"""The job service with Slurm: real daemons, and jobs that wait, end, are cancelled, put back and killed there."""

import threading
import unittest

from cluster import TOOL, Process, kill
from job_service import OVER, ServiceTest
from slurm_cluster import MISSING, SlurmCluster

ENDLESS = {"training": {"epochs": 1_000_000}}


@unittest.skipIf(MISSING, f"there is no {', '.join(MISSING)} here: packages munge, slurmctld, slurmd, slurm-client")
class SlurmTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.slurm = SlurmCluster(self, self.folder / "slurm", cores=4)

    def start(self, *words):
        self.start_service("--backend", "slurm", *words)

    def end_runs(self):
        """The cluster does, by its own cleanup."""

    def log_of(self, name):
        return (self.root / f"jobs/{name}/logs/service.log").read_text()

    def wait_for_message(self, name, words):
        until = threading.Event()
        for _ in range(1200):
            job = self.job_of(name)
            if words in job.get("stateMessage", ""):
                return job
            self.assertNotIn(job["state"], OVER, job)
            until.wait(0.1)
        raise AssertionError(f"{name} never says {words!r}: {job}")

    def wait_for_checkpoint(self, name):
        folder = self.root / f"jobs/{name}/checkpoints"
        while not list(folder.glob("*/MANIFEST")):
            self.assertNotIn(self.job_of(name)["state"], OVER)
            threading.Event().wait(0.1)

    def test_a_job_runs_to_its_end_and_its_words_are_no_shell_s(self):
        self.root = self.folder / "a root's $(touch hacked) %j"
        self.start("--partition", "main", "--sbatch-option=--comment=a b; $(touch hacked)")
        self.submit("first")
        self.wait_for("first", "SUCCEEDED")
        self.assertEqual(self.starts_of("first"), 1)
        said = self.ask("GET", "/v1/projects/p/jobs/first/status")[1]
        self.assertEqual(said["summary"]["state"], "SUCCEEDED")
        self.assertIn("the run ended with exit code 0", self.log_of("first"))
        self.assertEqual(list(self.folder.rglob("hacked")), [])

    def test_a_job_waits_in_the_queue_of_slurm_and_says_why(self):
        self.start()
        cluster = {"cluster": {"workerCount": 2, "parameterServerCount": 1}}
        self.submit("one", **ENDLESS, **cluster)
        self.wait_for("one", "RUNNING")
        self.wait_for_checkpoint("one")  # so it trains, and its chief has long been there
        self.submit("two", **ENDLESS, **cluster)
        job = self.wait_for_message("two", "waits in the queue of Slurm")
        self.assertEqual(job["state"], "PREPARING")
        while "status" not in self.ask("GET", "/v1/projects/p/jobs/one/status")[1]:  # its chief can be asked
            threading.Event().wait(0.1)
        self.submit("three", **ENDLESS, **cluster)
        self.wait_for_message("three", "waits in the queue of Slurm")
        self.ask("POST", "/v1/projects/p/jobs/three:cancel", {})
        self.wait_for("three", "CANCELLED")
        self.assertEqual(self.starts_of("three"), 0)
        self.ask("POST", "/v1/projects/p/jobs/one:cancel", {})
        self.wait_for("one", "CANCELLED")
        self.assertTrue(list((self.root / "jobs/one/checkpoints").glob("*/MANIFEST")), "it wrote a last checkpoint")
        self.wait_for("two", "RUNNING")

    def test_a_job_that_slurm_refuses_fails_with_its_words(self):
        self.start("--partition", "nope")
        self.submit("bad")
        self.assertIn("nvalid partition", self.wait_for("bad", "FAILED")["errorMessage"])
        self.submit("large", cluster={"workerCount": 40, "parameterServerCount": 1})
        self.wait_for("large", "FAILED")

    def test_a_job_that_others_cancel_is_cancelled(self):
        self.start()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        self.slurm.ask("scancel", self.slurm.jobs()[0][0])
        self.assertIn("cancelled by scancel", self.wait_for("long", "CANCELLED")["errorMessage"])

    def test_a_job_that_slurm_puts_back_continues(self):
        self.start()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        self.wait_for_checkpoint("long")
        number = self.slurm.jobs()[0][0]
        self.slurm.ask("scontrol", "requeue", number)
        self.wait_for_message("long", "was put back into the queue of Slurm")
        self.assertEqual(self.job_of("long")["state"], "RUNNING", self.log_of("long"))
        # Slurm gives jobs two minutes, since a node kills what begins in the second in which it ended the run before.
        self.slurm.wait_for("PENDING", "squeue", "--noheader", "--format=%T")
        self.slurm.ask("scontrol", "update", f"JobId={number}", "StartTime=now+2")
        while "continues after restart 1" not in self.log_of("long") or self.starts_of("long") < 2:
            self.assertEqual(self.job_of("long")["state"], "RUNNING", self.log_of("long"))
            threading.Event().wait(0.1)
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.wait_for("long", "CANCELLED")

    def test_before_its_time_limit_a_job_goes_back_into_the_queue(self):
        self.start()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        self.wait_for_checkpoint("long")
        number = self.slurm.jobs()[0][0]
        self.slurm.ask("scancel", "--batch", "--signal=USR2", number)  # as Slurm sends it
        self.wait_for_message("long", "was put back into the queue of Slurm")
        self.assertIn("the time limit of Slurm is near", self.log_of("long"))
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.wait_for("long", "CANCELLED")

    def test_while_the_controller_is_away_nothing_is_decided(self):
        self.start()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        self.slurm.stop_controller()
        self.wait_for_message("long", "Slurm does not answer: ")
        self.submit("later")
        self.wait_for_message("later", "Slurm does not answer: ")
        self.assertEqual(self.job_of("long")["state"], "RUNNING")
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.assertEqual(self.job_of("long")["state"], "CANCELLING")
        self.slurm.start_another_controller()
        self.wait_for("long", "CANCELLED")
        self.wait_for("later", "SUCCEEDED")
        self.assertEqual((self.starts_of("long"), self.starts_of("later")), (1, 1))

    def test_another_backend_is_refused_while_jobs_are_unfinished(self):
        self.start()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        kill(self.service.pid)
        self.service.end()
        other = Process(self, [TOOL, "serve", "--root", self.root])
        self.assertEqual(other.finish()[0], 1, other.said)
        self.assertIn("start the service with --backend slurm", other.said)
        code, out, err = self.tool("jobs", "cancel", "long", "--root", self.root)
        self.assertEqual(code, 0, out + err)  # which goes by what the service left
        code, out, err = self.tool("jobs", "wait", "long", "--root", self.root)
        self.assertIn("CANCELLED", out + err)

    def test_whenever_the_service_is_killed_no_job_is_lost_or_started_twice(self):
        self.kill_by_chance(self.start, kills=12, jobs=6, epochs=(1, 4), most_wait=1.5)


if __name__ == "__main__":
    unittest.main()

"""The job service with hosts that are reached by ssh: real sshd processes on loopback, as in test_cluster.py."""

import random
import shutil
import signal
import sys
import tarfile
import threading
import unittest

from cluster import ROOT, kill, wait_for_death
from job_service import OVER, ServiceTest
from ssh_hosts import SSHD, SshHostsTest, is_alive

sys.path.insert(0, str(ROOT / "deploy"))
import follow  # noqa: E402

ENDLESS = {"training": {"epochs": 1_000_000}}


@unittest.skipUnless(SSHD and shutil.which("ssh"), "sshd or ssh is not there: no jobs are run on hosts")
class SshServiceTest(SshHostsTest, ServiceTest):
    def start(self):
        self.start_service("--backend", "ssh", "--hosts", self.hosts, "--ssh-config", self.folder / "ssh_config",
                           "--chief-port", str(self.port), "--launcher", ROOT / "deploy/cluster",
                           tool=f"{self.install}/downpour")  # fmt: skip

    def tasks(self):
        return self.pids("h*/*/pids/*")

    def follower(self, name):
        """Its pid; None while another one takes its place, which writes its own."""
        return int((self.root / f"jobs/{name}/service/started").read_text() or 0) or None

    def wait_for_tasks(self, count):
        while len(tasks := self.tasks()) < count:
            threading.Event().wait(0.1)
        return tasks

    def test_a_job_runs_to_its_end_and_leaves_everything_here(self):
        self.start()
        self.assertEqual(self.submit("first")[0], 200)
        self.wait_for("first", "SUCCEEDED")
        folder = self.root / "jobs/first"
        self.assertEqual(self.starts_of("first"), 1)
        for task in ("chief", "ps-0", "worker-0"):
            self.assertTrue((folder / f"logs/{task}.log").read_text(), task)
        self.assertIn("joined as worker-0", (folder / "logs/worker-0.log").read_text())
        self.assertTrue((folder / "metrics.jsonl").read_text())
        self.assertIn("SUCCEEDED", (folder / "logs/service.log").read_text(), "the result, as after `downpour run`")
        self.assertEqual(self.tool("export", "--format", "safetensors", "--job-dir", folder,
                                   "--out", self.folder / "model.safetensors")[0], 0)  # fmt: skip
        said = self.ask("GET", "/v1/projects/p/jobs/first/status")[1]
        self.assertEqual(said["summary"]["state"], "SUCCEEDED")
        self.assertEqual([path.name for path in self.folder.glob("h?/*") if not path.name.startswith("install-")], [])

    def test_jobs_have_the_hosts_one_after_the_other(self):
        self.start()
        self.submit("one", **ENDLESS)
        self.wait_for("one", "RUNNING")
        self.submit("two")
        while "stateMessage" not in (two := self.job_of("two")):
            threading.Event().wait(0.05)
        self.assertEqual(two["state"], "QUEUED")
        self.assertEqual(two["stateMessage"], "waits for the hosts, which one has before it")
        self.wait_for_tasks(3)
        status = lambda: self.ask("GET", "/v1/projects/p/jobs/one/status")[1].get("status", {})
        while not status().get("progress", {}).get("leasesCommitted"):  # one that did nothing leaves no checkpoint
            threading.Event().wait(0.1)
        while not (self.root / "jobs/one/logs/worker-0.log").exists():  # it comes while the job runs
            threading.Event().wait(0.1)
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs/one:cancel", {}), (200, {}))
        self.assertIn("request", self.wait_for("one", "CANCELLED")["errorMessage"])
        self.assertTrue(list((self.root / "jobs/one/checkpoints").glob("*/MANIFEST")), "it wrote a last checkpoint")
        self.wait_for("two", "SUCCEEDED")
        self.assertEqual(self.tasks(), {})
        self.assertEqual(self.ask("DELETE", "/v1/projects/p/jobs/one"), (200, {}))

    def test_a_job_that_finds_no_place_fails_with_a_sentence(self):
        self.start()
        self.submit("large", cluster={"workerCount": 9, "parameterServerCount": 1})
        self.assertIn("have no place for worker-4", self.wait_for("large", "FAILED")["errorMessage"])
        self.assertEqual(self.tasks(), {})

    def test_a_follower_that_is_killed_is_replaced_and_the_run_continues(self):
        self.start()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        before = self.wait_for_tasks(3)
        shim = self.follower("long")
        kill(-shim, signal.SIGKILL)
        wait_for_death(shim)
        while self.follower("long") in (shim, None):
            threading.Event().wait(0.05)
        self.assertEqual(self.tasks(), before)
        self.assertEqual(self.job_of("long")["state"], "RUNNING")
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.wait_for("long", "CANCELLED")
        self.assertEqual(self.starts_of("long"), 1)
        self.assertFalse(any(is_alive(pid) for pid in before.values()))

    def test_a_job_that_was_to_be_cancelled_while_nobody_followed_it_ends(self):
        self.start()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        tasks = self.wait_for_tasks(3)
        kill(self.service.pid)
        self.service.end()
        shim = self.follower("long")
        kill(-shim, signal.SIGKILL)
        wait_for_death(shim)
        self.start()
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.wait_for("long", "CANCELLED")
        self.assertFalse(any(is_alive(pid) for pid in tasks.values()))

    def test_a_host_that_does_not_answer_for_a_while_changes_nothing(self):
        self.start()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        before = self.wait_for_tasks(3)
        self.daemons["h0"].end()
        log = self.root / "jobs/long/logs/service.log"
        while "h0 does not answer" not in log.read_text():
            threading.Event().wait(0.1)
        self.assertEqual(self.job_of("long")["state"], "RUNNING")
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.daemons["h0"] = self.start_sshd("h0")
        self.wait_for("long", "CANCELLED")
        self.assertFalse(any(is_alive(pid) for pid in before.values()))

    def test_whenever_service_and_followers_are_killed_no_job_is_lost_or_started_twice(self):
        seed = random.randrange(1 << 30)
        rng = random.Random(seed)
        for number in range(8):
            self.start()
            if number < 2:
                status, answer = self.submit(f"job{number}", training={"epochs": rng.choice([1, 4])})
                self.assertEqual(status, 200, answer)
            threading.Event().wait(rng.uniform(0, 3))
            kill(self.service.pid)
            self.service.end()
            marks = [mark for mark in self.root.glob("jobs/*/service/started") if not mark.with_name("exit").exists()]
            for mark in marks if number % 2 else []:
                try:
                    kill(-int(mark.read_text()), signal.SIGKILL)
                except (ProcessLookupError, ValueError):
                    continue
        self.start()
        for number in range(2):
            job = self.wait_for(f"job{number}", *OVER)
            self.assertEqual(job["state"], "SUCCEEDED", f"seed {seed}: {job}")
            self.assertEqual(self.starts_of(f"job{number}"), 1, f"seed {seed}")
        self.assertEqual(self.tasks(), {})


class HostileHostTest(unittest.TestCase):
    """What a host sends that went bad, as deploy/follow.py takes it."""

    def member(self, name, kind=tarfile.REGTYPE):
        member = tarfile.TarInfo(name)
        member.type = kind
        return member

    def test_only_results_come_into_the_job_folder(self):
        for name in ("checkpoints/1-2/MANIFEST", "./summary.json", "logs/chief.log", "checkpoints"):
            self.assertTrue(follow.is_result(self.member(name)), name)
        for name in ("/etc/passwd", "../x", "a/../../x", "service/exit", "./service/started", "keys/client.secret",
                     "cluster.ended", "chief.json", "trials/1/x", "logs/service.log"):  # fmt: skip
            self.assertFalse(follow.is_result(self.member(name)), name)
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            self.assertFalse(follow.is_result(self.member("checkpoints/x", kind)), kind)

    def test_only_logs_and_numbers_come_while_it_runs(self):
        for name in ("logs/chief.log", "logs/worker-12.log", "metrics.jsonl", "chief.json"):
            self.assertTrue(follow.is_wanted(name), name)
        for name in ("logs/service.log", "logs/../x.log", "service/exit", "x/logs/chief.log", "logs/chief.log/x", ""):
            self.assertFalse(follow.is_wanted(name), name)

    def test_pieces_that_do_not_keep_to_the_form_end_the_rest(self):
        self.assertEqual(list(follow.pieces(b"a 2\nxyb 0\nc 3\n123")), [("a", b"xy"), ("b", b""), ("c", b"123")])
        for out in (b"a 9\nxy", b"a -1\nxy", b"a 99999999999999\nxy", b"xy", b""):
            self.assertEqual(list(follow.pieces(out)), [])


if __name__ == "__main__":
    unittest.main()

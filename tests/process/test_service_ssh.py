"""The job service with hosts that are reached by ssh: real sshd processes on loopback, as in test_cluster.py."""

import argparse
import importlib.util
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import unittest.mock

from cluster import ROOT, Process, drawn, kill, wait_for_death
from job_service import OVER, ServiceTest
from ssh_hosts import SSHD, SshHostsTest, is_alive

sys.path.insert(0, str(ROOT / "deploy"))
import follow  # noqa: E402
from hosts import HostError  # noqa: E402

ENDLESS = {"training": {"epochs": 1_000_000}}


@unittest.skipUnless(SSHD and shutil.which("ssh"), "sshd or ssh is not there: no jobs are run on hosts")
class SshBackendTest(SshHostsTest, ServiceTest):
    def start(self):
        self.start_service("--backend", "ssh", "--hosts", self.hosts, "--ssh-config", self.folder / "ssh_config",
                           "--chief-port", str(self.port), "--launcher", ROOT / "deploy/cluster",
                           tool=f"{self.install}/downpour")  # fmt: skip

    def tasks(self):
        return self.pids("h*/*/pids/*")


class SshServiceTest(SshBackendTest):
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
        seed, rng = drawn()
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

# Each worker writes a file before fit(), and the master a folder behind it.
WRITES = """
import json, os, pathlib, sys
import numpy, downpour
out = pathlib.Path(sys.argv[sys.argv.index("--job-dir") + 1])
task = json.loads(os.environ["TF_CONFIG"])["task"]
(out / f"{task['type']}-{task['index']}.txt").write_text(str(out))
x = numpy.arange(400, dtype=numpy.float32)
def step(values, batch):
    error = batch[0] * values["w"][0] - batch[0]
    return float((error**2).mean()), {"w": numpy.array([2 * (error * batch[0]).mean()], numpy.float32)}
downpour.fit({"w": numpy.zeros(1, numpy.float32)}, train=(x / 400, x), step=step, epochs=2, batch_size=10,
             optimizer={"name": "sgd", "learningRate": 0.1})
(out / "export").mkdir()
numpy.save(out / "export/x.npy", x)
(out / "latest").symlink_to("export")
"""
CAN_MOUNT = os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


@unittest.skipUnless(importlib.util.find_spec("numpy"), "python3-numpy is not there")
class SshResultsTest(SshBackendTest):
    """What a program on the hosts writes to its --job-dir is in the service's store when the job is over."""

    hides_the_store = False

    def start_sshd(self, name):
        if not self.hides_the_store:
            return super().start_sshd(name)
        (self.folder / "root/storage").mkdir(parents=True, exist_ok=True)
        script = "mount -t tmpfs none \"$1\" && shift && exec \"$@\""
        around = ["unshare", "--mount", "sh", "-c", script, "sh", self.folder / "root/storage"]
        daemon = Process(self, [*around, SSHD, "-D", "-e", "-f", self.folder / "sshd_config", "-p", self.ports[name]])
        daemon.wait_for_line("Server listening")
        return daemon

    def run_job(self, name):
        """The folder of its results."""
        self.start()
        packed = self.root / "storage/code/trainer-1.0.tar.gz"
        packed.parent.mkdir(parents=True)
        with tarfile.open(packed, "w:gz") as archive:
            for file, text in (("__init__", ""), ("task", WRITES)):
                entry = tarfile.TarInfo(f"trainer-1.0/trainer/{file}.py")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        job = {"scaleTier": "CUSTOM", "workerCount": "2", "parameterServerCount": "1", "pythonModule": "trainer.task",
               "packageUris": ["gs://code/trainer-1.0.tar.gz"], "jobDir": f"gs://models/{name}"}  # fmt: skip
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", {"jobId": name, "trainingInput": job})[0], 200)
        self.wait_for(name, "SUCCEEDED")
        return self.root / "storage/models" / name

    def check_objects(self, results):
        self.assertEqual(sorted(path.name for path in results.glob("worker-*")), [f"worker-{i}.txt" for i in range(3)])
        listed = self.ask("GET", f"/storage/v1/b/models/o?prefix={results.name}/")[1]["items"]
        self.assertIn(f"{results.name}/export/x.npy", [item["name"] for item in listed])
        self.assertEqual(list(results.glob(".*")), [])
        self.assertEqual([path.name for path in self.folder.glob("h?/*") if not path.name.startswith("install-")], [])

    def log_of(self, results):
        return (self.root / f"jobs/{results.name}/logs/service.log").read_text()

    def test_hosts_that_see_the_store_write_into_it(self):
        results = self.run_job("shared")
        self.check_objects(results)
        self.assertEqual((results / "worker-0.txt").read_text(), str(results))
        self.assertTrue((results / "latest").is_symlink())

    @unittest.skipUnless(CAN_MOUNT, "no right to make mount namespaces")
    def test_from_hosts_that_do_not_see_it_it_is_brought_at_the_end(self):
        for daemon in self.daemons.values():
            daemon.signal(signal.SIGTERM)
            daemon.end()
        self.hides_the_store = True
        self.daemons = {name: self.start_sshd(name) for name in self.ports}
        results = self.run_job("brought")
        self.check_objects(results)
        self.assertRegex((results / "worker-2.txt").read_text(), rf"^{self.folder}/h\d/.*/results$")
        self.assertIn("latest in --job-dir is neither a file nor a folder", self.log_of(results))


class LostResultsTest(unittest.TestCase):
    def test_a_host_that_does_not_answer_keeps_its_results_and_is_named(self):
        class Lost:
            name, dir, slots = "h2", "downpour/a", {"worker": 1}

            def run(self, script, check=True):
                raise HostError(self, "no route", unreachable=True)

        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        options = argparse.Namespace(job_dir=folder, results=folder, below="/a", results_files=9, results_gib=1)
        with unittest.mock.patch.object(follow, "find_chief"), unittest.mock.patch.object(follow, "PAUSE", 0):
            follower = follow.Follower([Lost()], options)
            with unittest.mock.patch.object(follow, "complain") as complain:
                follower.bring_results()
        self.assertIn(f"--job-dir on h2 did not come to {folder}: it stays there in downpour/a/results",
                      complain.call_args.args[0])  # fmt: skip


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

    def test_results_are_files_and_folders_below_theirs(self):
        for name in ("model.keras", "./export/x", "service/x"):
            self.assertTrue(follow.is_within(self.member(name)), name)
        for name in ("/etc/passwd", "../x", "a/../../x"):
            self.assertFalse(follow.is_within(self.member(name)), name)
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            self.assertFalse(follow.is_within(self.member("x", kind)), kind)

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

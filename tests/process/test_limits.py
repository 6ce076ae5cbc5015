"""Tasks that may have few open files, or short ones, and what the doctor says of both."""

import re
import resource
import shutil
import signal
import subprocess
import unittest

from cluster import LONG, PROGRAMS, TOOL, Process, ProcessTest, alive, complete, free_port, kill, task_of

SERVERS, WORKERS = 100, 2
NEED = {"chief": 128 + 2 * SERVERS + WORKERS, "ps": 128 + 8 + 2 * WORKERS, "worker": 128 + 4 + 5 * SERVERS}


@unittest.skipUnless(shutil.which("prlimit"), "prlimit is not there: nobody may have fewer open files")
class LimitsTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.write_job(cluster={"parameterServerCount": SERVERS, "workerCount": WORKERS})
        self.chief_at = f"127.0.0.1:{free_port()}"
        self.chief = (f"--job={self.job_file}", f"--job_dir={self.job_dir}", f"--listen={self.chief_at}")

    def with_limit(self, most, command):
        return ["prlimit", f"--nofile={most}:{most}", *map(str, command)]

    def start_with(self, most, role, *flags):
        return Process(self, self.with_limit(most, [PROGRAMS[role], *flags]))

    def check_refusal(self, task, role):
        self.assertEqual(task.finish()[0], 1, task.said)
        need = NEED[role]
        told = f"needs {need} open files, and may have {need - 1}: start it where `ulimit -n {need}` works"
        self.assertIn(f"with {SERVERS} ps and {WORKERS} workers this task {told}", task.said)
        return told

    def test_a_chief_that_may_have_too_few_does_not_begin(self):
        self.check_refusal(self.start_with(NEED["chief"] - 1, "chief", *self.chief), "chief")
        self.assertFalse(self.job_dir.exists())

    def test_members_that_may_have_too_few_say_so_and_end(self):
        chief = self.start_with(NEED["chief"], "chief", *self.chief)
        for role in ("ps", "worker"):
            task = self.start_with(NEED[role] - 1, role, f"--chief={self.chief_at}")
            told = self.check_refusal(task, role)
            chief.wait_for_line(f"{role}-0 left: .*{re.escape(told)}")
            enough = self.start_with(NEED[role], role, f"--chief={self.chief_at}")
            self.wait_until(lambda s: any(t.get("pid") == enough.pid and alive(s, t["name"]) for t in s["tasks"]))

    def test_the_doctor_computes_what_a_role_needs(self):
        for role, need in NEED.items():
            for there, verdict in ((need - 1, "PROBLEM  limits"), (need, "ok       limits")):
                doctor = [TOOL, "doctor", self.job_file, "--cluster=none", "--role", role]
                done = subprocess.run(self.with_limit(there, doctor), capture_output=True, text=True, timeout=LONG)
                self.assertRegex(done.stdout, f"{verdict} +{there} open files per process, {need} needed")
                self.assertEqual(f"`ulimit -n {need}` as root" in done.stdout, there < need)


class FileSizeTest(ProcessTest):
    """A limit on the length of files, which sends SIGXFSZ by default."""

    def limit(self, most, *pids):
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    def test_files_that_may_not_grow_are_a_full_disk_for_every_task(self):
        self.write_endless_job(checkpoint={"every": "200ms"})
        run = Process(self, [TOOL, "run", self.job_file, "--job-dir", self.job_dir])
        has_checkpoint = lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0
        status = self.wait_until(has_checkpoint)
        pids = [run.pid, status["chief"]["pid"], *(task["pid"] for task in status["tasks"])]
        self.limit(0, *pids)
        status = self.wait_until(lambda s: "File too large" in s["checkpoint"]["lastError"])
        self.wait_until(lambda s: s["progress"]["commits"] > status["progress"]["commits"])
        lost = task_of(status, "worker-0")["pid"]
        kill(lost)  # its successor has the run's limit, and a log that takes no line
        self.wait_until(lambda s: any("File too large" in wait["why"] for wait in s["waits"]))
        status = self.wait_until(lambda s: task_of(s, "worker-0").get("pid", lost) != lost and alive(s, "worker-0"))
        self.limit(resource.RLIM_INFINITY, task_of(status, "worker-0")["pid"], *(pid for pid in pids if pid != lost))
        mended = lambda s: has_checkpoint(s) and not s["waits"] and not s["checkpoint"]["lastError"]
        status = self.wait_until(mended)
        self.wait_until(lambda s: s["progress"]["commits"] > status["progress"]["commits"])
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        summary = self.summary()
        self.assertEqual((summary["workersLost"], summary["psLost"], summary["chiefRestarts"]), (1, 0, 0), run.said)

    def test_a_limit_that_is_too_low_is_named_before_anything_starts(self):
        self.write_job(model={"layers": [{"dense": {"units": 40_000}}, {"dense": {"units": 10}}]})
        for most, needed in ((0, r"about \d+\.\d MiB needed"), (2 << 20, r"about 1\d\.\d MiB needed")):
            least = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            for words, code in (
                (["run", self.job_file, "--job-dir", self.job_dir], 1),
                (["serve", "--root", self.folder / "jobs", "--listen", f"127.0.0.1:{free_port()}"], 1),
                (["doctor", self.job_file, "--cluster=none"], 1),
            ):
                done = subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=LONG, preexec_fn=least)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertRegex(done.stdout + done.stderr, rf"a file may have at most .* here \(`ulimit -f`\), about")
                if words[0] != "serve":
                    self.assertRegex(done.stdout + done.stderr, needed)
        self.assertFalse(self.job_dir.exists())
        self.assertFalse((self.folder / "jobs").exists())


if __name__ == "__main__":
    unittest.main()

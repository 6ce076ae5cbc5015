"""What a task does that may have fewer open files than its job has connections, and what the doctor says of it."""

import re
import shutil
import subprocess
import unittest

from cluster import LONG, PROGRAMS, TOOL, Process, ProcessTest, alive, free_port

SERVERS, WORKERS = 100, 2
NEED = {"chief": 128 + 2 * SERVERS + WORKERS, "ps": 128 + 8 + WORKERS, "worker": 128 + 4 * (SERVERS + 1)}


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


if __name__ == "__main__":
    unittest.main()

"""Processes that stop for a while, and calendars that jump: nobody is taken for dead, and nobody writes who was."""

import signal
import unittest

from cluster import PROGRAMS, Process, ProcessTest, alive, complete, free_port, kill, task_of
from faults import Orders

DAY, HOUR = 86400, 3600


class StopsTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.orders = Orders(self.folder)
        self.write_endless_job(checkpoint={"every": "200ms", "keep": 1000})

    def start(self, role, *flags):
        return Process(self, self.orders.obeyed([PROGRAMS[role], *flags]))

    def start_member(self, role, index):
        return self.start(role, f"--chief={self.at}", f"--index={index}", f"--trace_dir={self.job_dir}/trace")

    def start_chief(self):
        folders = (f"--job_dir={self.job_dir}", f"--trace_dir={self.job_dir}/trace")
        self.chief = self.start("chief", f"--job={self.job_file}", f"--listen={self.at}", *folders)
        self.chief.wait_for_line("waits for its tasks at")

    def start_cluster(self):
        self.at = f"127.0.0.1:{free_port()}"
        self.start_chief()
        tasks = [(role, index) for role in ("ps", "worker") for index in range(2)]
        self.members = {f"{role}-{index}": self.start_member(role, index) for role, index in tasks}
        return self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)

    def gets_on(self, status):
        """Once there is a checkpoint of what came after."""
        done = status["progress"]["leasesCommitted"]
        return self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > done)

    def nobody_was_lost(self, status):
        pids = {name: task_of(status, name)["pid"] for name in self.members}
        self.assertEqual(pids, {name: process.pid for name, process in self.members.items()})
        self.assertEqual((status["recovery"]["workersLost"], status["recovery"]["psLost"]), (0, 0), status["failures"])

    def end(self):
        self.chief.signal(signal.SIGTERM)
        self.assertEqual(self.chief.finish()[0], 143, self.chief.said)
        return self.check_cancelled()

    def test_a_chief_that_stood_still_takes_nobody_for_dead(self):
        status = self.start_cluster()
        kill(self.chief.pid, signal.SIGSTOP)
        code, _, err = self.tool("status", "--chief", self.at)  # takes longer than anybody may be silent
        self.assertEqual(code, 69, err)
        kill(self.chief.pid, signal.SIGCONT)
        self.nobody_was_lost(self.gets_on(status))
        self.end()

    def test_a_server_that_stood_still_cannot_write_once_another_has_its_place(self):
        status = self.start_cluster()
        old = self.members["ps-1"]
        kill(old.pid, signal.SIGSTOP)
        stuck = lambda s, worker: any(w["task"] == worker and "ps-1" in w["for"] for w in s["waits"])
        lost = self.wait_until(lambda s: not alive(s, "ps-1") and stuck(s, "worker-0") and stuck(s, "worker-1"))
        self.assertIn(f"downpour-ps --chief={self.at}", lost["next"])
        self.members["ps-1"] = self.start_member("ps", 1)
        status = self.gets_on(status)
        self.assertEqual(task_of(status, "ps-1")["pid"], self.members["ps-1"].pid)
        kill(old.pid, signal.SIGCONT)
        old.wait_for_line("ps-1 is held by process|another process has its place")
        status = self.gets_on(status)
        self.assertEqual(task_of(status, "ps-1")["pid"], self.members["ps-1"].pid)
        self.assertEqual(self.end()["psLost"], 1)

    def test_run_replaces_whoever_stands_still(self):
        self.write_endless_job(timing={"serverWait": "60s"})  # of which run waits a quarter
        run = self.start_run()
        status = self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
        stopped = {name: task_of(status, name)["pid"] for name in ("ps-1", "worker-0")}
        for pid in stopped.values():
            kill(pid, signal.SIGSTOP)
        for _ in stopped:
            run.wait_for_line(r"ended: signal 9 \(SIGKILL\), as it stood still; started again")
        replaced = lambda s: all(task_of(s, name)["pid"] != pid for name, pid in stopped.items())
        status = self.gets_on(self.wait_until(lambda s: complete(s) and replaced(s)))
        kill(status["chief"]["pid"], signal.SIGSTOP)
        run.wait_for_line(r"chief \(pid \d+\) ended: signal 9 \(SIGKILL\), as it stood still; started again")
        status = self.gets_on(self.wait_until(lambda s: complete(s) and s["recovery"]["chiefRestarts"] > 0))
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.check_cancelled()

    def test_a_calendar_that_jumps_is_nothing_to_anybody(self):
        self.start_cluster()
        for seconds in (DAY, -HOUR, 0):
            self.orders.give("clock", seconds)
            self.chief.end()  # a chief looks at the calendar as it starts
            self.start_chief()
            status = self.gets_on(self.wait_until(complete))
            self.nobody_was_lost(status)
            self.assertLess(status["elapsedSeconds"], HOUR)
            self.assertLess(status["checkpoint"]["ageSeconds"], status["elapsedSeconds"])
            ages = [failure["ageSeconds"] for failure in status["failures"]]
            self.assertEqual(ages, sorted(ages, reverse=True), "as they came, one after the other")
            self.assertLess(max(ages, default=0), status["elapsedSeconds"])
        self.end()
        written = [checkpoint["unixMs"] for checkpoint in self.checkpoints()]
        self.assertLess(min(written), max(written) - (DAY - HOUR) * 1000)


if __name__ == "__main__":
    unittest.main()

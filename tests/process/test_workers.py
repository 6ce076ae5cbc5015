"""Workers may die or stop at any moment: it costs their rate and nothing else."""

import signal
import unittest

from cluster import ENDED, LONG, ProcessTest, alive, complete, drawn, kill, task_of

KILLS = 20
ATTEMPTS = 10


class WorkerTest(ProcessTest):
    def test_kill_workers_under_load(self):
        seed, rng = drawn()
        self.write_endless_job(cluster={"workerCount": 3})
        run = self.start_run()
        killed, victim, leases = {}, None, 0
        for status in self.statuses(interval=0.05, within=4 * LONG):  # for as many waits as kills
            if len(killed) == KILLS or status["state"] in ENDED:
                break
            # The next one falls once the last one's successor lives; every other time, once it computes and the job
            # gets on.
            successor, committed = task_of(status, victim), status["progress"]["leasesCommitted"]
            got_on = successor.get("step") and committed > leases
            if victim and (successor["pid"] in killed or (len(killed) % 2 and not got_on)):
                continue
            if complete(status):
                victim, leases = f"worker-{rng.randrange(3)}", committed
                pid = task_of(status, victim)["pid"]
                killed[pid] = victim
                kill(pid)
        self.assertEqual(len(killed), KILLS, f"seed {seed}: the job ended before all kills: {run.said}")
        # A failure of the last minute is what `degraded` means.
        self.assertEqual(self.tool("status", "--job-dir", self.job_dir)[0], 1)
        leases = status["progress"]["leasesCommitted"] + 20
        computes = lambda worker: worker.get("step") and worker["pid"] not in killed
        everybody_computes = lambda s: all(computes(task_of(s, f"worker-{i}")) for i in range(3))
        status = self.wait_until(lambda s: s["progress"]["leasesCommitted"] > leases and everybody_computes(s))
        run.signal(signal.SIGINT)
        code, _ = run.finish()
        self.assertEqual(code, 130, run.said)
        for pid, name in killed.items():
            self.assertRegex(run.said, rf"{name} \(pid {pid}\) ended: signal 9 \(SIGKILL\); started again as pid \d+")
        summary = self.check_cancelled()
        self.assertEqual(summary["workersLost"], KILLS)
        self.assertGreaterEqual(summary["samplesCommitted"], status["progress"]["examplesCommitted"])

    def others_go_on_without(self, stopped):
        """Whether the others compute three leases each before the one that is stopped is given up."""
        names = [f"worker-{i}" for i in range(3)]
        computes = lambda s, name: alive(s, name) and task_of(s, name).get("step", 0) > 0
        status = self.wait_until(lambda s: all(computes(s, name) for name in names))
        pid = task_of(status, stopped)["pid"]
        kill(pid, signal.SIGSTOP)
        names.remove(stopped)
        before = self.wait_until(lambda s: True)
        steps = 3 * self.job["training"]["leaseBatches"]  # waiting for the stopped one would allow two steps
        enough = lambda s: all(task_of(s, name)["step"] >= task_of(before, name)["step"] + steps for name in names)
        after = self.wait_until(lambda s: enough(s) or not alive(s, stopped))
        kill(pid, signal.SIGCONT)
        return alive(after, stopped)

    def test_a_stopped_worker_holds_nobody_up(self):
        self.write_endless_job(cluster={"workerCount": 3})
        run = self.start_run()
        # On a busy machine even they may need longer than a silent one is waited for: not every time, though.
        self.assertTrue(any(self.others_go_on_without("worker-0") for _ in range(ATTEMPTS)))
        self.wait_until(complete)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.check_cancelled()

    def test_four_equal_workers_are_three_pushes_apart(self):
        # A worker's own push is in what it pulls next. So a push of the others falls at most once between a pull and a
        # push of its, whoever waits how long: the mean is three at most. It is less by as much as workers wait between
        # a push and a pull, which is up to the machine.
        self.write_endless_job(cluster={"workerCount": 4})
        run = self.start_run()
        at_work = self.wait_until(lambda s: all(task_of(s, f"worker-{i}").get("step") for i in range(4)))
        begun = at_work["pushes"]["applied"]
        self.wait_until(lambda s: s["pushes"]["applied"] > 4 * begun)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        staleness = self.check_cancelled()["staleness"]
        self.assertGreaterEqual(staleness["mean"], 1)
        self.assertLessEqual(staleness["mean"], 3)
        self.assertEqual(staleness["unknown"], 0)


if __name__ == "__main__":
    unittest.main()

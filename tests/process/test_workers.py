"""Workers may die or stop at any moment: it costs their rate and nothing else."""

import random
import signal
import unittest

from cluster import CLASSES, ProcessTest, alive, kill, task_of

KILLS = 20


class WorkerTest(ProcessTest):
    def test_kill_workers_under_load(self):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        # On no machine is the job over before all kills; the model is so large that its traces are not.
        layers = [{"dense": {"units": 2048, "activation": "relu"}}, {"dense": {"units": CLASSES}}]
        self.write_job(cluster={"workerCount": 3}, model={"layers": layers}, training={"epochs": 100_000})
        run = self.start_run()
        killed, victim = {}, None
        for status in self.statuses(interval=0.05):
            if len(killed) == KILLS or status["state"] not in ("QUEUED", "PREPARING", "RUNNING"):
                break
            # The next one falls once the last one's successor lives; every other time, once it computes.
            successor = task_of(status, victim)
            if victim and (successor["pid"] in killed or (len(killed) % 2 and not successor.get("step"))):
                continue
            if status["state"] == "RUNNING" and all(alive(status, f"worker-{i}") for i in range(3)):
                victim = f"worker-{rng.randrange(3)}"
                pid = task_of(status, victim)["pid"]
                killed[pid] = victim
                kill(pid)
        self.assertEqual(len(killed), KILLS, f"seed {seed}: the job ended before all kills: {run.said}")
        leases = status["progress"]["leasesCommitted"] + 100
        everybody_computes = lambda s: all(task_of(s, f"worker-{i}").get("step") for i in range(3))
        status = self.wait_until(lambda s: s["progress"]["leasesCommitted"] > leases and everybody_computes(s))
        # A failure of the last minute is what `degraded` means.
        self.assertEqual(self.tool("status", "--job-dir", self.job_dir)[0], 1)
        run.signal(signal.SIGINT)
        code, _ = run.finish()
        self.assertEqual(code, 130, run.said)
        for pid, name in killed.items():
            self.assertRegex(run.said, rf"{name} \(pid {pid}\) ended: Signal 9 \(SIGKILL\); started again as pid \d+")
        self.assertEqual(self.summary()["workersLost"], KILLS)
        self.assertGreaterEqual(self.summary()["samplesCommitted"], status["progress"]["examplesCommitted"])
        self.check_ledger("--unfinished")

    def test_a_stopped_worker_holds_nobody_up(self):
        self.write_job(cluster={"workerCount": 3}, training={"epochs": 600})
        run = self.start_run()
        status = self.wait_until(lambda s: all(task_of(s, f"worker-{i}").get("step", 0) > 0 for i in range(3)))
        stopped = task_of(status, "worker-0")["pid"]
        kill(stopped, signal.SIGSTOP)
        # What was under way when it stopped arrives; from then on its count stands still.
        before = self.wait_until(lambda s: task_of(s, "worker-0")["lastHeartbeatSeconds"] > 1)
        others = ("worker-1", "worker-2")

        # Ten leases each, where waiting for the stopped one would allow a step or two.
        leases = 10 * self.job["training"]["leaseBatches"]
        enough = lambda s: all(task_of(s, w)["step"] >= task_of(before, w)["step"] + leases for w in others)
        after = self.wait_until(lambda s: enough(s) or not alive(s, "worker-0"))
        self.assertTrue(enough(after), after)
        self.assertTrue(alive(after, "worker-0"), "it was given up before the others had gone on")
        self.assertEqual(task_of(after, "worker-0")["step"], task_of(before, "worker-0")["step"])
        self.assertTrue(task_of(after, "worker-0")["leases"])

        kill(stopped, signal.SIGCONT)
        code, _ = run.finish()
        self.assertEqual(code, 0, run.said)
        self.check_success()

    def test_four_equal_workers_are_about_three_pushes_apart(self):
        # A worker's own push is in what it pulls next; meanwhile each of the others pushes about once.
        self.write_job(cluster={"workerCount": 4}, training={"epochs": 200})
        run = self.start_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        staleness = self.check_success()["staleness"]
        self.assertGreaterEqual(staleness["mean"], 2)
        self.assertLessEqual(staleness["mean"], 4)
        self.assertEqual(staleness["unknown"], 0)


if __name__ == "__main__":
    unittest.main()

"""What people want of a job that runs: `downpour stop`, `downpour scale`; and what is told before anything starts."""

import re
import signal
import unittest

from cluster import PROGRAMS, TOOL, Process, ProcessTest, complete, free_port, kill, task_of
from faults import Orders


def workers(status):
    return [task["name"] for task in status["tasks"] if task["role"] == "worker"]


class CommandsTest(ProcessTest):
    def make_keys(self):
        """By which an address alone is enough to ask a chief."""
        keys = self.folder / "keys"
        self.assertEqual(self.tool("keys", "new", "--out", keys)[0], 0)
        self.key_flags = ("--keys", keys)
        return keys

    def start_endless_run(self, *words):
        self.write_endless_job(checkpoint={"every": "200ms"})
        run = self.start_run(*words)
        self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
        return run

    def scale(self, count, *where):
        code, out, err = self.tool("scale", "--workers", count, *(where or ("--job-dir", self.job_dir)))
        self.assertEqual(code, 0, err)
        return out

    def test_a_stop_ends_the_job_and_says_how_to_go_on(self):
        run = self.start_endless_run()
        code, out, err = self.tool("stop", "--job-dir", self.job_dir)
        self.assertEqual(code, 0, err)
        self.assertIn("the job ends as CANCELLED after one last checkpoint", err)
        self.assertRegex(out, r"small CANCELLED: ended by downpour stop\. The last checkpoint is .*--resume")
        self.assertEqual(run.finish()[0], 143, run.said)
        self.assertIn("the job was cancelled: ended by downpour stop", run.said)
        committed = self.check_cancelled()["samplesCommitted"]
        for task in ("chief", "ps-0", "worker-0"):
            log = (self.job_dir / f"logs/{task}.log").read_text()
            self.assertRegex(log, r"(?m)^I .* ended by downpour stop\.")
            self.assertNotRegex(log, r"(?m)^E .*downpour stop", "an end that people want is no error")
        code, out, err = self.tool("stop", "--job-dir", self.job_dir)
        self.assertEqual(code, 0, err)
        self.assertIn("the job was over already", err)

        # What a resume changes is told, by run, in the chief's log and in the status.
        settings = ("--set", "training.optimizer.learningRate=0.01", "--set", "training.evaluateEveryEpochs=2")
        run = self.start_run("--resume", *settings)
        change = "training.optimizer.learningRate 0.02 -> 0.01"
        run.wait_for_line(f"changed since the job was last led: {change}")
        status = self.wait_until(lambda s: complete(s) and s["progress"]["examplesCommitted"] > committed)
        self.assertEqual(status["changes"], ["training.evaluateEveryEpochs 0 -> 2", change])
        self.assertIn(change, (self.job_dir / "logs/chief.log").read_text())
        code, out, _ = self.tool("status", "--job-dir", self.job_dir)
        self.assertRegex(out, r"Changed: +training\.evaluateEveryEpochs 0 -> 2\n +training\.optimizer\.learning")
        run.signal(signal.SIGINT)
        run.finish()

    def test_an_end_that_comes_as_the_chief_dies_keeps_what_the_servers_hold(self):
        self.write_endless_job(checkpoint={"every": "600s"})

        def stop(_):
            self.tool("stop", "--job-dir", self.job_dir)

        def signal_it(run):
            run.signal(signal.SIGTERM)

        def signal_it_and_kill_the_next_chief(run):
            run.signal(signal.SIGTERM)
            kill(int(run.wait_for_line(r"chief .*; started again as pid (\d+)").group(1)))

        for ends in (stop, signal_it, signal_it_and_kill_the_next_chief):
            run = self.start_run(*(("--resume",) if self.checkpoints() else ()))
            before = self.checkpoints()
            held = self.wait_until(lambda s: complete(s) and s["progress"]["leasesCommitted"] > 10)
            kill(held["chief"]["pid"])
            ends(run)
            self.assertEqual(run.finish()[0], 143, run.said)
            self.assertGreaterEqual(self.check_cancelled()["samplesCommitted"], held["progress"]["examplesCommitted"])
            self.assertNotEqual(self.checkpoints(), before)

    def test_a_checkpoint_is_written_when_somebody_wants_one(self):
        self.write_endless_job(checkpoint={"every": "0s"})
        run = self.start_run()
        self.assertNotIn("round", self.wait_until(complete)["checkpoint"])
        code, out, err = self.tool("checkpoint", "now", "--job-dir", self.job_dir)
        self.assertEqual((code, out), (0, "a checkpoint of all that is committed by now begins\n"), err)
        self.wait_until(lambda s: s["checkpoint"].get("round"))
        self.assertEqual(len(self.checkpoints()), 1)
        run.signal(signal.SIGINT)
        run.finish()
        code, _, err = self.tool("checkpoint", "now", "--job-dir", self.job_dir)
        self.assertEqual((code, "the job is over" in err), (1, True), err)

    def test_run_starts_more_workers_and_lets_others_go(self):
        run = self.start_endless_run()
        self.assertIn("the job wants 4 workers now, and wanted 2; 2 more may join", self.scale(4))
        status = self.wait_until(lambda s: complete(s) and len(workers(s)) == 4)
        # The number outlives its chief.
        kill(status["chief"]["pid"])
        status = self.wait_until(lambda s: s["chief"]["term"] > status["chief"]["term"] and complete(s))
        self.assertEqual(status["workers"], {"wanted": 4, "jobFile": 2})
        self.assertEqual(len(workers(status)), 4)
        before = task_of(status, "worker-0")["pid"]

        self.scale(1)
        status = self.wait_until(lambda s: complete(s) and workers(s) == ["worker-0"])
        self.assertEqual(task_of(status, "worker-0")["pid"], before)
        done = status["progress"]["leasesCommitted"]
        status = self.wait_until(lambda s: s["progress"]["leasesCommitted"] > done)
        self.assertEqual(status["recovery"]["workersLost"], 0, status["failures"])
        code, out, _ = self.tool("status", "--job-dir", self.job_dir)
        self.assertRegex(out, r"Scaled: +to 1 worker; the job file says 2")
        self.scale(2)
        self.wait_until(lambda s: complete(s) and len(workers(s)) == 2)
        self.assertNotRegex(run.said, r"worker-\d \(pid \d+\) ended")

        code, _, err = self.tool("stop", "--job-dir", self.job_dir)
        self.assertEqual(code, 0, err)
        self.assertEqual(run.finish()[0], 143, run.said)
        self.check_cancelled()

    # By hand, with keys: only a client's may give commands.
    def test_by_hand_a_spare_worker_comes_in_and_the_last_one_leaves(self):
        self.write_endless_job()
        keys, at = self.make_keys(), f"127.0.0.1:{free_port()}"
        folders = (f"--job_dir={self.job_dir}", f"--trace_dir={self.job_dir}/trace")
        chief = self.start("chief", f"--job={self.job_file}", f"--listen={at}", f"--keys={keys}", *folders)
        chief.wait_for_line("waits for its tasks at")
        member = lambda role: self.start(role, f"--chief={at}", f"--keys={keys}", f"--trace_dir={self.job_dir}/trace")
        started = {process.pid: process for process in map(member, ("ps", "ps", "worker", "worker"))}
        self.wait_until(complete)
        where = ("--chief", at, *self.key_flags)
        out = self.scale(3, *where)
        self.assertRegex(out, rf"1 more may join\nstart each by: downpour-worker --keys=\S+ --chief={re.escape(at)}\n")
        spare = member("worker")
        status = self.wait_until(lambda s: complete(s) and len(workers(s)) == 3)
        self.assertEqual(task_of(status, "worker-2")["pid"], spare.pid)
        self.assertNotIn("start each by", self.scale(1, *where))
        status = self.wait_until(lambda s: complete(s) and workers(s) == ["worker-0"])
        self.assertEqual(spare.finish()[0], 0, spare.said)
        self.assertIn("ended by the job's scaling to fewer workers", spare.said)

        code, out, err = self.tool("scale", "--workers", 2000, *where)
        self.assertEqual(code, 2, out + err)
        code, out, err = self.tool("stop", *where)
        self.assertEqual(code, 0, err)
        self.assertEqual(chief.finish()[0], 143, chief.said)
        self.assertEqual(started[task_of(status, "worker-0")["pid"]].finish()[0], 0)
        self.check_cancelled()

    # A stop is in no journal: the chief that comes after the one that was told must be told too.
    def test_a_stop_outlives_a_chief_that_dies_in_its_last_round(self):
        self.write_endless_job(checkpoint={"every": "0s"})  # the first checkpoint is that of the stop
        orders, at, keys = Orders(self.folder), f"127.0.0.1:{free_port()}", self.make_keys()
        flags = (f"--job={self.job_file}", f"--listen={at}", f"--job_dir={self.job_dir}", f"--keys={keys}")
        command = orders.obeyed([PROGRAMS["chief"], *flags])
        for where in (("--chief", at), ("--job-dir", self.job_dir)):
            chief = Process(self, [*command, "--resume"])
            chief.wait_for_line("waits for its tasks at")
            for role in ("ps", "ps", "worker", "worker"):
                self.start(role, f"--chief={at}", f"--keys={keys}")
            self.wait_until(complete)
            orders.give("die", 1, "checkpoints/")
            stop = Process(self, [TOOL, "stop", *where, *self.key_flags])
            self.assertEqual(chief.finish()[0], -signal.SIGKILL, chief.said)
            second = Process(self, command)
            code, out = stop.finish()
            self.assertEqual(code, 0, stop.said)
            self.assertIn("small CANCELLED: ended by downpour stop.", out)
            self.assertEqual(second.finish()[0], 143, second.said)
            self.assertEqual(self.summary()["state"], "CANCELLED")

    def test_whoever_watches_is_told_the_reason_and_of_no_other_run(self):
        self.write_endless_job()
        at, keys = f"127.0.0.1:{free_port()}", self.make_keys()
        flags = (f"--job={self.job_file}", f"--listen={at}", f"--keys={keys}")
        chief = self.start("chief", *flags, f"--job_dir={self.job_dir}")
        chief.wait_for_line("waits for its tasks at")
        watches = [Process(self, [TOOL, "watch", "--chief", at, *self.key_flags, "--interval", 0.1]) for _ in range(2)]
        for watch in watches:
            next(iter(watch.out))
        code, _, err = self.tool("stop", "--chief", at, *self.key_flags)
        self.assertEqual(code, 0, err)
        for watch in watches:
            code, out = watch.finish()
            self.assertEqual(code, 1, watch.said)
            self.assertIn("small CANCELLED: ended by downpour stop. There is no checkpoint yet", out)

        chief.finish()  # which leaves the port
        chief = self.start("chief", *flags, f"--job_dir={self.folder}/first")
        chief.wait_for_line("waits for its tasks at")
        watch = Process(self, [TOOL, "watch", "--chief", at, *self.key_flags, "--interval", 0.1])
        next(iter(watch.out))
        chief.end()
        self.start("chief", *flags, f"--job_dir={self.folder}/second").wait_for_line("waits for its tasks at")
        self.assertEqual(watch.finish()[0], 69, watch.said)
        self.assertIn(f"at {at} there is the chief of another run now, of the job small", watch.said)

    def test_data_that_is_not_here_is_told_before_anything_starts(self):
        self.write_job()
        (self.folder / "eval-labels").unlink()
        (self.folder / "train-images").write_bytes(b"no images")
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
        self.assertEqual((code, out), (78, ""))
        self.assertRegex(err, r"job\.yaml:1: data\.eval\.labels: \S+/eval-labels is not on this machine; bring it")
        self.assertRegex(err, r"data\.train\.images: \S+/train-images")
        self.assertNotIn("chief at", err)
        self.assertFalse(self.job_dir.exists())


if __name__ == "__main__":
    unittest.main()

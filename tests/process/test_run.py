"""`downpour run`: a whole cluster, its end, the ends of its parts, and going on from a checkpoint."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import threading
import unittest
import unittest.mock

from cluster import TOOL, TRAIN_EXAMPLES, Process, ProcessTest, complete, free_port, kill, task_of, wait_for_death


def held(pid):
    """What a process has open. Files that it closes meanwhile are not among it."""
    files = []
    for file in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            files.append(os.readlink(file))
    return files


class RunTest(ProcessTest):
    def test_a_folder_for_sockets_whose_name_is_too_long_is_told_before_anything_starts(self):
        self.write_job()
        long = self.folder / ("x" * 100)
        long.mkdir()
        for named, said in ((long, "Let TMPDIR name a folder with a shorter one, such as /tmp"),
                            (self.folder / "none", "cannot use the folder for temporary files, ")):  # fmt: skip
            with unittest.mock.patch.dict(os.environ, TMPDIR=str(named)):
                code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
                self.assertIn(code, (1, 2), out)
                self.assertIn(said, err)
                self.assertFalse((self.job_dir / "chief.json").exists(), "nothing was started")
                code, out, _ = self.tool("doctor", self.job_file, "--cluster=none")
                self.assertEqual(code, 1)
                self.assertRegex(out, "PROBLEM +(sockets|job file) ")

    def test_a_small_job_from_start_to_end(self):
        self.write_job()
        run = self.start_run()
        code, out = run.finish()
        self.assertEqual(code, 0, run.said)
        for part in ("SUCCEEDED", "Accuracy:", str(self.job_dir), "status --job-dir", "export --format safetensors"):
            self.assertIn(part, out)

        summary = self.check_success()
        epochs = self.job["training"]["epochs"]
        steps = epochs * -(-TRAIN_EXAMPLES // self.job["training"]["batchSize"])
        self.assertEqual(summary["epochs"], epochs)
        self.assertEqual(summary["steps"], steps)
        self.assertEqual(summary["examples"], epochs * TRAIN_EXAMPLES)
        self.assertEqual(summary["pushesApplied"] % steps, 0)
        self.assertGreater(summary["pushesApplied"], 0)
        # On a busy machine a step may be computed twice: it has effect once, and is acknowledged to both.
        twice = summary["pushesAcknowledged"] - summary["pushesApplied"]
        self.assertIn(twice, range(summary["pushesDuplicate"] + 1))
        self.assertEqual(summary["pushesSkipped"], 0)
        self.assertEqual(summary["workersLost"], 0)

        # The chief has gone; its folder still knows.
        code, out, _ = self.tool("status", "--job-dir", self.job_dir)
        self.assertEqual(code, 0)
        self.assertIn("SUCCEEDED", out)
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
        self.assertEqual(code, 1)
        self.assertIn("already holds a job", err)
        self.assertIn("--resume", err)
        other_plan = ("--resume", "--set", "training.batchSize=32")
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, *other_plan)
        self.assertEqual(code, 78)
        self.assertIn("training.batchSize (16 there, 32 here)", err)
        lowered = ("--resume", "--set", "training.epochs=1")
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, *lowered)
        self.assertEqual(code, 78)
        self.assertRegex(err, r"\Adownpour run: checkpoint .* differs in training.epochs "
                         r"\(4 there, 1 here\) \(may be raised, not lowered\): .*\n\Z")  # fmt: skip
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--resume")
        self.assertEqual((code, out), (0, ""))
        self.assertRegex(err, r"\Adownpour run: the job of this folder has succeeded: .* raise training.epochs")
        self.assertEqual(self.summary(), summary)

    def test_tasks_inherit_nothing(self):
        """A job service knows by a lock among it whether a run lives."""
        self.write_job(training={"epochs": 1_000_000})
        lock = self.folder / "lock"
        command = [TOOL, "run", self.job_file, "--job-dir", self.job_dir]
        run = Process(self, ["/bin/sh", "-c", 'exec 9> "$1"; shift; exec "$@"', "sh", lock, *command])
        run.wait_for_line("chief at ")
        status = self.wait_until(complete)
        self.assertIn(str(lock), held(run.pid))
        for pid in (status["chief"]["pid"], *(task["pid"] for task in status["tasks"])):
            self.assertNotIn(str(lock), held(pid))
        run.signal(signal.SIGTERM)
        run.finish()

    def test_resume_needs_a_job_to_go_on_with(self):
        self.write_job()
        code, _, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--resume")
        self.assertEqual(code, 1)
        self.assertIn(f"there is no job in {self.job_dir} to go on with", err)
        self.assertFalse(self.job_dir.exists())

    def test_a_dead_ps_and_a_dead_chief_are_started_again(self):
        self.write_endless_job()
        run = self.start_run()
        status = self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
        killed = []
        for name in ("ps-1", "chief", "ps-0", "chief"):
            task = status["chief"] if name == "chief" else task_of(status, name)
            kill(task["pid"])
            killed.append((name, task["pid"]))
            status = self.wait_until(lambda s: self.got_on(s, status, name))
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        for name, pid in killed:
            self.assertRegex(run.said, rf"{name} \(pid {pid}\) ended: signal 9 \(SIGKILL\); started again as pid")
        self.assertEqual(self.check_cancelled()["chiefRestarts"], 2)

    def test_two_deaths_at_once_and_one_in_a_recovery(self):
        self.write_endless_job()
        run = self.start_run()
        status = self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
        watch = Process(self, [TOOL, "watch", "--job-dir", self.job_dir, "--interval", 0.1])
        self.assertTrue(any("epoch " in said for said in watch.out), watch.said)
        kill(status["chief"]["pid"])
        kill(task_of(status, "ps-0")["pid"])
        after = self.wait_until(lambda s: self.got_on(s, status, "chief") and self.got_on(s, status, "ps-0"))
        kill(task_of(after, "ps-1")["pid"])
        for _ in range(3):  # it has hardly begun to load its slices
            kill(run.wait_for_line(r"ps-1 \(pid \d+\) ended: .*; started again as pid (\d+)")[1])
        self.wait_until(lambda s: self.got_on(s, after, "ps-1"))
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.check_cancelled()
        code, out = watch.finish()  # it has waited for the chief that came back
        self.assertEqual(code, 1, watch.said)
        self.assertIn("CANCELLED", out)

    def test_a_chief_that_is_killed_again_and_again_after_the_success_changes_nothing_of_it(self):
        self.write_job(training={"epochs": 1})
        summary = self.job_dir / "summary.json"
        for _ in range(50):  # until one still lives as its summary is seen
            shutil.rmtree(self.job_dir, ignore_errors=True)
            run = self.start_run()
            while not summary.exists() and run.child.poll() is None:
                threading.Event().wait(0.001)
            while run.child.poll() is None:
                with contextlib.suppress(OSError):
                    self.kill_chief_of(run)
                threading.Event().wait(0.001)
            code, out = run.finish()
            self.assertEqual(code, 0, run.said)
            self.assertIn("SUCCEEDED", out)
            self.check_success()
            if re.search(r"chief \(pid \d+\) ended: signal 9", run.said):
                return
        self.fail("each chief had ended when it was to be killed")

    @staticmethod
    def kill_chief_of(run):
        for pid in pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split():
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == "downpour-chief\n":
                kill(pid)

    @staticmethod
    def got_on(status, before, name):
        """Another process is there in its place, and leases have been committed with it."""
        now = status["chief"] if name == "chief" else task_of(status, name)
        was = before["chief"] if name == "chief" else task_of(before, name)
        committed = before["progress"]["leasesCommitted"]
        return complete(status) and now["pid"] != was["pid"] and status["progress"]["leasesCommitted"] > committed

    def test_ctrl_c_ends_the_job_and_says_how_to_go_on(self):
        self.write_endless_job()
        where = f"127.0.0.1:{free_port()}"
        config = self.folder / "config.yaml"
        config.write_text("trainingInput: {args: [--set, checkpoint.keep=7]}")
        run = self.start_run("--listen", where, "--config", config, "--set", "checkpoint.every=1s")
        status = self.wait_until(lambda s: complete(s) and s["progress"]["leasesCommitted"] > 0)
        run.signal(signal.SIGINT)
        code, _ = run.finish()
        self.assertEqual(code, 130, run.said)
        error = self.summary()["errorMessage"]
        self.assertRegex(error, r"\Aended by an interrupt \(Ctrl-C, SIGINT\)\. The last checkpoint is checkpoints/\d+-")
        self.assertIn(f"the job was cancelled: {error}\n", run.said)
        self.assertEqual(self.summary()["state"], "CANCELLED")
        self.assertGreaterEqual(self.summary()["samplesCommitted"], status["progress"]["examplesCommitted"])
        for task in status["tasks"]:
            with self.assertRaises(ProcessLookupError, msg=task["name"]):
                kill(task["pid"], 0)
        self.assertIn(error, self.tool("status", "--job-dir", self.job_dir)[1])

        # What it says can be typed, and goes on as it began.
        run = Process(self, shlex.split(error.partition("go on from it with ")[2]))
        run.wait_for_line(f"chief at {where}")
        done = self.summary()["samplesCommitted"]
        self.wait_until(lambda s: complete(s) and s["progress"]["examplesCommitted"] > done)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.assertIn(f"--config {config} --set checkpoint.every=1s --resume", self.summary()["errorMessage"])
        self.check_cancelled()

    def test_a_job_whose_time_is_over_is_cancelled_and_can_go_on(self):
        self.write_endless_job(scheduling={"maxRunningTime": "3s"})
        run = self.start_run()
        code, _ = run.finish()
        self.assertEqual(code, 124, run.said)
        self.assertIn("it has run for the 3 s of scheduling.maxRunningTime, counted from each start", run.said)
        summary = self.summary()
        self.assertEqual(summary["state"], "CANCELLED", summary)
        done = summary["samplesCommitted"]
        durable = max((c["leasesCommitted"] for c in self.checkpoints() if c["state"] == "complete"), default=0)
        if "checkpoint" in summary:
            self.check_ledger("--unfinished")
        else: # The time was over before the tasks of a busy machine had joined.
            self.assertEqual((done, durable), (0, 0))
        run = self.start_run("--resume", "--set", "scheduling.maxRunningTime=0s")
        resumed = self.wait_until(lambda s: s["state"] == "RUNNING")["progress"]["leasesCommitted"]
        self.assertGreaterEqual(resumed, durable)
        self.wait_until(lambda s: s["progress"].get("examplesCommitted", 0) > done)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.assertGreater(self.check_cancelled()["samplesCommitted"], done)

    def test_a_folder_has_one_run_at_a_time(self):
        self.write_endless_job()
        self.start_run()
        code, _, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--resume")
        self.assertEqual(code, 1)
        self.assertIn("another downpour run is at work", err)

    def test_nobody_outlives_a_run_that_is_killed_and_the_job_goes_on(self):
        self.write_endless_job()
        run = self.start_run("--set", "checkpoint.every=1s")
        status = self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
        run.signal(signal.SIGKILL)
        for task in (status["chief"], *status["tasks"]):
            wait_for_death(task["pid"])
        self.assertEqual(self.tool("status", "--job-dir", self.job_dir)[0], 69)

        # Chief and all ps have died at once: what no checkpoint has is computed again.
        run = self.start_run("--resume")
        done = status["progress"]["examplesCommitted"]
        self.wait_until(lambda s: complete(s) and s["progress"]["examplesCommitted"] > done)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.check_cancelled()

    def test_a_bad_job_file_starts_nothing(self):
        self.write_job(training={"epochz": 3, "batchSize": 0})
        code, _, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
        self.assertEqual(code, 78)
        self.assertIn("epochz", err)
        self.assertIn("batchSize", err)
        self.assertFalse(self.job_dir.exists())

    def test_watching_and_following(self):
        self.write_endless_job()
        run = self.start_run()
        one = Process(self, [TOOL, "logs", "worker-1", "--follow", "--job-dir", self.job_dir])
        everything = Process(self, [TOOL, "logs", "--follow", "--job-dir", self.job_dir])
        watch = Process(self, [TOOL, "watch", "--job-dir", self.job_dir, "--interval", 0.1])
        line = r"^epoch \d+\.\d/1000000 \(0 %\) \| .* examples/s \| "
        self.assertTrue(any(re.search(line, said) for said in watch.out), watch.said)
        self.wait_until(complete)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        code, out = watch.finish()
        self.assertEqual(code, 1, watch.said)
        self.assertNotIn("\x1b", out)
        self.assertIn("CANCELLED", out)
        # Followers end with the job, and have read everybody's last words.
        for follower, words in ((one, ("worker-1",)), (everything, ())):
            code, out = follower.finish()
            self.assertEqual(code, 0, follower.said)
            _, everything_said, _ = self.tool("logs", *words, "--job-dir", self.job_dir)
            self.assertEqual(sorted(out.splitlines()), sorted(everything_said.splitlines()))
        self.assertRegex(out, r"(?m)^chief    \| .*the job is cancelled after one last checkpoint")
        self.assertRegex(out, r"(?m)^worker-1 \| ")

    def test_logs_of_one_task_and_of_all(self):
        self.write_endless_job()
        run = self.start_run()
        self.wait_until(complete)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        code, one, _ = self.tool("logs", "worker-0", "--job-dir", self.job_dir)
        self.assertEqual(code, 0)
        self.assertIn("joined as worker-0", one)
        code, everything, _ = self.tool("logs", "--job-dir", self.job_dir)
        self.assertEqual(code, 0)
        self.assertRegex(everything, r"(?m)^chief    \| ")
        self.assertRegex(everything, r"(?m)^ps-1     \| ")
        code, _, err = self.tool("logs", "worker0", "--job-dir", self.job_dir)
        self.assertEqual(code, 2)
        self.assertIn("did you mean worker-0?", err)


if __name__ == "__main__":
    unittest.main()

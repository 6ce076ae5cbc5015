"""Two runs that meet at one address, and a job folder that is put back to an earlier state while its tasks live."""

import shutil
import signal
import subprocess
import sys
import unittest

from cluster import LONG, ROOT, ProcessTest, complete, draw_digits, free_port, joined, kill

WORK = ("applied", "skipped", "duplicate")  # kinds of trace records that name who did it


def leases(status):
    return status["progress"].get("leasesCommitted", 0)


class RunsTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.address = f"127.0.0.1:{free_port()}"
        self.flags = []

    def begin(self, name):
        """The next run, in a folder of its own: nothing that is started from here on writes into one before."""
        self.job_dir = self.folder / name
        self.traces = self.folder / f"{name}-traces"
        self.traces.mkdir()

    def start_chief(self):
        chief = self.start(
            "chief",
            f"--job={self.job_file}",
            f"--job_dir={self.job_dir}",
            f"--listen={self.address}",
            f"--trace_dir={self.traces}",
            *self.flags,
        )
        chief.wait_for_line("waits for its tasks at")
        return chief

    def start_members(self, *roles):
        flags = [f"--chief={self.address}", f"--trace_dir={self.traces}", *self.flags]
        return [self.start(role, *flags) for role in roles]

    def check_ledger(self, *flags):
        """Of this run's records alone."""
        manifest = self.job_dir / self.summary()["checkpoint"] / "MANIFEST"
        checker = ROOT / "tools/dev/ledger_check"
        command = [sys.executable, checker, "--traces", self.traces, "--manifest", manifest, *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def wait_for_more(self, count=20):
        """Leases that are committed from now on."""
        before = leases(self.wait_until(lambda s: s["state"] == "RUNNING"))
        return self.wait_until(lambda s: s["state"] == "RUNNING" and leases(s) >= before + count)

    def cancel(self, chief):
        chief.signal(signal.SIGTERM)
        self.assertEqual(chief.finish()[0], 143, chief.said)
        self.check_cancelled()

    def gather_records(self, folder, term):
        """What processes that began in `folder` recorded for the chief of `term`: an actor's number begins with it."""
        for file in folder.glob("*.trace"):
            lines = file.read_text().splitlines(keepends=True)
            (self.traces / file.name).write_text("".join(line for line in lines if int(line.split()[1]) >> 32 == term))

    def meet_another_chief(self, **changes):
        """What waits for the chief of one run serves the next one at its address, and nothing of the first counts.

        The second job wants one ps more, which starts once all the others are there. A job that begins without some of
        them could be over before they have dialled again.
        """
        self.write_endless_job(cluster={"workerCount": 3})
        self.begin("first")
        chief = self.start_chief()
        members = self.start_members("ps", "ps", "worker", "worker", "worker")
        self.wait_until(complete)
        self.wait_for_more()
        chief.end()

        first = self.traces
        self.write_job(cluster={"workerCount": 3, "parameterServerCount": 3}, **changes)
        self.begin("second")
        chief = self.start_chief()
        term = self.wait_until(lambda s: joined(s) == len(members))["chief"]["term"]
        members += self.start_members("ps")
        for process in (chief, *members):
            self.assertEqual(process.finish()[0], 0, (process.command, process.said))
        summary = self.summary()
        self.assertEqual(summary["state"], "SUCCEEDED", summary)
        self.assertEqual(summary["samplesCommitted"], 1000 * self.job["training"]["epochs"], summary)
        self.assertEqual((summary["psLost"], summary["workersLost"], summary["batchesRecomputed"]), (0, 0, 0))
        self.gather_records(first, term)
        self.check_ledger()

    def test_tasks_that_wait_for_their_chief_serve_another_one(self):
        self.meet_another_chief()

    def test_tasks_that_wait_for_their_chief_serve_another_one_with_keys(self):
        keys = self.folder / "keys"
        self.assertEqual(self.tool("keys", "new", "--out", keys)[0], 0)
        self.flags, self.key_flags = [f"--keys={keys}"], ("--keys", keys)
        self.meet_another_chief(seed=5)

    def test_a_worker_that_stood_still_through_a_change_of_runs_does_no_work_in_the_next(self):
        """Of short leases, as many as the first run did not come to: its requests for work have higher numbers."""
        self.write_endless_job(training={"leaseBatches": 1})
        self.begin("first")
        chief = self.start_chief()
        *others, sleeper = self.start_members("ps", "ps", "worker", "worker")
        self.wait_until(complete)
        self.wait_for_more(200)
        kill(sleeper.pid, signal.SIGSTOP)
        for process in (chief, *others):
            process.end()

        draw_digits(self.folder, "train", count=1000, seed=9)
        self.write_endless_job(training={"leaseBatches": 4}, seed=77)
        self.begin("second")
        chief = self.start_chief()
        self.start_members("ps", "ps", "worker", "worker")
        self.wait_until(complete)
        self.wait_for_more()
        sleeper.signal(signal.SIGCONT)
        sleeper.wait_for_line("the chief does not know this task, which joins")
        self.wait_for_more(100)
        self.assertEqual(sleeper.finish()[0], 1, sleeper.said)  # the job has its two workers
        self.assertIn("and all of them are there", sleeper.said)
        self.wait_for_more(100)
        self.cancel(chief)
        # Every process that had a part in it wrote its records here, which the sleeper did not.
        records = [line.split() for file in self.traces.glob("*.trace") for line in file.read_text().splitlines()]
        of_workers = {record[1] for record in records if record[0] == "acked"}
        self.assertEqual({record[7] for record in records if record[0] in WORK and len(record) == 8}, of_workers)

    def test_a_folder_put_back_from_a_backup_while_its_tasks_live(self):
        self.write_endless_job()
        self.begin("run")
        chief = self.start_chief()
        members = self.start_members("ps", "ps", "worker", "worker")
        self.wait_until(complete)
        self.wait_until(lambda s: s["checkpoint"].get("round"))
        backup = self.folder / "backup"
        # Some checkpoint may be removed while it is copied, as under any tool that copies a living folder.
        subprocess.run(["cp", "-r", self.job_dir, backup], capture_output=True, timeout=LONG)
        for restart in range(2):
            before = leases(self.wait_for_more())
            chief.end()
            if restart == 0:  # a term that the backup does not know of
                chief = self.start_chief()
        shutil.rmtree(self.job_dir)
        backup.rename(self.job_dir)
        chief = self.start_chief()
        self.wait_until(complete)
        status = self.wait_for_more()
        self.assertGreater(leases(status), before)
        self.assertEqual(status["recovery"]["psLost"], 0, status)
        self.assertEqual(status["recovery"]["batchesRecomputed"], 0, status)
        self.cancel(chief)
        for member in members:
            self.assertEqual(member.finish()[0], 0, member.said)


if __name__ == "__main__":
    unittest.main()

"""Disks that are full, that fail, that flip bits, and a chief that dies between any two things it does to it."""

import pathlib
import random
import re
import signal
import unittest

from cluster import TOOL, Process, ProcessTest, complete, kill, task_of
from faults import Orders

WRITTEN = ("open", "write", "sync", "rename")


def flip(file, draw):
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)


def cut(file, draw):
    file.write_bytes(file.read_bytes()[: draw.randrange(file.stat().st_size)])


class DiskTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.orders = Orders(self.folder)
        self.write_endless_job(checkpoint={"every": "200ms"})

    def start_cluster(self, *words):
        """`downpour run`, on a disk that obeys, once there is a checkpoint."""
        words = [TOOL, "run", self.job_file, "--job-dir", self.job_dir, "--trace", *words]
        self.run_ = Process(self, self.orders.obeyed(words))
        self.run_.wait_for_line("chief at ")
        return self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)

    def end(self):
        self.run_.signal(signal.SIGINT)
        self.assertEqual(self.run_.finish()[0], 130, self.run_.said)
        return self.check_cancelled()

    def gets_on(self, status):
        done = status["progress"]["commits"]
        return self.wait_until(lambda s: complete(s) and s["progress"]["commits"] > done)

    def test_a_failing_disk_spoils_the_next_checkpoint_alone(self):
        status = self.start_cluster()
        for error, words in (("ENOSPC", "No space left on device"), ("EIO", "Input/output error")):
            for call in WRITTEN:
                self.orders.give("fail", call, error, "/checkpoints/")
                status = self.wait_until(lambda s: words in s["checkpoint"]["lastError"])
                self.assertIn("/checkpoints", status["checkpoint"]["lastError"])
                code, out, err = self.tool("checkpoint", "verify", "--job-dir", self.job_dir)
                self.assertEqual(code, 0, out + err)
                self.assertIn(status["checkpoint"]["round"], out)
                status = self.gets_on(status)  # nobody waits for the disk
                self.orders.recall()
                before = status["checkpoint"]["leasesCommitted"]
                mended = lambda checkpoint: checkpoint["leasesCommitted"] > before and not checkpoint["lastError"]
                self.wait_until(lambda s: mended(s["checkpoint"]))
        summary = self.end()
        self.assertEqual((summary["workersLost"], summary["psLost"], summary["chiefRestarts"]), (0, 0, 0))

    def test_a_chief_whose_journal_cannot_be_written_waits_and_says_so(self):
        status = self.start_cluster()
        for call, error in (("write", "ENOSPC"), ("sync", "EIO")):
            self.orders.give("fail", call, error, "/journal")
            kill(task_of(status, "worker-0")["pid"])  # which it counts there
            self.wait_until(lambda s: any("journal" in wait["for"] + wait["why"] for wait in s["waits"]))
            self.orders.recall()
            status = self.gets_on(self.wait_until(lambda s: not s["waits"]))
        self.assertEqual(self.end()["chiefRestarts"], 0)

    def test_a_chief_that_finds_the_disk_full_is_tried_again(self):
        status = self.start_cluster()
        self.orders.give("fail", "write", "ENOSPC", "/term.")
        kill(status["chief"]["pid"])
        self.run_.wait_for_line(r"exit code 1, its log ends with: the job folder cannot be written: .*No space left")
        self.orders.recall()
        self.gets_on(self.wait_until(lambda s: s["recovery"]["chiefRestarts"] == 1 and complete(s)))
        self.end()

    def test_a_chief_dies_between_two_calls_of_its_disk(self):
        """Thrice under one `downpour run`, which gives up after six deaths if it saw no progress: it asks seldom."""
        for first in range(1, 40, 8):
            status = self.start_cluster(*([] if first == 1 else ["--resume"]))
            killed = 0
            for nth in (first, first + 4):
                killed += self.die_at(nth, status, of_successor=nth == first)
                status = self.gets_on(self.wait_until(lambda s: complete(s) and not self.orders.given))
            self.end()
            self.assertEqual(len(re.findall(r"chief \(pid \d+\) ended: signal 9", self.run_.said)), killed)

    def die_at(self, nth, status, of_successor):
        """The call is one of a successor's start, else the chief's own, of journal and checkpoints. How many die."""
        order = ("die", nth, f"downpour-chief:{self.job_dir}")
        if not of_successor:
            self.orders.give(*order)
            return 1
        kill(status["chief"]["pid"], signal.SIGSTOP)
        self.orders.give(*order)
        kill(status["chief"]["pid"])
        return 2

    def test_what_was_damaged_is_found_named_and_done_without(self):
        draw = random.Random(7)
        self.start_cluster()
        self.end()
        newest = lambda: self.job_dir / self.summary()["checkpoint"]
        for damage in (flip, flip, cut):
            for choose in (
                lambda: newest() / "MANIFEST",
                lambda: next(newest().glob("*.shard")),
                lambda: self.job_dir / "journal.a",
            ):
                file = choose()
                name = str(file.relative_to(self.job_dir))
                damage(file, draw)
                if file.parent != self.job_dir:
                    code, out, err = self.tool("checkpoint", "verify", "--job-dir", self.job_dir)
                    self.assertEqual(code, 1, out)
                    self.assertIn(name, out + err)
                self.start_cluster("--resume")
                self.wait_until(lambda s: any(name in failure["what"] for failure in s["failures"]))
                self.end()

    def lose_checkpoints(self):
        (self.job_dir / "checkpoints").rename(self.job_dir / "lost")  # one call, whatever the chief is at

    def test_nobody_begins_anew_where_checkpoints_are_lost_unless_he_says_so(self):
        self.start_cluster()
        newest = pathlib.Path(self.end()["checkpoint"]).name
        self.lose_checkpoints()
        resume = ("run", self.job_file, "--job-dir", self.job_dir, "--resume")
        for words in (resume, resume[:-1], (*resume, "--give-up", "99-1")):
            code, _, err = self.tool(*words)
            self.assertEqual(code, 1, err)
            self.assertIn(f"checkpoint {newest}, the newest that was here, cannot be used", err)
            self.assertIn(f"checkpoints/{newest}/MANIFEST is gone. Bring its files back, or begin again: ", err)
            self.assertIn(f"--give_up={newest}", err)
        self.assertRegex(self.tool("checkpoint", "list", "--job-dir", self.job_dir)[1], rf"{newest} .* gone: ")
        self.assertEqual(self.tool("checkpoint", "verify", "--job-dir", self.job_dir)[0], 1)
        self.start_cluster("--resume", f"--give_up={newest}")
        kill(self.wait_until(complete)["chief"]["pid"])  # whoever takes its place is told the same, and goes on
        self.gets_on(self.wait_until(lambda s: s["recovery"]["chiefRestarts"] == 1))
        self.end()

    def test_what_the_ps_hold_goes_on_where_checkpoints_are_lost(self):
        self.start_cluster()
        known = lambda: "newestCheckpoint" in (self.job_dir / "journal.b").read_text()
        status = self.wait_until(lambda s: known())
        kill(status["chief"]["pid"], signal.SIGSTOP)
        self.lose_checkpoints()
        kill(status["chief"]["pid"])
        status = self.wait_until(lambda s: s["recovery"]["chiefRestarts"] == 1 and complete(s))
        failures = status["failures"]
        self.assertTrue(any("MANIFEST is gone" in failure["what"] for failure in failures), failures)
        self.wait_until(lambda s: s["checkpoint"].get("round", "").startswith(f"{s['chief']['term']}-"))
        self.assertEqual(self.end()["psLost"], 0)


if __name__ == "__main__":
    unittest.main()

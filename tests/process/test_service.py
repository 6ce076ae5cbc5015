"""The roles as services of systemd: what they tell it, and whether it understands their units."""

import os
import shutil
import signal
import socket
import subprocess
import unittest

from cluster import LONG, PROGRAMS, ROOT, ProcessTest, free_port

UNITS = ROOT / "deploy/systemd"


class NotifyTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(str(self.folder / "notify"))
        self.manager.settimeout(LONG)
        self.told = {"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "1000000"}
        os.environ.update(self.told)
        self.addCleanup(lambda: [os.environ.pop(name) for name in self.told])

    def hears(self, *expected):
        for words in expected:
            self.assertEqual(self.manager.recv(100).decode(), words)

    def check(self, role, *flags):
        task = self.start(role, *flags)
        self.hears("READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1")
        task.signal(signal.SIGTERM)
        words = "WATCHDOG=1"
        while words == "WATCHDOG=1":
            words = self.manager.recv(100).decode()
        self.assertEqual(words, "STOPPING=1")
        self.assertEqual(task.finish()[0], 143, task.said)

    def test_members_are_ready_while_they_wait_for_their_chief(self):
        for role in ("ps", "worker"):
            self.check(role, f"--chief=127.0.0.1:{free_port()}")

    def test_the_chief_is_ready_before_its_members_are_there(self):
        self.write_job()
        self.check("chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}")


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not there: the units are not verified")
class UnitsTest(ProcessTest):
    def verify(self, change=lambda text: text):
        """What systemd has to say of the units, with the programs where they were built."""
        programs = self.folder / "bin"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        for program in PROGRAMS.values():
            (programs / program.name).symlink_to(program)
        units = []
        for template in sorted(UNITS.glob("*.service.in")):
            text = change(template.read_text().replace("@bindir@", str(programs)))
            units.append(self.folder / template.stem)
            units[-1].write_text(text)
        self.assertEqual(len(units), 3)
        done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=LONG)
        return "\n".join(line for line in done.stderr.splitlines() if "downpour" in line)  # not of the host's own units

    def test_systemd_has_nothing_to_say(self):
        self.assertEqual(self.verify(), "")

    def test_who_hangs_is_killed_without_a_crash_that_a_push_is_blamed_for(self):
        for template in sorted(UNITS.glob("*.service.in")):
            lines = template.read_text().splitlines()
            self.assertIn("WatchdogSec=30", lines)
            self.assertIn("WatchdogSignal=SIGKILL", lines, f"{template}: SIGABRT would leave a crash note")

    def test_it_would_have_something_to_say(self):
        self.assertIn("WatchdogSeconds", self.verify(lambda text: text.replace("WatchdogSec=", "WatchdogSeconds=")))
        self.assertIn("not executable", self.verify(lambda text: text.replace("/bin/downpour-", "/bin/dawnpour-")))


if __name__ == "__main__":
    unittest.main()

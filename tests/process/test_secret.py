"""A job without keys: whoever may read its folder may ask it and command it, and nobody else of this host."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import stat
import subprocess
import unittest

from cluster import LONG, TOOL, ProcessTest, complete, free_port

NOBODY = pwd.getpwnam("nobody").pw_uid


class SecretTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.write_endless_job()
        self.where = ("--job-dir", self.job_dir)

    def chief(self):
        return json.loads((self.job_dir / "chief.json").read_text())

    def commands(self):
        return (["status"], ["watch"], ["stop"], ["scale", "--workers", 1], ["checkpoint", "now"])

    def check_unharmed(self):
        status = self.wait_until(complete)
        self.assertEqual(status["chief"]["commands"], 0)
        self.assertEqual(status["workers"]["wanted"], 2)

    def test_who_knows_only_the_address_is_told_where_the_secret_is(self):
        run = self.start_run()
        self.wait_until(complete)
        file = self.job_dir / "chief.json"
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        at = self.chief()["endpoint"]
        for command in self.commands():
            code, out, err = self.tool(*command, "--chief", at)
            self.assertEqual((code, out), (69, ""), err)
            self.assertIn("without keys it answers only who says the secret in its job folder's chief.json. Give "
                          "--job-dir DIR, that folder, in place of --chief", err)  # fmt: skip
        code, out, _ = self.tool("doctor", "--cluster=none", "--chief", at)
        self.assertEqual(code, 1)
        self.assertRegex(out, r"PROBLEM +chief +the chief at .* refuses: without keys")
        self.check_unharmed()
        self.assertGreaterEqual(self.wait_until(complete)["chief"]["rejected"], 5)
        secret = self.chief()["secret"]
        for text in (run.said, *(log.read_text() for log in (self.job_dir / "logs").iterdir())):
            self.assertNotIn(secret, text)
        self.assertEqual(self.tool("scale", "--workers", 1, *self.where)[0], 0)
        self.assertEqual(self.tool("stop", *self.where)[0], 0)
        self.assertEqual(run.finish()[0], 143, run.said)

    @unittest.skipUnless(os.geteuid() == 0, "only root can ask as another user")
    def test_another_user_of_the_host_may_not_read_it(self):
        self.start_run()
        self.wait_until(complete)
        self.folder.chmod(0o755)
        tool = shutil.copy(TOOL, self.folder / "downpour")  # wherever the build is, others may not get there
        for command in self.commands():
            words = [tool, *map(str, command), *map(str, self.where)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=LONG, user=NOBODY, group=NOBODY,
                                  extra_groups=[], cwd="/")  # fmt: skip
            self.assertEqual((done.returncode, done.stdout), (69, ""), done.stderr)
            self.assertIn(f"may not read {self.job_dir}/chief.json", done.stderr)
            self.assertIn("ask as the user whose job it is", done.stderr)
        self.check_unharmed()

    def test_a_chief_that_comes_after_draws_another_one_at_the_same_port(self):
        run = self.start_run("--listen", f"127.0.0.1:{free_port()}")
        self.wait_until(complete)
        before = self.chief()
        watch = self.statuses()
        next(watch)
        os.kill(before["pid"], signal.SIGKILL)
        status = next(s for s in watch if s["chief"]["pid"] != before["pid"] and complete(s))
        self.assertEqual(status["chief"]["endpoint"], before["endpoint"])
        self.assertNotEqual(self.chief()["secret"], before["secret"])
        self.assertEqual(self.tool("stop", *self.where)[0], 0)
        self.assertEqual(run.finish()[0], 143, run.said)

    def test_where_keys_tell_who_may_ask_there_is_none(self):
        self.start_run("--listen", "0.0.0.0:0")
        self.wait_until(complete)
        self.assertNotIn("secret", self.chief())
        self.assertTrue(stat.S_IMODE((self.job_dir / "chief.json").stat().st_mode) & 0o044)

    def test_at_a_path_keys_tell_nobody_so_there_is_one(self):
        keys, path = self.folder / "keys", self.folder / "socket"
        self.assertEqual(self.tool("keys", "new", "--out", keys)[0], 0)
        chief = self.start("chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}", f"--keys={keys}",
                           f"--listen=ipc://{path}")  # fmt: skip
        chief.wait_for_line("waits for its tasks at")
        code, _, err = self.tool("status", "--chief", f"ipc://{path}", "--keys", keys)
        self.assertEqual(code, 69, err)
        self.assertEqual(self.tool("status", *self.where, "--keys", keys)[0], 0)

    def test_metrics_of_the_chief_itself_need_none(self):
        port = free_port()
        self.start_run("--metrics", f"127.0.0.1:{port}")
        self.wait_until(complete)
        got = subprocess.run(["curl", "-sf", f"http://127.0.0.1:{port}/metrics"], capture_output=True, text=True)
        self.assertIn("downpour_", got.stdout)


if __name__ == "__main__":
    unittest.main()

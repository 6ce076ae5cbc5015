"""What hosts give back as their programs' results, as deploy/follow.py puts it into the folder here."""

import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
sys.path.insert(0, str(DEPLOY))
import follow  # noqa: E402


class FakeHost:
    dir, slots = "downpour/a", {"worker": 1}

    def __init__(self, name, archive, running=""):
        self.name, self.archive, self.running, self.asked = name, archive, running, []

    def run(self, script, check=True):
        self.asked.append(script)
        return 0, self.running if script == "running" else ""

    def command(self, script):
        return ["cat", self.archive]


class BringResultsTest(unittest.TestCase):
    def setUp(self):
        self.base = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.results = self.base / "results"
        self.results.mkdir()

    def host(self, name, *entries, running="", cut=None):
        """Entries are (name, text, mtime, mode); a text of None is a folder."""
        path = self.base / f"{name}.tar"
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            for file, text, mtime, mode in entries:
                entry = tarfile.TarInfo(file)
                entry.mtime, entry.mode, entry.size = mtime, mode, len(text or "")
                entry.type = tarfile.DIRTYPE if text is None else tarfile.REGTYPE
                archive.addfile(entry, io.BytesIO((text or "").encode()))
        if cut:
            os.truncate(path, cut)
        return FakeHost(name, path, running)

    def bring(self, *hosts):
        options = argparse.Namespace(job_dir=self.base, results=self.results, below="/a")
        with unittest.mock.patch.object(follow, "find_chief"), unittest.mock.patch.object(follow, "PAUSE", 0), \
                unittest.mock.patch.object(follow, "complain") as complain:  # fmt: skip
            follow.Follower(list(hosts), options).bring_results()
        return [str(call.args[0]) for call in complain.call_args_list]

    def check_kept(self, host, said):
        self.assertNotIn("rm -rf results", host.asked)
        self.assertIn(f"on {host.name} did not come", said[-1])

    def test_nothing_is_written_through_a_link_that_is_there(self):
        outside = self.base / "outside"
        outside.mkdir()
        (outside / "x").write_text("mine")
        (self.results / "latest").symlink_to(outside)
        host = self.host("h1", ("latest/x", "theirs", 9e9, 0o644))
        self.check_kept(host, self.bring(host))
        (self.results / "model.pt").symlink_to(outside / "x")
        self.bring(self.host("h2", ("model.pt", "theirs", 9e9, 0o644)))
        self.assertEqual((outside / "x").read_text(), "mine")

    def test_the_newer_of_two_counts_in_either_order(self):
        new, old = ("x", "new", 2000, 0o644), ("x", "old", 1000, 0o644)
        for first, second in ((new, old), (old, new)):
            self.bring(self.host("h1", first), self.host("h2", second))
            self.assertEqual((self.results / "x").read_text(), "new")
            (self.results / "x").unlink()

    def test_the_newer_one_counts_after_a_killed_follower_too(self):
        self.bring(self.host("h1", ("x", "new", 2000, 0o644)))
        self.bring(self.host("h2", ("x", "old", 1000, 0o644)))
        self.assertEqual((self.results / "x").read_text(), "new")

    def test_a_stream_that_breaks_leaves_the_whole_file(self):
        (self.results / "x").write_text("whole")
        os.utime(self.results / "x", (1, 1))
        host = self.host("h1", ("x", "y" * 100000, 2000, 0o644), cut=50000)
        self.check_kept(host, self.bring(host))
        self.assertEqual([(path.name, path.read_text()) for path in self.results.iterdir()], [("x", "whole")])

    def test_a_name_that_no_file_can_have_does_not_end_the_rest(self):
        self.bring(self.host("h1", ("a\0ü", "", 1, 0o644), ("b", "b", 1, 0o644)))
        self.assertEqual([path.name for path in self.results.iterdir()], ["b"])

    def test_folders_can_be_read_and_programs_be_run(self):
        self.bring(self.host("h1", ("d", None, 1, 0o700), ("d/run", "", 1, 0o755)))
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual((self.results / "d").stat().st_mode & 0o777, 0o777 & ~mask)
        self.assertEqual((self.results / "d/run").stat().st_mode & 0o777, 0o777 & ~mask)

    def test_of_many_links_the_first_are_named(self):
        host = self.host("h1", *((f"../x{i}", "", 1, 0o644) for i in range(1000)))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.bring(host)
        self.assertEqual(len(said.getvalue().splitlines()), follow.MOST_NAMED + 1)
        self.assertIn(f"h1: {1000 - follow.MOST_NAMED} more", said.getvalue())

    def test_a_host_where_something_runs_keeps_its_results(self):
        host = self.host("h1", ("x", "x", 1, 0o644), running="worker-0\n")
        self.check_kept(host, self.bring(host))


class ResultsOptionTest(unittest.TestCase):
    def test_the_folder_is_a_whole_path(self):
        """An argument is told by its text, and `out` may be another argument's."""
        words = ["run", "no.hosts", "job.yaml", "--job-dir", "/tmp/x", "--results", "out", "--module-name", "m",
                 "--", "--job-dir", "./out"]  # fmt: skip
        run = subprocess.run([sys.executable, DEPLOY / "cluster", *words], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--results out is no whole path", run.stderr)


if __name__ == "__main__":
    unittest.main()

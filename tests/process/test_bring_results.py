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
        self.measure = "0 0"  # a host may tell less than it sends

    def run(self, script, check=True):
        self.asked.append(script)
        return 0, {"running": self.running, follow.MEASURE: self.measure}.get(script, "")

    def command(self, script):
        return ["cat", self.archive]


class BringResultsTest(unittest.TestCase):
    most_files = 2000

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
        options = argparse.Namespace(job_dir=self.base, results=self.results, below="/a",
                                     results_files=self.most_files, results_gib=1)  # fmt: skip
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

    def test_more_than_may_come_stays_there_and_names_the_limit(self):
        few, many = (("x", "", 1, 0o644),), tuple((f"{i}", "", 1, 0o644) for i in range(3))
        self.most_files = 3
        cases = (("4 0", few, "--results-files allows 3", []),
                 (f"1 {(1 << 30) + 1}", few, "--results-gib allows 1", []),
                 ("0 0", (*many, *few), "4 files and folders, and", ["0", "1", "2"]))  # fmt: skip
        for measure, entries, limit, comes in cases:
            with self.subTest(limit):
                host = self.host("h1", *entries)
                host.measure = measure
                said = self.bring(host)
                self.check_kept(host, said)
                self.assertIn(limit, said[0])
                self.assertEqual(len(said), 2, "it is not tried again")
                self.assertEqual(sorted(path.name for path in self.results.iterdir()), comes)

    def test_all_hosts_together_have_one_limit(self):
        self.most_files = 3
        hosts = [self.host(f"h{i}", (f"{i}a", "", 1, 0o644), (f"{i}b", "", 1, 0o644)) for i in range(2)]
        for host in hosts:
            host.measure = "2 0"
        said = self.bring(*hosts)
        self.assertIn("rm -rf results", hosts[0].asked)
        self.check_kept(hosts[1], said)
        self.assertEqual(sorted(path.name for path in self.results.iterdir()), ["0a", "0b"])

    def test_what_a_host_has_is_measured(self):
        folder = self.base / "there/results"
        (folder / "sub dir\nx").mkdir(parents=True)
        (folder / "sub dir\nx/y").write_text("12345")
        (folder / "link").symlink_to("/etc/passwd")
        run = subprocess.run(follow.MEASURE, shell=True, cwd=folder.parent, capture_output=True, text=True)
        self.assertEqual(run.stdout, "3 5", run.stderr)

    def test_a_host_that_tells_no_measure_keeps_its_results(self):
        host = self.host("h1", ("x", "x", 1, 0o644))
        host.measure = "find: command not found"
        self.check_kept(host, self.bring(host))

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

    def test_limits_are_whole_numbers(self):
        words = ["run", "no.hosts", "job.yaml", "--job-dir", "/tmp/x"]
        for more, environment in ((["--results-files", "0"], {}), ([], {"DOWNPOUR_RESULTS_GIB": "lots"})):
            run = subprocess.run([sys.executable, DEPLOY / "cluster", *words, *more], capture_output=True, text=True,
                                 env=os.environ | environment)  # fmt: skip
            self.assertEqual(run.returncode, 2)
            self.assertIn("is no whole number from 1", run.stderr)


if __name__ == "__main__":
    unittest.main()

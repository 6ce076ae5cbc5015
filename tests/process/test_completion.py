"""Completion: real shells complete what the tool prints for them."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import LONG, TOOL

# The last word of each line is completed.
LINES = {
    "downpour chec": {"check", "checkpoint"},
    "downpour run job.yaml --res": {"--resume"},
    "downpour data di": {"digits"},
    "downpour data digits --o": {"--out"},
    "downpour checkpoint list --job": {"--job-dir"},
    "downpour help wat": {"watch"},
}
BASH = """
source "$1"
COMP_WORDS=($2)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_downpour
printf '%s\\n' "${COMPREPLY[@]}"
"""
# The widget that a Tab calls wants a terminal, so the words that the function offers are caught here.
ZSH = """
words=(${=2})
CURRENT=${#words}
compadd() { shift; print -l -- $@ }
_files() { }
source $1
"""


class CompletionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-completion-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def script(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f"there is no {shell}")
        path = self.folder / f"downpour.{shell}"
        path.write_bytes(self.run_all(TOOL, "completion", shell))
        return path

    def run_all(self, *words):
        done = subprocess.run([str(word) for word in words], capture_output=True, timeout=LONG)
        self.assertEqual((done.returncode, done.stderr), (0, b""), words)
        return done.stdout

    def check(self, complete):
        for line, expected in LINES.items():
            offered = {word for word in complete(line).decode().split("\n") if word.startswith(line.split()[-1])}
            self.assertEqual(offered, expected, line)

    def test_bash(self):
        script = self.script("bash")
        self.check(lambda line: self.run_all("bash", "-uc", BASH, "bash", script, line))

    def test_zsh(self):
        script = self.script("zsh")
        self.check(lambda line: self.run_all("zsh", "-fc", ZSH, "zsh", script, line))

    def test_fish(self):
        script = self.script("fish")
        # split fails where it finds nothing to split.
        ask = "source $argv[1]; complete -C $argv[2] | string split -f1 \\t; true"
        self.check(lambda line: self.run_all("fish", "--no-config", "-c", ask, script, line))

    def test_an_unknown_shell_is_refused_by_name(self):
        done = subprocess.run([TOOL, "completion", "tcsh"], capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 2)
        self.assertIn("tcsh", done.stderr)


if __name__ == "__main__":
    unittest.main()

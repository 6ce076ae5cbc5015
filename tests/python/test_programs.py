"""The programs that a wheel brings: found by the package, started by their commands.

The package is put where an installed one lies, with links in place of a wheel's programs. DOWNPOUR_WHEEL=FILE names a
wheel of tools/wheel, which is installed and trains; it is skipped by name without it.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from package import PACKAGE  # first: it says where the others are

from cluster import LONG, TOOL

COMMAND = "import sys\nfrom downpour.programs import run\nrun()\n"
WHEEL = os.environ.get("DOWNPOUR_WHEEL")


def call(*words, **environment):
    env = {key: value for key, value in os.environ.items() if not key.startswith("DOWNPOUR_")} | environment
    words = [str(word) for word in words]
    return subprocess.run(words, capture_output=True, text=True, timeout=LONG, cwd="/", env=env)


class ProgramsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-programs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        shutil.copytree(PACKAGE / "downpour", self.folder / "downpour", ignore=shutil.ignore_patterns("__pycache__"))

    def bring(self, name, text):
        program = self.folder / "downpour/bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
        return program

    def command(self, name):
        command = self.folder / "commands" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!{sys.executable}\n{COMMAND}")
        command.chmod(0o755)
        return command

    def test_a_command_becomes_the_program_of_its_name(self):
        self.bring("downpour-ps", '#!/bin/sh\necho "$$ $DOWNPOUR_PYTHON $*"\nexit 69\n')
        started = [str(self.command("downpour-ps")), "--index=1", "two words"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DOWNPOUR_")}
        child = subprocess.Popen(
            started, stdout=subprocess.PIPE, text=True, env=environment | {"PYTHONPATH": str(self.folder)}
        )
        said, _ = child.communicate(timeout=LONG)
        self.assertEqual(said, f"{child.pid} {sys.executable} --index=1 two words\n")
        self.assertEqual(child.returncode, 69)

    def test_python_code_runs_where_the_user_says(self):
        self.bring("downpour", '#!/bin/sh\necho "$DOWNPOUR_PYTHON"\n')
        done = call(self.command("downpour"), PYTHONPATH=str(self.folder), DOWNPOUR_PYTHON="/opt/python3")
        self.assertEqual(done.stdout, "/opt/python3\n")

    def test_a_package_without_programs_says_so(self):
        done = call(self.command("downpour-chief"), PYTHONPATH=str(self.folder))
        self.assertEqual(done.returncode, 127)
        self.assertIn("downpour-chief: this package came without programs: install the wheel", done.stderr)

    def test_the_package_takes_the_tool_that_came_with_it(self):
        question = "from downpour.tool import Tool; print(Tool().path)"
        nobody = "/usr/bin:/bin"
        alone = call(sys.executable, "-c", question, PYTHONPATH=str(self.folder), PATH=nobody)
        self.assertIn("there is no program downpour in the PATH: install Downpour (its wheel", alone.stderr)
        brought = self.bring("downpour", "#!/bin/sh\n")
        for expected, more in ((brought, {}), (TOOL, {"DOWNPOUR_TOOL": str(TOOL)})):
            done = call(sys.executable, "-c", question, PYTHONPATH=str(self.folder), PATH=nobody, **more)
            self.assertEqual(done.stdout, f"{expected}\n", done.stderr)


@unittest.skipUnless(WHEEL, "DOWNPOUR_WHEEL names no wheel of tools/wheel")
class WheelTest(unittest.TestCase):
    def test_it_trains_in_an_environment_that_has_nothing_else(self):
        with tempfile.TemporaryDirectory(prefix="downpour-wheel-") as name:
            folder = pathlib.Path(name)
            self.assertEqual(call(sys.executable, "-m", "venv", folder / "venv").returncode, 0)
            programs = folder / "venv/bin"
            installed = call(programs / "pip", "install", "--no-index", WHEEL)
            self.assertEqual(installed.returncode, 0, installed.stderr)
            drawn = call(programs / "downpour", "data", "digits", "--out", folder / "digits")
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
            words = ("run", folder / "digits/job.yaml", "--job-dir", folder / "run", "--set", "training.epochs=1")
            done = call(programs / "downpour", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads((folder / "run/summary.json").read_text())["state"], "SUCCEEDED")
            question = "import downpour, sys; print(len(downpour.Job(sys.argv[1]).checkpoints()) > 0)"
            asked = call(programs / "python", "-c", question, folder / "run")
            self.assertEqual(asked.stdout, "True\n", asked.stderr)


if __name__ == "__main__":
    unittest.main()

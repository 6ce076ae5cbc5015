"""What a package needs is installed once, by pip, for the code as it is. No network: wheels lie in a folder."""

import argparse
import fcntl
import json
import mmap
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import unittest.mock

from package import PACKAGE, is_there  # first: it says where the others are
from wheels import WAITING, write_wheel

from cluster import LONG, wait_for_death
from downpour import environment, modes
from downpour.errors import TrainingError

ABSENT = [f"python3-{module}" for module in ("pip", "setuptools", "wheel", "numpy") if not is_there(module)]
FIT = """
import numpy, downpour
step = lambda values, batch: (0.5, {"w": numpy.ones(3, numpy.float32)})
downpour.fit({"w": numpy.zeros(3, numpy.float32)}, train=numpy.zeros((20, 1)), step=step, epochs=1, batch_size=10)
"""
SETUP = "from setuptools import setup\nsetup(name='trainer', version='1.0', packages=['trainer'], {})\n"


@unittest.skipIf(ABSENT, f"{', '.join(ABSENT)}: not there, so nothing is installed")
class EnvironmentTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.wheels, self.code = self.folder / "wheels", self.folder / "code"
        self.wheels.mkdir()
        self.home = self.folder / "packages"
        self.environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1",
                            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}  # fmt: skip
        self.write({"trainer/__init__.py": "", "trainer/task.py": FIT})

    def write(self, files):
        for name, text in files.items():
            (self.code / name).parent.mkdir(parents=True, exist_ok=True)
            (self.code / name).write_text(textwrap.dedent(text))

    def start(self, python=sys.executable, **options):
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        words = ["describe", "--out", str(out), "--package", str(self.code), "--environment", str(self.home)]
        child = subprocess.Popen([python, "-m", "downpour.child", *words, "--module", "trainer.task"],
                                 env=self.environment, stderr=subprocess.PIPE, text=True, **options)  # fmt: skip
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def describe(self, code=0, **options):
        child = self.start(**options)
        said = child.communicate(timeout=LONG)[1]
        self.assertEqual(child.returncode, code, said)
        return said

    def made(self):
        """The environments that are complete, by their marks."""
        return [*self.folder.glob("*/made")]

    def check_nothing_is_left(self):
        self.assertEqual([*self.made(), *self.folder.glob("*/attempt-*")], [])

    def test_requirements_are_installed_once_for_the_same_code(self):
        write_wheel(self.wheels, "beside", "1.0")
        write_wheel(self.wheels, "within", "2.0", requires=["further"])
        write_wheel(self.wheels, "further", "3.0")
        check = "import beside, within, further, shutil, sys; print('has', further.VERSION, sys.prefix)\n"
        self.write({"requirements.txt": "beside==1.0\n", "trainer/requirements.txt": "within\n",
                    "trainer/task.py": check + FIT})  # fmt: skip
        said = self.describe()
        self.assertIn("installs the packages of requirements.txt, trainer/requirements.txt", said)
        self.assertRegex(said, f"has 3.0 {self.folder}/requirements-[0-9a-f]+/attempt-")
        said = self.describe()
        self.assertNotIn("installs", said)
        self.assertIn("has 3.0", said)
        self.assertEqual(len(self.made()), 1)

    def test_plain_requirements_outlive_other_changes_of_the_code(self):
        write_wheel(self.wheels, "needed", "1.0")
        self.write({"requirements.txt": "needed  # of ours\n", "trainer/task.py": "import needed\n" + FIT})
        self.describe()
        plain = ("needed\n\n", "needed[x]>=1,<2; python_version > '3'", "a==1.0 # words\nb")
        for text in (*plain, "./x.whl", "-e .", "needed @ file:///x.whl", "--no-index", "-r other.txt"):
            self.write({"requirements.txt": text})
            found = environment.Needs(self.code, "trainer").plain_requirements()
            self.assertEqual(found is not None, text in plain, text)
        self.home = self.folder / "other"  # as of other code
        self.write({"requirements.txt": "needed\n"})
        self.assertNotIn("installs", self.describe())
        self.write({"setup.py": SETUP.format("")})
        self.assertIn("installs the packages of requirements.txt, setup.py", self.describe())

    def test_without_needs_nothing_is_made(self):
        self.write({"pyproject.toml": "[tool.ruff]\nline-length = 120\n"})
        self.assertNotIn("installs", self.describe())
        # As gcloud packs a package that has no setup.py.
        self.write({"setup.py": SETUP.format(""), "PKG-INFO": "Name: trainer\n", "trainer.egg-info/SOURCES.txt": ""})
        self.assertNotIn("installs", self.describe())
        self.assertEqual(self.made(), [])

    def test_what_was_packed_without_setuptools_says_in_its_pkg_info_what_it_requires(self):
        self.write({"setup.py": SETUP.format(""), "PKG-INFO": "Metadata-Version: 1.0\nName: trainer\n"})
        self.assertNotIn("installs", self.describe())
        self.assertEqual(self.made(), [])
        packed = {"setup.py": SETUP.format(""), "PKG-INFO": "Metadata-Version: 2.1\nRequires-Dist: needed\n"}
        self.home = self.folder / "other"  # as of other code
        write_wheel(self.wheels, "needed", "1.0")
        self.write(packed)
        self.assertIn("installs", self.describe())

    def test_a_pkg_info_of_an_old_setuptools_leaves_out_what_setup_py_requires(self):
        write_wheel(self.wheels, "needed", "1.0")
        told = {"PKG-INFO": "Metadata-Version: 2.1\nName: trainer\n", "trainer/task.py": "import needed\n" + FIT}
        asking = SETUP.format("install_requires=['needed']")
        computed = SETUP.format("**{'install_' + 'requires': ['needed']}")
        for number, text in enumerate((asking, "OF = ['needed']\n" + asking, computed.replace("])", "]})"))):
            self.home = self.folder / f"other{number}"
            self.write({"setup.py": text, **told})
            self.assertIn("installs the packages of setup.py", self.describe(), text)
        self.home = self.folder / "by-setup-cfg"
        self.write({"setup.py": "from setuptools import setup\nsetup()\n", "setup.cfg": "[metadata]\nname = trainer\n"
                    "version = 1.0\n[options]\npackages = trainer\ninstall_requires = needed\n", **told})  # fmt: skip
        self.assertIn("installs the packages of setup.py", self.describe())

    def test_a_setup_py_brings_what_it_requires(self):
        write_wheel(self.wheels, "needed", "1.0")
        self.write({"setup.py": SETUP.format("install_requires=['needed']"), "trainer.egg-info/SOURCES.txt": "",
                    "trainer.egg-info/requires.txt": "needed\n",
                    "trainer/task.py": "import needed\n" + FIT})  # fmt: skip
        self.describe()
        self.assertEqual(len(self.made()), 1)

    def test_a_project_may_have_its_module_elsewhere(self):
        write_wheel(self.wheels, "needed", "1.0")
        (self.code / "src").mkdir()
        (self.code / "trainer").rename(self.code / "src/trainer")
        self.write({"src/trainer/task.py": "import needed\n" + FIT, "pyproject.toml": """
            [project]
            name = "trainer"
            version = "1.0"
            dependencies = ["needed"]
            """})  # fmt: skip
        self.environment["PIP_NO_BUILD_ISOLATION"] = "0"  # pip reads it as its flag is spelt: no
        self.describe()

    def test_packages_beside_the_code_are_installed_too(self):
        write_wheel(self.wheels, "needed", "1.0")
        self.write({"downpour_packages/common-1.0.tar.gz/setup.py":
                    "from setuptools import setup\nsetup(name='common', version='1.0', py_modules=['common'])\n",
                    "downpour_packages/common-1.0.tar.gz/common.py": "WORD = 'hello'\n",
                    "downpour_packages/common-1.0.tar.gz/common.egg-info/SOURCES.txt": "",
                    "trainer/task.py": "import wheel_of_ours, needed, common; print(common.WORD)\n" + FIT})  # fmt: skip
        write_wheel(self.code / "downpour_packages", "wheel_of_ours", "1.0", requires=["needed"])
        self.assertIn("\nhello\n", self.describe())

    def test_what_cannot_be_installed_is_told_by_the_last_lines_of_pip(self):
        self.write({"requirements.txt": "nothing-of-this-name==1.0\n"})
        said = self.describe(78)
        self.assertRegex(said.splitlines()[-1], "pip cannot install requirements.txt: .*No matching distribution found "
                         "for nothing-of-this-name==1.0")  # fmt: skip
        self.check_nothing_is_left()
        (self.code / "requirements.txt").unlink()
        self.write({"setup.py": "raise RuntimeError('no such luck')\n"})
        self.assertRegex(self.describe(78).splitlines()[-1], "pip cannot install setup.py: .*no such luck")
        self.check_nothing_is_left()

    def test_a_disk_that_refuses_leaves_nothing_half_made(self):
        write_wheel(self.wheels, "large", "1.0", {"large.py": "#" * 3_000_000})
        self.write({"requirements.txt": "large\n"})
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        said = self.describe(78, preexec_fn=limit)
        self.assertRegex(said.splitlines()[-1], "pip cannot install .*File too large")
        self.check_nothing_is_left()
        self.describe()

    def test_installing_has_a_bound(self):
        self.waiting_setup()
        self.environment["DOWNPOUR_INSTALL_SECONDS"] = "1"
        said = self.describe(78)
        self.assertRegex(said.splitlines()[-1], "took longer than 1 s, which DOWNPOUR_INSTALL_SECONDS may raise")
        self.check_nothing_is_left()
        self.environment["DOWNPOUR_INSTALL_SECONDS"] = "soon"
        self.assertIn("must be a whole number", self.describe(78).splitlines()[-1])

    def waiting_setup(self):
        """Pipes by which a setup.py says that it has begun, and by which it is let go on."""
        pipes = self.folder / "begun", self.folder / "go"
        for pipe in pipes:
            os.mkfifo(pipe)
        self.environment.update(BEGUN=str(pipes[0]), GO=str(pipes[1]))
        self.write({"setup.py": "import sys\n" + WAITING + SETUP.format("")})
        return pipes

    def test_one_installs_while_others_wait(self):
        begun, go = self.waiting_setup()
        first = self.start()
        open(begun).close()
        others = [self.start() for _ in range(2)]
        for other in others:
            self.assertIn("waits until another process here has installed setup.py", other.stderr.readline())
        threading.Thread(target=lambda: open(go, "w").close(), daemon=True).start()
        for child in (first, *others):
            said = child.communicate(timeout=LONG)[1]
            self.assertEqual(child.returncode, 0, said)
            self.assertEqual("Successfully installed" in said, child is first, said)

    def test_whoever_is_killed_in_the_middle_leaves_nothing_that_is_used(self):
        begun, _ = self.waiting_setup()
        first = self.start()
        open(begun).close()
        (pip,) = map(int, pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split())
        first.kill()
        wait_for_death(pip)  # it does not outlive who started it
        del self.environment["BEGUN"]
        self.assertIn("Successfully installed", self.describe())
        (mark,) = self.made()
        self.assertEqual([path.name for path in mark.parent.glob("attempt-*")], [mark.read_text()])

    def test_whoever_kills_pip_kills_what_waits_for_it(self):
        begun, _ = self.waiting_setup()
        first = self.start()
        open(begun).close()
        (pip,) = map(int, pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split())
        os.kill(pip, signal.SIGKILL)
        said = first.communicate(timeout=LONG)[1]
        self.assertEqual(first.returncode, -signal.SIGKILL, "as a killed process, which is started again")
        self.assertIn("downpour: pip was killed as it installed setup.py", said)
        del self.environment["BEGUN"]
        self.assertIn("Successfully installed", self.describe())

    def test_another_release_of_downpour_is_refused(self):
        write_wheel(self.wheels, "downpour", "9.9", {"downpour/__init__.py": "__version__ = '9.9'\n"})
        self.write({"requirements.txt": "downpour==9.9\n"})
        own = self.folder / "own"
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", own], check=True)
        (packages,) = own.glob("lib/python*/site-packages")
        (packages / "own.pth").write_text(f"{PACKAGE}\n")  # as an environment of the user's has it
        del self.environment["PYTHONPATH"]
        said = self.describe(78, python=own / "bin/python")
        self.assertRegex(said.splitlines()[-1], "downpour is of version 9.9 and not .*: leave it out of what the pack")
        self.check_nothing_is_left()
        (self.code / "requirements.txt").write_text("")
        self.describe(python=own / "bin/python")

    def test_a_python_that_cannot_install_is_told_what_to_add(self):
        self.write({"requirements.txt": ""})
        needs = environment.Needs(self.code, "trainer")
        with unittest.mock.patch("importlib.util.find_spec", return_value=None):
            with self.assertRaisesRegex(TrainingError, "neither pip nor ensurepip: .*apt-get install python3-venv"):
                environment._make(self.folder, needs)

    def test_a_worker_hears_what_is_installed(self):
        write_wheel(self.wheels, "needed", "1.0")
        self.write({"requirements.txt": "needed\n", "trainer/task.py": "import needed\n" + FIT})
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        ours.settimeout(LONG)
        memory = os.memfd_create("memory")
        os.ftruncate(memory, 2 * mmap.PAGESIZE)
        files = (theirs.fileno(), memory)
        words = ["work", "--channel", str(files[0]), "--memory", str(files[1]), "--package", str(self.code),
                 "--environment", str(self.home), "--module", "trainer.task"]  # fmt: skip
        child = subprocess.Popen([sys.executable, "-m", "downpour.child", *words], env=self.environment,
                                 pass_fds=files, stderr=subprocess.DEVNULL)  # fmt: skip
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        theirs.close()
        os.close(memory)
        heard = []
        with ours.makefile("rb") as channel:
            while not heard or "preparing" in heard[-1]:
                heard.append(json.loads(channel.read(int.from_bytes(channel.read(4), "little"))))
        self.assertEqual([message["preparing"]["waitingFor"] for message in heard[:-1]],
                         ["the packages of requirements.txt to be installed", "its Python code to call downpour.fit"])
        self.assertEqual(heard[-1]["ready"]["variables"], [{"name": "w", "shape": [3], "trainable": True}])
        home = os.open(self.made()[0].parent, os.O_RDONLY)
        self.addCleanup(os.close, home)
        with self.assertRaises(BlockingIOError, msg="it is in use, so nobody removes it"):
            fcntl.flock(home, fcntl.LOCK_EX | fcntl.LOCK_NB)
        child.kill()
        child.wait()
        fcntl.flock(home, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_it_is_entered_once(self):
        self.write({"requirements.txt": ""})
        options = argparse.Namespace(package=str(self.code), module="trainer.task", environment=str(self.home))
        with unittest.mock.patch("os.execv") as execv, unittest.mock.patch.dict(os.environ, self.environment):
            environment.enter(options, ["work", "--module", "trainer.task"], modes.Describe(str(self.folder)))
        (_, words), _ = execv.call_args
        self.assertEqual(words[1:], ["-m", "downpour.child", "work", "--module", "trainer.task"])


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main()

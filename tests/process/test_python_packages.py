"""Python code that says what it needs: installed for the job, by every way in which a job is started. No network."""

import importlib.util
import json
import os
import pathlib
import sys
import tarfile
import unittest
import unittest.mock

from cluster import ROOT, TOOL, Process, ProcessTest, kill, task_of

sys.path.append(str(ROOT / "tests/python"))
from wheels import WAITING, write_wheel  # noqa: E402

os.environ["PYTHONPATH"] = str(ROOT / "python")
os.environ["DOWNPOUR_PYTHON"] = sys.executable
ABSENT = [f"python3-{name}" for name in ("numpy", "pip", "setuptools", "wheel") if not importlib.util.find_spec(name)]
TASK = """
import json, os, sys
import numpy, needed
import downpour
task = json.loads(os.environ["TF_CONFIG"])["task"]
print("needed", needed.VERSION, "in", task["type"], task["index"], sys.argv[1:])
step = lambda values, batch: (0.5, {"w": numpy.ones(8, numpy.float32)})
downpour.fit({"w": numpy.zeros(8, numpy.float32)}, train=numpy.zeros((200, 1)), step=step, epochs=2, batch_size=10)
"""
SETUP = "from setuptools import setup\nsetup(name='trainer', version='1.0', packages=['trainer'], {})\n"


@unittest.skipIf(ABSENT, f"{', '.join(ABSENT)}: not there, so nothing is installed")
class PythonPackagesTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.wheels, self.project = self.folder / "wheels", self.folder / "project"
        self.wheels.mkdir()
        write_wheel(self.wheels, "needed", "1.5")
        self.write({"trainer/__init__.py": "", "trainer/task.py": TASK})
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps({"name": "own", "cluster": {"workerCount": 2, "parameterServerCount": 1}}))
        ours = {"XDG_CACHE_HOME": str(self.folder / "cache"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        self.addCleanup(lambda: [os.environ.pop(name) if value is None else os.environ.update({name: value})
                                 for name, value in before.items()])  # fmt: skip

    def write(self, files):
        for name, text in files.items():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.project / name).write_text(text)

    def write_sdist(self, name, files):
        """As setup.py makes one, which gcloud runs."""
        path = self.folder / f"{name}.tar.gz"
        source = self.folder / "sdist"
        with tarfile.open(path, "w:gz") as archive:
            for file, text in {"PKG-INFO": "", **files}.items():
                source.write_text(text)
                archive.add(source, f"{name}/{file}")
        return path

    def write_config(self, **fields):
        config = self.folder / "config.yaml"
        lines = ["trainingInput:", *(f"  {key}: {json.dumps(value)}" for key, value in fields.items())]
        config.write_text("\n".join(lines) + "\n")
        return config

    def code(self):
        return ["--package-path", self.project / "trainer", "--module-name", "trainer.task"]

    def run_to_its_end(self, *words, code=0):
        run = Process(self, [TOOL, "run", self.job_file, "--job-dir", self.job_dir, *words])
        self.assertEqual(run.finish()[0], code, run.said)
        return run.said

    def logs(self):
        return self.tool("logs", "--job-dir", self.job_dir)[1]

    def environments(self):
        return [*(self.folder / "cache").glob("downpour/code/*/made")]

    def test_requirements_are_installed_once_for_a_host(self):
        self.write({"requirements.txt": "needed==1.5\n"})
        said = self.run_to_its_end(*self.code(), "--", "--x", "3")
        self.assertIn("installs the packages of requirements.txt", said)
        self.assertIn("needed 1.5 in chief 0 ['--x', '3']", said, "as the model is made")
        logs = self.logs()
        self.assertRegex(logs, r"worker-(\d) \| needed 1.5 in worker \1 \['--x', '3'\]")
        self.assertNotIn("installs the packages", logs, "they are there")
        self.job_dir = self.folder / "again"
        self.assertNotIn("installs the packages", self.run_to_its_end(*self.code()), "the code is the same")
        self.assertEqual(len(self.environments()), 1)

    def test_what_config_yaml_says_is_meant(self):
        sdist = self.write_sdist("trainer-1.0", {
            "setup.py": SETUP.format("install_requires=['needed']"), "trainer/__init__.py": "", "trainer/task.py": TASK,
            "trainer.egg-info/SOURCES.txt": "", "trainer.egg-info/requires.txt": "needed\n"})  # fmt: skip
        wheel = write_wheel(self.folder, "further", "2.0")
        config = self.write_config(pythonModule="trainer.task", packageUris=[sdist.name, f"file://{wheel}"],
                                   args=["--epochs", "2"], jobDir="elsewhere", scaleTier="BASIC")  # fmt: skip
        said = self.run_to_its_end("--config", config)
        self.assertIn("installs the packages of setup.py, further-2.0-py3-none-any.whl", said)
        self.assertIn(f"in chief 0 ['--epochs', '2', '--job-dir', '{self.job_dir}']", said, "--job-dir beats jobDir")
        self.assertIn("needed 1.5 in worker 0", self.logs())
        self.job_dir = self.folder / "second"
        said = self.run_to_its_end("--config", config, "--", "--mine")
        self.assertIn("in chief 0 ['--mine', '--job-dir'", said, "the command line beats the file")
        code, out, err = self.tool("check", self.job_file, "--config", config)
        self.assertEqual(code, 0, err)
        self.assertIn("1 parameter server, 1 worker", out)
        code, out, err = self.tool("stage", self.job_file, "--config", config, "--job-dir", self.folder / "staged")
        self.assertEqual(code, 0, err)
        job = json.loads(pathlib.Path(out.strip()).read_text())
        self.assertEqual(job["python"]["args"], ["--epochs", "2", "--job-dir", str(pathlib.Path.cwd() / "elsewhere")])

    def test_a_package_whose_name_has_a_comma(self):
        sdist = self.write_sdist("trainer,ours-1.0", {"trainer/__init__.py": "", "trainer/task.py": TASK})
        packages = ["--packages", sdist, "--packages", self.wheels / "needed-1.5-py3-none-any.whl"]
        module = ["--module-name", "trainer.task"]
        self.assertIn("needed 1.5 in chief 0 []", self.run_to_its_end(*packages, *module))
        root = self.folder / "root"
        packages = ["--packages", f"{sdist},{packages[-1]}"]
        code, _, err = self.tool("jobs", "submit", "one", *packages, *module, "--root", root)
        self.assertEqual(code, 0, err)
        code, _, err = self.tool("jobs", "wait", "one", "--root", root)
        self.job_dir = root / "jobs/one"
        self.assertEqual(code, 0, err + self.logs())

    def test_a_worker_that_cannot_install_them_is_left_out(self):
        self.write({"requirements.txt": "needed==1.5\n"})
        code, job_json, err = self.tool("stage", self.job_file, "--job-dir", self.job_dir, *self.code(),
                                        "--python", sys.executable)  # fmt: skip
        self.assertEqual(code, 0, err)
        chief = self.start("chief", f"--job={job_json.strip()}", f"--job_dir={self.job_dir}", "--listen=127.0.0.1:0")
        at = chief.wait_for_line(r"at (127\.0\.0\.1:\d+)")[1]
        flags = lambda host: (f"--chief={at}", f"--python={sys.executable}", f"--code_folder={self.folder / host}")
        with unittest.mock.patch.dict(os.environ, PIP_FIND_LINKS=str(self.folder)):  # as on a host without the wheel
            worker = self.start("worker", "--index=1", *flags("poor"))
        status = self.wait_until(lambda s: task_of(s, "worker-1").get("state") == "REFUSED")
        self.assertIn(status["state"], ("QUEUED", "PREPARING"), "another one may come that can")
        self.assertRegex(json.dumps(status), "worker-1.*cannot prepare for the job: pip cannot install requirements")
        self.assertEqual(worker.finish()[0], 1, worker.said)
        self.start("ps", f"--chief={at}", "--index=0")
        self.start("worker", "--index=0", *flags("rich"))
        self.assertEqual(chief.finish()[0], 0, chief.said)
        self.assertEqual(self.summary()["samplesCommitted"], 400)
        self.assertIn("pip cannot install requirements.txt", json.dumps(self.summary()))

    def test_a_job_of_a_service_gets_them_too(self):
        config = self.write_config(pythonModule="trainer.task", args=["--epochs", "2"], scaleTier="BASIC",
                                   packageUris=[str(write_wheel(self.folder, "trainer", "1.0", {
                                       "trainer/__init__.py": "", "trainer/task.py": TASK}, ["needed"]))])  # fmt: skip
        root = self.folder / "root"
        code, out, err = self.tool("jobs", "submit", "one", "--config", config, "--root", root)
        self.assertEqual(code, 0, err)
        code, out, err = self.tool("jobs", "wait", "one", "--root", root)
        self.job_dir = root / "jobs/one"
        self.assertEqual(code, 0, err + self.logs())
        self.assertIn("needed 1.5 in worker 0 ['--epochs', '2']", self.logs())
        self.write({"requirements.txt": "no-such-thing-here\n"})
        code, _, err = self.tool("jobs", "submit", "two", *self.code(), "--root", root)
        self.assertEqual(code, 0, err)
        code, _, err = self.tool("jobs", "wait", "two", "--root", root)
        self.assertEqual(code, 1, err)
        self.assertRegex(err, "pip cannot install requirements.txt: .*no-such-thing-here")

    def test_what_cannot_be_had_is_refused_before_anything_starts(self):
        bad = self.write_sdist("bad-1.0", {"../../../stolen": "x"})
        for number, (files, words, sentence) in enumerate([
            ({"requirements.txt": "no-such-thing-here\n"}, self.code(),
             "pip cannot install requirements.txt: .*No matching distribution found for no-such-thing-here"),
            ({"setup.py": "raise RuntimeError('no such luck')\n"}, self.code(),
             "pip cannot install .*setup.py: .*no such luck"),
            ({"requirements.txt": "needed\n", "setup.py": SETUP.format(""), "trainer/task.py": "import needed\n"},
             self.code(), "never called downpour.fit"),
            ({}, ["--packages", bad, "--module-name", "trainer.task"], "outside its folder"),
            ({}, ["--packages", self.folder / "none.whl", "--module-name", "trainer.task"], "there is no such file"),
            ({}, ["--config", self.write_config(pythonModule="trainer.task", packageUris=["none-1.0.tar.gz"])],
             r"config.yaml:3: trainingInput.packageUris: there is no file .*/none-1.0.tar.gz"),
            ({}, ["--module-name", "trainer.other"], "needs trainer/ or trainer.py"),
        ]):  # fmt: skip
            with self.subTest(sentence):
                self.write(files)
                self.job_dir = self.folder / f"job{number}"
                self.assertRegex(self.run_to_its_end(*words, code=78), sentence)
                self.assertFalse((self.job_dir / "chief.json").exists(), "nothing was started")
        config = self.write_config(pythonModule="trainer.task", packageUris=["gs://bucket/trainer-1.0.tar.gz"])
        self.assertRegex(self.run_to_its_end("--config", config, code=78),
                         "config.yaml:3: .*gs://bucket/trainer-1.0.tar.gz cannot be had here: .*a service")  # fmt: skip
        self.assertIn("--packages has no meaning here", self.run_to_its_end("--packages", bad, code=2))
        self.assertFalse((self.folder / "stolen").exists())

    def test_a_worker_tells_that_it_installs_and_lives_meanwhile(self):
        begun, go = self.folder / "begun", self.folder / "go"
        for pipe in (begun, go):
            os.mkfifo(pipe)
        self.write({"setup.py": "import sys\n" + WAITING + SETUP.format("install_requires=['needed']")})
        code, job_json, err = self.tool("stage", self.job_file, "--job-dir", self.job_dir, *self.code(),
                                        "--python", sys.executable)  # fmt: skip
        self.assertEqual(code, 0, err)
        chief = self.start("chief", f"--job={job_json.strip()}", f"--job_dir={self.job_dir}", "--listen=127.0.0.1:0")
        at = chief.wait_for_line(r"at (127\.0\.0\.1:\d+)")[1]
        self.start("ps", f"--chief={at}", "--index=0")
        os.environ.update(BEGUN=str(begun), GO=str(go))
        self.addCleanup(lambda: [os.environ.pop(name, None) for name in ("BEGUN", "GO")])
        flags = (f"--chief={at}", f"--python={sys.executable}", f"--code_folder={self.folder / 'host'}")
        first = self.start("worker", "--index=0", *flags)
        open(begun).close()  # its setup.py runs
        waits = lambda s, word: word in json.dumps([s["waits"], s["pending"]])
        self.wait_until(lambda s: waits(s, "waits for the packages of setup.py to be installed"))
        second = self.start("worker", "--index=1", *flags)
        status = self.wait_until(lambda s: waits(s, "packages that another process of its host installs"))
        self.assertEqual({task_of(status, name)["state"] for name in ("worker-0", "worker-1")}, {"PREPARING"})
        kill(first.pid)
        open(begun).close()  # the second begins again, in a place of its own
        third = self.start("worker", "--index=0", *flags)
        theirs = lambda s: [wait["why"] for wait in s["waits"] + s["pending"] if wait["task"] == "worker-0"]
        self.wait_until(lambda s: any("that another process of its host installs" in why for why in theirs(s)))
        open(go, "w").close()  # only now: who has not joined when the job ends waits for another chief
        self.assertEqual(chief.finish()[0], 0, chief.said)
        self.assertEqual((second.finish()[0], third.finish()[0]), (0, 0), second.said + third.said)
        (mark,) = (self.folder / "host").glob("*.packages-*/made")
        self.assertEqual([path.name for path in mark.parent.glob("attempt-*")], [mark.read_text()])
        self.assertIn("installs the packages of setup.py", self.logs())


if __name__ == "__main__":
    unittest.main()

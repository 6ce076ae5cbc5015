"""What the process tests are made of: small jobs on drawn data, the real binaries, and statuses as they change.

Nothing here sleeps: `downpour watch` says when something has changed, a pipe when something was said. No test may
depend on who is faster: a job outlasts what is looked at (an endless one, ended by a signal), or begins only once all
its tasks are there (its last server starts last). DOWNPOUR_TEST_JITTER=SEED (jitter.py) finds those that do.
"""

import json
import os
import pathlib
import queue
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from jitter import Jitter

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
TOOL = BUILD / "tools/downpour"
PROGRAMS = {role: BUILD / role / f"downpour-{role}" for role in ("chief", "ps", "worker")}
# Children are to get the default even where this program was started in the background, with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["DOWNPOUR_METADATA_SERVER"] = ""  # this machine's own fate is nothing to a test
for name in list(os.environ):  # nor is the cluster, or the service, that the tests themselves may run in
    if name.startswith(("TF_CONFIG", "CLUSTER_SPEC", "DMLC_", "MASTER_", "RANK", "WORLD_SIZE", "SLURM", "DOWNPOUR_KEYS",
                        "NOTIFY_SOCKET", "WATCHDOG_")):  # fmt: skip
        del os.environ[name]
LONG = 300  # seconds; no test expects anything to take as long: this is only where a hang ends
JITTER = Jitter.from_environment()

SIDE, CLASSES = 8, 10
JOB = {
    "name": "small",
    "cluster": {"workerCount": 2, "parameterServerCount": 2},
    "model": {
        "inputs": [{"name": "image", "shape": [SIDE, SIDE, 1]}],
        "layers": [{"dense": {"units": 16, "activation": "relu"}}, {"dense": {"units": CLASSES}}],
    },
    "training": {
        "batchSize": 16,
        "epochs": 4,
        "leaseBatches": 4,
        "evaluateEveryEpochs": 0,
        "optimizer": {"name": "momentum", "learningRate": 0.02},
    },
    "data": {
        "train": {"images": "train-images", "labels": "train-labels"},
        "eval": {"images": "eval-images", "labels": "eval-labels"},
    },
    "checkpoint": {"every": "200ms", "keep": 2},
}
TRAIN_EXAMPLES, EVAL_EXAMPLES = 1000, 200  # the last batch of an epoch is short
# Outlasts whatever a test looks at, on any machine; in steps of milliseconds, so that its traces are short.
ENDLESS = {
    "model": {"layers": [{"dense": {"units": 1024, "activation": "relu"}}, {"dense": {"units": CLASSES}}]},
    "training": {"batchSize": 250, "epochs": 1_000_000},
    "checkpoint": {"every": "1s"},
}
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")

GIVEN_PORTS = set()


def hold(port):
    """Whether this program may give it: as long as it lives, no other one may. A socket's name says so, no file."""
    with socket.socket(socket.AF_UNIX) as holder:
        try:
            holder.bind(f"\0downpour-test-port-{port}")
        except OSError:
            return False
        holder.detach()  # open to the end
        return True


def free_port():
    """One that nobody had a moment ago, and that the kernel gives to none who asks for any.

    No other call gives it, nor another test that runs beside this one: not even while nobody listens there, as between
    two chiefs.
    """
    while True:
        port = random.randrange(10000, 30000)
        if port in GIVEN_PORTS or not hold(port):
            continue
        GIVEN_PORTS.add(port)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def draw_digits(folder, name, count, seed):
    """Images around one pattern per class, as IDX files."""
    rng = random.Random(seed)
    patterns = [random.Random(label).randbytes(SIDE * SIDE) for label in range(CLASSES)]
    labels = bytes(rng.randrange(CLASSES) for _ in range(count))
    pixels = bytearray()
    for label in labels:
        noise = rng.randbytes(SIDE * SIDE)
        pixels += bytes((3 * a + b) // 4 for a, b in zip(patterns[label], noise))
    (folder / f"{name}-images").write_bytes(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + pixels)
    (folder / f"{name}-labels").write_bytes(struct.pack(">II", 0x801, count) + labels)


def merged(base, changes):
    """`base` with `changes` laid over it, section by section."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    return {key: merged(base.get(key), changes[key]) if key in changes else base[key] for key in {**base, **changes}}


class Stream:
    """What a child writes, line by line, gathered by a thread so that the child never waits for us."""

    def __init__(self, pipe):
        self.lines = queue.Queue()
        self.text = ""
        self.thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self.thread.start()

    def _read(self, pipe):
        with pipe:
            for line in pipe:
                self.text += line
                self.lines.put(line)
        self.lines.put(None)

    def __iter__(self):
        return iter(lambda: self.lines.get(timeout=LONG), None)


class Process:
    """A child whose words are read line by line. It does not outlive its test."""

    def __init__(self, test, command):
        self.command = [str(word) for word in command]
        started = JITTER.late(self.command) if JITTER else self.command
        self.child = subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.child.pid
        self.out, self.err = Stream(self.child.stdout), Stream(self.child.stderr)
        test.addCleanup(self.end)

    def end(self):
        self.child.kill()
        self.child.wait()

    @property
    def said(self):  # on stderr, so far
        return self.err.text

    def wait_for_line(self, pattern):
        """The first line on stderr, from here on, in which the pattern is found."""
        for line in self.err:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"{self.command} ended without saying {pattern!r}, but:\n{self.said}")

    def finish(self):
        """(exit code, stdout); what was said on stderr is in `said`."""
        code = self.child.wait(timeout=LONG)
        self.out.thread.join(LONG)
        self.err.thread.join(LONG)
        return code, self.out.text

    def signal(self, number):
        self.child.send_signal(number)


def remove(folder):
    """Processes that were killed may end a write before they are gone; whoever writes on is an error."""
    for _ in range(200):
        try:
            return folder.cleanup()
        except OSError:
            os.sched_yield()
    return folder.cleanup()


class ProcessTest(unittest.TestCase):
    """Each test has a folder of its own with data and a job file in it."""

    maxDiff = None
    key_flags = ()  # for those who ask the chief
    inside = ()  # what runs a command on the host from which it is asked

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-process-")
        self.addCleanup(remove, folder)
        self.folder = pathlib.Path(folder.name)
        self.job_dir = self.folder / "run"
        draw_digits(self.folder, "train", TRAIN_EXAMPLES, seed=1)
        draw_digits(self.folder, "eval", EVAL_EXAMPLES, seed=2)

    def write_job(self, **changes):
        self.job = merged(JOB, changes)
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(self.job))  # JSON is YAML
        return self.job_file

    def write_endless_job(self, **changes):
        return self.write_job(**merged(ENDLESS, changes))

    def tool(self, *words):
        """(exit code, stdout, stderr) of the command-line tool."""
        command = [*self.inside, str(TOOL), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
        return done.returncode, done.stdout, done.stderr

    def start_run(self, *words, tool=None):
        """A `downpour run` whose chief already answers."""
        run = Process(self, [tool or TOOL, "run", self.job_file, "--job-dir", self.job_dir, "--trace", *words])
        run.wait_for_line("chief at ")
        return run

    def start(self, role, *flags):
        return Process(self, [PROGRAMS[role], *flags])

    def statuses(self, interval=0.1, within=LONG):
        """One status after the other, through chiefs that go and come, to the job's end; the last may be a summary."""
        asked = ["--job-dir", self.job_dir, "-o", "json", "--interval", interval, *self.key_flags]
        watch = [*self.inside, TOOL, "watch", *asked]
        status, until = {}, time.monotonic() + within
        while status.get("state") not in ENDED and time.monotonic() < until:
            watcher = Process(self, watch)
            try:
                for line in watcher.out:
                    status = json.loads(line)
                    yield status
            finally:
                watcher.end()

    def wait_until(self, condition):
        """The first status of which the condition holds."""
        status = None
        for status in self.statuses():
            if condition(status):
                return status
        raise AssertionError(f"the job, or {LONG} s, ended before that: {status}")

    def summary(self):
        return json.loads((self.job_dir / "summary.json").read_text())

    def checkpoints(self):
        """What is told of each, newest first."""
        return json.loads(self.tool("checkpoint", "list", "-o", "json", "--job-dir", self.job_dir)[1] or "[]")

    def check_ledger(self, *flags):
        """Every sample took effect once on every slice, says a program that shares no code with ours."""
        manifest = self.job_dir / self.summary()["checkpoint"] / "MANIFEST"
        files = ["--traces", self.job_dir / "trace", "--manifest", manifest]
        command = [sys.executable, ROOT / "tools/dev/ledger_check", *files, *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def check_success(self):
        summary = self.summary()
        samples = TRAIN_EXAMPLES * self.job["training"]["epochs"]
        self.assertEqual(summary["state"], "SUCCEEDED", summary)
        self.assertEqual(summary["samplesCommitted"], samples, summary)
        self.check_ledger()
        return summary

    def check_cancelled(self):
        summary = self.summary()
        self.assertEqual(summary["state"], "CANCELLED", summary)
        self.check_ledger("--unfinished")
        return summary


def task_of(status, name):
    return next((task for task in status.get("tasks", []) if task["name"] == name), {})


def drawn():
    """A seed, and what it draws from: that of DOWNPOUR_TEST_SEED, or another one in each run. Failures name it."""
    seed = int(os.environ.get("DOWNPOUR_TEST_SEED") or random.randrange(1 << 30))
    return seed, random.Random(seed)


def alive(status, name):
    return task_of(status, name).get("state") in ("PREPARING", "RUNNING")


def joined(status):
    """How many of the job's tasks are there."""
    return sum(alive(status, task["name"]) for task in status.get("tasks", []))


def complete(status):
    """Whether all of the job's tasks are there and at work."""
    return status["state"] == "RUNNING" and not status["pending"]


def kill(pid, number=signal.SIGKILL):
    if JITTER and number == signal.SIGSTOP:
        JITTER.spared.add(pid)
    os.kill(int(pid), number)


def wait_for_death(pid):
    """Of anybody's child."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(end):
        if not select.select([end], [], [], LONG)[0]:
            raise AssertionError(f"process {pid} lives on")

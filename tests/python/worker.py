"""What a worker does with the child interpreter, by hand: its memory, its messages. And what the tool does before."""

import json
import mmap
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

from package import PACKAGE  # first: it says where the others are

import numpy

from downpour.safetensors import read_safetensors

LONG = 120  # seconds, in which anything is done
COMMAND = [sys.executable, "-m", "downpour.child"]


def start_fresh(module, words, environment, keep=(), **options):
    """`python -m MODULE WORDS`, in which the descriptors `keep` stay open."""
    return subprocess.Popen([sys.executable, "-m", module, *words], env=environment, pass_fds=keep, **options)


def layout(variables):
    """(begin of each variable, bytes of a region): each at the next multiple of 64, a region at that of 4096."""
    begins, end = [], 0
    for variable in variables:
        begins.append(end)
        end = (end + 4 * int(numpy.prod(variable["shape"], dtype=int)) + 63) // 64 * 64
    return begins, (end + 4095) // 4096 * 4096


class Worker:
    """One that has started its child and has heard its first message, `first`. The memory has two sets of gradients.

    `verb`: serve starts one that answers predictions, of which the memory has the parameters before it starts.
    """

    SETS = 2

    def __init__(
        self, description, initial, words, environment, memory_bytes=None, start=start_fresh, keep=(), verb="work"
    ):
        self.begins, self.region = layout(description["variables"])
        self.names = [variable["name"] for variable in description["variables"]]
        self.shapes = [tuple(variable["shape"]) for variable in description["variables"]]
        self.total = (1 + self.SETS) * self.region
        file = os.memfd_create("memory")
        os.ftruncate(file, self.total if memory_bytes is None else memory_bytes)
        self.memory = mmap.mmap(file, self.total) if memory_bytes is None else None
        for name, value in initial.items() if verb == "serve" else ():
            self.parameter(name)[...] = value
        self.channel, theirs = socket.socketpair()
        self.channel.settimeout(LONG)
        files = (theirs.fileno(), file, *keep)
        words = [verb, "--channel", str(files[0]), "--memory", str(files[1]), *words]
        self.process = start(
            "downpour.child", words, environment, files, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        theirs.close()
        os.close(file)
        self.first = self.hear()
        if "ready" in self.first and verb == "work":
            for name, value in initial.items():
                self.parameter(name)[...] = value

    def view(self, name, begin):
        index = self.names.index(name)
        count = int(numpy.prod(self.shapes[index], dtype=int))
        flat = numpy.frombuffer(self.memory, numpy.float32, count, begin + self.begins[index])
        return flat.reshape(self.shapes[index])

    def parameter(self, name):
        return self.view(name, 0)

    def gradient(self, name, of=0):
        return self.view(name, (1 + of) * self.region)

    def say(self, data):
        self.channel.sendall(len(data).to_bytes(4, "little") + data)

    def hear(self):
        """The child's next message, or None if it has ended."""
        length = self.read(4)
        return None if length is None else json.loads(self.read(int.from_bytes(length, "little")))

    def read(self, count):
        data = b""
        while len(data) < count:
            more = self.channel.recv(count - len(data))
            if not more:
                return None
            data += more
        return data

    def ask(self, request):
        self.say(json.dumps(request).encode())
        return self.hear()

    def train(self, *batches, **more):
        """Batches are (examples, seed); so is `next`."""
        listed = [{"examples": list(examples), "seed": seed} for examples, seed in batches]
        if "next" in more:
            more["next"] = {"examples": list(more["next"][0]), "seed": more["next"][1]}
        return self.ask({"train": {"batches": listed, **more}})

    def end(self):
        """(exit status, what it said) of the child, whose worker has died."""
        self.channel.close()
        out, err = self.process.communicate(timeout=LONG)
        return self.process.returncode, (out + err).decode()


class ChildTest(unittest.TestCase):
    start = staticmethod(start_fresh)  # or that of forked.py, where children import torch

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("OMP_NUM_THREADS", "DOWNPOUR_THREADS"):
            self.environment.pop(name, None)

    def write(self, code, name="task"):
        (self.folder / f"{name}.py").write_text(code)

    def words(self, *arguments, module="task"):
        return ["--package", str(self.folder), "--module", module, "--", *arguments]

    def describe(self, *arguments, code=0, module="task"):
        """(description, initial values, what was said); the first two None if it did not work, as `code` says."""
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        words = ["describe", "--out", str(out), *self.words(*arguments, module=module)]
        ended, out_said, said = self.ended("downpour.child", words)
        self.assertEqual(ended, code, said)
        self.assertEqual(out_said, "", "what the user prints is for the error output")
        if code:
            return None, None, said
        description = json.loads((out / "description.json").read_text())
        return description, read_safetensors(str(out / "initial.safetensors")), said

    def ended(self, module, words, **options):
        """(exit status, stdout, stderr) of an interpreter that runs the module."""
        with self.start(
            module, words, self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        ) as child:
            out, err = child.communicate(timeout=LONG)
        return child.returncode, out, err

    def work(self, *arguments, module="task", **options):
        description, initial, _ = self.describe(*arguments, module=module)
        return self.worker(description, initial, self.words(*arguments, module=module), **options)

    def worker(self, description, initial, words, **options):
        worker = Worker(description, initial, words, self.environment, start=self.start, **options)
        self.addCleanup(self.close, worker)
        return worker

    def close(self, worker):
        worker.channel.close()
        worker.process.kill()
        worker.process.communicate()

    def alone(self, *arguments, module="task", code=0):
        """What the module prints where it trains by itself; if it fails, as `code` says, what it said."""
        ended, out, err = self.ended(module, arguments, cwd=self.folder)
        self.assertEqual(ended, code, err)
        return err if code else out

"""Job: a job that runs, or has run; and run(), which starts one on this machine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from downpour.errors import DownpourError, JobCancelled, JobFailed, ToolError
from downpour.job_settings import as_json
from downpour.safetensors import read_safetensors
from downpour.status import ENDED, Status
from downpour.tool import Path, Tool, failure, parse, said_in

if TYPE_CHECKING:
    import numpy
    import torch

_LOOK_EVERY = 0.1  # seconds between looks, where the tool has no verb that waits
_EXITS_WITHIN = 30.0  # seconds from a job's end to that of its last process; goodbyes take 5 at most

# Exit codes of `status` and `watch` with which they also print a status: healthy, degraded or failed, out of time.
_ANSWERS = (0, 1, 124)


class Job:
    """A job, by its folder or by the address of its chief. Neither need be there yet: each call looks again.

    `chief` is HOST:PORT of a chief that this machine can reach. Then only status(), wait() and cancel() work, and all
    others raise ValueError, because they read the job folder. `keys` is the folder of the cluster's keys. Without it
    the tool looks at DOWNPOUR_KEYS and into the job folder. `tool` is the program `downpour` (see Tool).

    Each call starts the tool and waits for it. If the tool fails, it raises ToolError with the tool's own sentence.
    A Job may be dropped at any time: that changes nothing for the job itself.
    """

    def __init__(
        self,
        job_dir: Optional[Path] = None,
        *,
        chief: Optional[str] = None,
        keys: Optional[Path] = None,
        tool: Optional[Path] = None,
    ) -> None:
        if (job_dir is None) == (chief is None):
            raise ValueError("name either the job folder, or chief='HOST:PORT'")
        self._tool = Tool(tool)
        self._job_dir = None if job_dir is None else _absolute(job_dir, "job_dir")
        self._where = [f"--chief={chief}" if self._job_dir is None else f"--job-dir={self._job_dir}"]
        self._who = [] if keys is None else [f"--keys={_absolute(keys, 'keys')}"]
        self._run: Optional[subprocess.Popen[bytes]] = None  # if run() started it

    def __repr__(self) -> str:
        return f"downpour.Job({', '.join([*self._where, *self._who])})"

    def status(self) -> Status:
        """How the job goes now; its summary once it has ended and its chief has exited (docs/STATUS.md).

        Raises ToolError: with exit code 69 if no chief answers and there is no summary, as in a folder without a job.
        """
        said = self._tool.ask("status", *self._where, *self._who, "-o", "json", answers=_ANSWERS)
        return Status(parse(said, dict, self._tool.path))

    def wait(self, timeout: Optional[float] = None) -> Status:
        """Waits until the job has ended, for `timeout` seconds at most, and returns its summary.

        By chief= it is the chief's last status instead, where the job's folder is on another machine.

        Raises JobFailed or JobCancelled with the reason, TimeoutError if the job goes on, and ToolError if the chief
        has not answered for 30 s. None of these, nor a Ctrl-C, changes anything for the job.
        """
        end = self._watch(timeout)
        if self._job_dir is not None:
            end = self._summary_after(end)
        self._await_exit()
        message = str(end.get("errorMessage") or f"the job ended as {end['state']}")
        if end["state"] == "FAILED":
            raise JobFailed(message, end)
        if end["state"] == "CANCELLED":
            raise JobCancelled(message, end)
        return end

    def cancel(self) -> str:
        """Ends the job as CANCELLED after one last checkpoint, and returns what the tool says of its end.

        That has the command which continues the job. It takes some seconds; after a minute the tool gives up. If the
        job is over already nothing changes, and what is returned says how it ended.

        Raises ToolError if the job goes on or its chief cannot be reached.
        """
        said = self._tool.ask("stop", *self._where, *self._who, answers=(0, 1))
        self._await_exit()
        return said.strip()

    def checkpoints(self) -> list[dict[str, Any]]:
        """The job's checkpoints, newest first; empty if there is none yet.

        Each has `round` (its name), `path`, `state` ("complete" if it can be used) and, if complete, `unixMs`, `bytes`,
        `leases` and `leasesCommitted`. The best one also has `best`: its `metric`, `value` and `epoch`.

        Raises ToolError, also if there is no job in the folder.
        """
        said = self._tool.ask("checkpoint", "list", f"--job-dir={self._folder()}", "-o", "json")
        found = parse(said, list, self._tool.path)
        if not found:
            self.status()  # raises if there is no job
        return [entry for entry in found if isinstance(entry, dict)]

    def checkpoint(self, timeout: Optional[float] = None) -> dict[str, Any]:
        """The newest complete checkpoint, as an entry of checkpoints(). Waits for the first one if there is none.

        It takes no checkpoint. How often the job does is `checkpoint.every` in its file; cancel() makes it take a last
        one.

        Raises TimeoutError after `timeout` seconds, and DownpourError if the job has ended without one.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            has_ended = self.status().get("state") in ENDED  # before the list: what it lacks then will not come
            found = [entry for entry in self.checkpoints() if entry.get("state") == "complete"]
            if found:
                return found[0]
            if has_ended:
                raise DownpourError(f"the job in {self._folder()} has ended without a complete checkpoint")
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"the job in {self._folder()} has no complete checkpoint after {timeout} s")
            time.sleep(_LOOK_EVERY)

    def state_dict(self, checkpoint: Optional[str] = None) -> dict[str, numpy.ndarray]:
        """The parameters of a checkpoint by name, as float32 arrays: `LAYER/kernel` [in, out] and `LAYER/bias` [out].
        Those of a model of the user's own have its names and shapes.

        `checkpoint` is a `round`, such as "1-4", or "best"; without it, the newest valid one. The arrays are copies.
        All of the model is held in memory, and for a moment in a file in the temporary folder. Needs NumPy.

        Raises ToolError if there is no valid checkpoint, ModelFileError if what the tool wrote cannot be read.
        """
        chosen = [] if checkpoint is None else [f"--checkpoint={checkpoint}"]
        with tempfile.TemporaryDirectory(prefix="downpour-") as folder:
            file = os.path.join(folder, "model.safetensors")
            self._tool.ask("export", f"--job-dir={self._folder()}", f"--out={file}", *chosen)
            return read_safetensors(file)

    def table(self, name: str, checkpoint: Optional[str] = None) -> tuple[numpy.ndarray, numpy.ndarray]:
        """(ids, values) of all rows of a table: int64 [n] and float32 [n, width], in the order of the checkpoint.

        `checkpoint`, memory and errors are as for state_dict(). For a few rows of a large table there is
        `downpour table get`.
        """
        chosen = [] if checkpoint is None else [f"--checkpoint={checkpoint}"]
        with tempfile.TemporaryDirectory(prefix="downpour-") as folder:
            file = os.path.join(folder, "table.safetensors")
            words = [f"--job-dir={self._folder()}", f"--table={name}", f"--out={file}", *chosen]
            self._tool.ask("table", "export", *words)
            found = read_safetensors(file, of_table=True)
        return found["ids"], found["values"]

    def load_state_dict(
        self,
        module: Optional[torch.nn.Module] = None,
        strict: bool = True,
        *,
        names: Optional[Mapping[str, str]] = None,
        checkpoint: Optional[str] = None,
    ) -> Any:
        """Loads the parameters of a checkpoint into a PyTorch module, and returns what its load_state_dict() returns;
        or into a Keras model that downpour.keras.fit() has trained, and returns None.

        The layer `hidden` goes into the torch.nn.Linear that the module has as `hidden`: its weight [out, in] is the
        kernel's transpose. `names` maps layers to modules of other names, as {"dense_0": "0", "dense_1": "2"} does for
        a torch.nn.Sequential. `strict` is PyTorch's: True if every parameter must be in both. A model that fit() has
        trained goes into a module of the same kind, whatever its layers are.

        Without `module` it returns these values as tensors by PyTorch's names: `hidden.weight`, `hidden.bias`.

        Only values are loaded. Activations, the order of layers and the input (pixels divided by 255) are up to the
        module, and docs/MODEL_FILE.md has them. Needs PyTorch and NumPy.

        Raises TypeError if a module of such a name is no Linear, ValueError if `names` does not fit the layers, or a
        Keras model the values,
        RuntimeError as PyTorch does if parameters are missing or of another shape, and what state_dict() raises.
        """
        values = self.state_dict(checkpoint)
        keras = sys.modules.get("keras")
        if keras is not None and isinstance(module, keras.Model):
            from downpour.keras import load_values

            if names:
                raise ValueError("names maps layers to modules of PyTorch, but this is a Keras model: leave names out")
            return load_values(module, values)
        from downpour.torch_layers import is_own, load_into, load_own, to_torch

        tensors = to_torch(values, names)
        if module is None:
            return tensors
        return (load_own if is_own(values) else load_into)(module, tensors, strict)

    def logs(self, task: Optional[str] = None) -> str:
        """What a task logged, such as "worker-0" or "chief"; without `task` what all did, in order of time.

        Raises ToolError if there are no such logs.
        """
        return self._tool.ask("logs", f"--job-dir={self._folder()}", *([] if task is None else ["--", task]))

    def _folder(self) -> str:
        if self._job_dir is None:
            raise ValueError("this needs the job folder: downpour.Job('DIR') instead of chief=")
        return self._job_dir

    def _watch(self, timeout: Optional[float]) -> Status:
        """The first status, or summary, that says the job has ended."""
        last = b""
        is_late = threading.Event()
        words = ["watch", *self._where, *self._who, "-o", "json"]
        with tempfile.TemporaryFile() as err:
            child = self._tool.start(words, subprocess.PIPE, err)

            def end() -> None:
                is_late.set()
                child.kill()

            timer = threading.Timer(min(timeout or 0, threading.TIMEOUT_MAX), end)
            timer.daemon = True
            try:
                if timeout is not None:
                    timer.start()
                assert child.stdout is not None
                for line in child.stdout:
                    last = line
                code = child.wait()
            finally:  # also at Ctrl-C
                timer.cancel()
                child.kill()
                child.wait()
                child.stdout.close()
            said = said_in(err)
        if is_late.is_set():
            status = self.status()  # a short timeout must not hide that the job has ended
            if status.get("state") not in ENDED:
                raise TimeoutError(f"the job has not ended after {timeout} s, and goes on")
            return status
        if code not in _ANSWERS or not last:
            raise failure(words, code, said)
        status = Status(parse(last.decode(errors="replace"), dict, self._tool.path))
        if status.get("state") not in ENDED:
            raise failure(words, code, said)
        return status

    def _summary_after(self, end: Status) -> Status:
        """The summary, which takes the status' place once the chief has exited."""
        until = time.monotonic() + _EXITS_WITHIN
        while not end.is_summary and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)
            status = self.status()
            if status.get("state") not in ENDED:  # it was begun again meanwhile
                break
            end = status
        return end

    def _await_exit(self) -> None:
        """Waits until no process of the ended job holds its folder, so that it may be continued there."""
        if self._job_dir is None:
            return
        words = ["logs", "chief", "--follow", f"--job-dir={self._job_dir}"]  # it ends once none is at work on the job
        follower = self._tool.start(words, subprocess.DEVNULL, subprocess.DEVNULL)
        try:
            follower.wait(_EXITS_WITHIN)
            if self._run is not None:
                self._run.wait(_EXITS_WITHIN)
        except subprocess.TimeoutExpired:
            pass  # the job is over all the same
        finally:
            follower.kill()
            follower.wait()


def run(
    job_file: Path,
    job_dir: Path,
    *,
    set: Optional[Mapping[str, Any]] = None,  # noqa: A002 (as the tool names it)
    resume: bool = False,
    listen: Optional[str] = None,
    keys: Optional[Path] = None,
    tool: Optional[Path] = None,
    module: Optional[str] = None,
    package: Optional[Path] = None,
    packages: Union[Path, Sequence[Path]] = (),
    python: Optional[Path] = None,
    args: Union[str, Sequence[Any]] = (),
) -> Job:
    """Starts a whole cluster for the job on this machine, and returns once its chief listens.

    `set` overrides entries of the job file, as {"training.epochs": 3}; other values than strings are written as JSON.
    `resume` continues from the newest checkpoint in `job_dir`, which else must hold no job. `listen` (HOST:PORT) and
    `keys` are for workers on other machines (docs/DEPLOY.md). `tool` is as for Job.

    `module` names a Python module that calls fit(), such as "trainer.task". It is in the folder `package`, or in one of
    `packages`: wheels and sdists, which are installed for the job. Without either it is in the working folder. `args`
    are its own: a list, or one string, which is split as a shell does. This process's Python runs it, or `python`.

    The job outlives this process, and an interrupt of the notebook does not reach it. Job(job_dir) finds it again from
    any other process, and cancel() ends it. Only a Ctrl-C in run() itself ends what it was about to start.

    Raises ToolError if the job does not begin: with exit code 78 if the job file or its data are wrong.
    """
    job = Job(job_dir, keys=keys, tool=tool)
    words = ["run", _absolute(job_file, "job_file"), *job._where, *job._who, "--quiet", "--color=never"]
    words += ["--resume"] if resume else []
    words += [] if listen is None else [f"--listen={listen}"]
    if not isinstance(set or {}, Mapping):
        raise TypeError(f'set is {set!r}: give a dict of entries of the job file, as {{"training.epochs": 3}}')
    for key, value in (set or {}).items():
        words.append(f"--set={key}={value if isinstance(value, str) else json.dumps(value, default=as_json)}")
    if module is not None:
        words += [f"--module-name={module}", f"--python={sys.executable if python is None else os.fspath(python)}"]
        package = "." if package is None and not packages else package
    # Without a module the tool says that the rest has no meaning.
    words += [] if package is None else [f"--package-path={_absolute(package, 'package')}"]
    listed = [packages] if isinstance(packages, (str, os.PathLike)) else packages
    words += [f"--packages={_absolute(path, 'packages')}" for path in listed]
    arguments = shlex.split(args) if isinstance(args, str) else [str(argument) for argument in args]
    words += ["--", *arguments] if arguments else []
    with tempfile.TemporaryFile() as err:  # no pipe: it would fill, or break when this process ends
        child = job._tool.start(words, subprocess.DEVNULL, err)
        try:
            while b"chief at " not in said_in(err) and child.poll() is None:
                time.sleep(_LOOK_EVERY)
        except KeyboardInterrupt:
            child.terminate()  # it ends its cluster in good order
            raise
        said = said_in(err)
    if child.returncode and b"chief at " not in said:
        raise failure(words, child.returncode, said)
    job._run = child
    return job


def _absolute(path: Path, argument: str) -> str:
    """So that a later change of this process's folder changes nothing."""
    if not os.fspath(path):
        raise ValueError(f"{argument} is empty: name a file or folder, or '.' for the working folder")
    return os.path.abspath(os.path.expanduser(os.fspath(path)))

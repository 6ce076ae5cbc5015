"""Runs the user's module: to describe its model to a tool, to compute beside a worker, or to answer predictions:

    python3 -m downpour.child describe --out DIR [--until TIME] --package PATH --module NAME -- ARGS...
    python3 -m downpour.child work --channel FD --memory FD --task worker-0 --package PATH --module NAME -- ARGS...
    python3 -m downpour.child serve --channel FD --memory FD --package PATH --module NAME -- ARGS...

PATH is the folder or the zip file that NAME is imported from. With --environment FOLDER, what the package needs is
installed there first (environment.py). A program that has not come to fit() at TIME, in seconds of the steady clock,
is ended, and the file DIR/place says where it was. What the module prints goes to the error output. It ends with 78
if what it was given can never work, with 1 if the user's code raised, and the last line says why.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import runpy
import signal
import sys
import traceback
from typing import NoReturn, Optional

from downpour import environment, missing_modules, modes, serving, task_log
from downpour.errors import MisuseError, TrainingError
from downpour.foreign_strategies import refuse_strategies

REFUSED = 78
ONE_EXAMPLE = "batch norm needs 2 or more in a batch: take a training.batchSize that leaves no single example"


def main(words: list[str]) -> NoReturn:
    options = _options(words)
    task_log.take_prints()
    work: Optional[modes.Work] = None
    if options.verb != "describe":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the worker's
        kind = serving.Serve if options.verb == "serve" else modes.Work
        work = kind(options.channel, options.memory, options.task, options.patience, options.rows)
    mode = modes.current = work or modes.Describe(options.out, options.until)
    try:
        if options.environment:
            at = words.index("--environment")  # once: it is not entered again from within
            environment.enter(options, words[:at] + words[at + 2 :], mode)
        _set_threads()
        _run(options)
        raise SystemExit
    except SystemExit as ended:
        answers = isinstance(work, serving.Serve) and work.has_begun  # so that no end is a good one
        if answers or ended.code not in (None, 0):
            if work is not None and work.has_begun:
                _tell(ended, work, f"SystemExit: {ended.code}")
            raise
        if mode.finished:
            with contextlib.suppress(OSError):  # behind fit() the channel is the program's, to close too
                work.say({"finished": {}})
            raise SystemExit from None
        _report(_Ended(options.module, work), options.module, work)
    except BaseException as error:
        _report(error, options.module, work)


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="downpour.child", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    describe, work, serve = map(verbs.add_parser, ("describe", "work", "serve"))
    describe.add_argument("--out", required=True)
    describe.add_argument("--until", type=float)
    for verb in (work, serve):
        verb.add_argument("--channel", type=int, required=True)
        verb.add_argument("--memory", type=int, required=True)
        verb.add_argument("--rows", type=int)
        verb.add_argument("--task", default="")
        verb.add_argument("--patience", type=float, default=modes.Work.patience)
    for verb in (describe, work, serve):
        verb.add_argument("--package", required=True)
        verb.add_argument("--module", required=True)
        verb.add_argument("--environment")
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.args = words[end + 1 :]
    return options


def _set_threads() -> None:
    """One thread: there are as many workers on a host as it has cores. Before NumPy or torch is imported."""
    wanted = os.environ.get("DOWNPOUR_THREADS")
    if wanted is not None:
        if not wanted.isascii() or not wanted.isdigit() or int(wanted) < 1:
            raise TrainingError(f"DOWNPOUR_THREADS is {wanted!r}, but must be a whole number of 1 or more")
        os.environ["OMP_NUM_THREADS"] = wanted
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _run(options: argparse.Namespace) -> None:
    package = modes.package = os.path.abspath(options.package)
    if getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, package)
    else:
        sys.path[0] = package
    refuse_strategies()
    sys.argv = [options.module, *map(_on_this_host, options.args)]
    importlib.invalidate_caches()
    name = options.module
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        found = None
    if found is None:
        raise TrainingError(f"there is no module {name} in {package}: give the package that has it, and its whole name")
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _on_this_host(word: str) -> str:
    """An argument that names the job's folder of results, where this host has another one in its place
    (deploy/tasks.py)."""
    store, here = os.environ.get("DOWNPOUR_RESULTS"), os.environ.get("DOWNPOUR_RESULTS_HERE")
    for option in ("", word[: word.find("=") + 1]):  # a path may have a = too
        path = word[len(option) :]
        if store and here and (path == store or path.startswith(store + "/")):
            return option + here + path[len(store) :]
    return word


class _Ended(MisuseError):
    """The module has ended in good order, where it was to train."""

    def __init__(self, module: str, work: Optional[modes.Work]) -> None:
        why = "never called downpour.fit: call it as it runs"
        if isinstance(work, serving.Serve):
            why = "came to no model to answer with: call downpour.serve(model) as it runs"
        elif work and work.has_begun:
            why = "ended before its job did: only training.epochs, training.stopEarly and cancel end a job"
        super().__init__(f"the module {module} {why}")


def _python() -> str:
    """That of the system, where this is another one, such as one of pyenv that is first on the PATH."""
    usual = "/usr/bin/python3"
    is_other = os.path.exists(usual) and os.path.realpath(usual) != os.path.realpath(sys.executable)
    return f"Python: --python {usual}" if is_other else "Python by --python"


def _report(error: BaseException, module: str, work: Optional[modes.Work]) -> NoReturn:
    """Says what went wrong, and ends."""
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    # Before it has a model such code would raise wherever it runs. In a step it may do so for one example alone.
    wrong_name = missing_modules.remedy_of(error, modes.package, module)
    is_refused = isinstance(error, (TrainingError, ModuleNotFoundError, SyntaxError)) or wrong_name is not None
    is_refused = is_refused and not (work and work.has_begun)
    message = f"{error}" if isinstance(error, TrainingError) else f"{type(error).__name__}: {error}"
    if wrong_name:
        message = wrong_name
    elif isinstance(error, ModuleNotFoundError):
        remedy = f"install it there, name it in requirements.txt, or name another {_python()}"
        message = f"there is no module {error.name} for {sys.executable}: {remedy}"
    if isinstance(error, ValueError) and "more than 1 value per channel" in message:
        message += f"; {ONE_EXAMPLE}"
    if told := next((line for line in message.splitlines() if "CUDA error: " in line), ""):
        message = told  # behind it PyTorch has hints for people who write kernels
    message = " ".join(message.split())
    own = modes.own_of(traceback.extract_tb(error.__traceback__))
    is_raised = not isinstance(error, (TrainingError, ModuleNotFoundError, SyntaxError))
    is_raised = is_raised or isinstance(error, MisuseError)
    place = f", at {modes.places(own)[0]}" if own and is_raised else ""
    if not isinstance(error, TrainingError):
        sys.stderr.write(lines)
    sys.stderr.write(f"downpour: {message}{place}\n")
    if work is not None:
        _tell(error, work, message, is_refused)
    modes.leave(REFUSED if is_refused and work is None else 1)


def _tell(error: BaseException, work: modes.Work, message: str, is_refused: bool = False) -> None:
    """Tells the worker. What breaks the rules of a loop does so at every try, so nobody tries it again."""
    is_left = isinstance(error, _Ended)
    stack = work.left_at or [] if is_left else traceback.extract_tb(error.__traceback__)
    where = "; called from ".join(modes.places(stack))
    told = {"message": message, "where": where, "refused": is_refused, "ended": isinstance(error, MisuseError)}
    told["unasked"] = not work.is_asked  # raised behind the probe, it has nothing to do with the first step
    with contextlib.suppress(OSError):  # the worker is dead
        work.say({"error": told})


if __name__ == "__main__":
    main(sys.argv[1:])

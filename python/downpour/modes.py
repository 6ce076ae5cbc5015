"""How this process was started, which says what fit() and steps() do: describe, work, or train here."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import math
import mmap
import os
import select
import socket
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Iterator, NoReturn, Optional

from downpour.errors import TrainingError
from downpour.safetensors import write_safetensors

if TYPE_CHECKING:
    from downpour.training_run import Batch, Run, Sums
    from downpour.tables import Source
    from downpour.variables import Memory

MOST_MESSAGE_BYTES = 16 << 20
_GRACE = 5.0  # seconds, in which a program that is out of time is ended in words
_encode = json.JSONEncoder(allow_nan=False).encode  # json.dumps would make an encoder each time


class Mode:
    """What a run asks of it, in this order: begin() once, then steps(), and trained() behind each step."""

    history: list = []  # what is known of each epoch here, where training goes on here
    files: tuple[int, ...] = ()  # that this process was given
    is_master = True  # whether it is this process that goes on behind fit(), as far as is known
    finished = False  # whether fit() has returned here, or is about to: a process trains once

    def tell(self, what: str, waiting_for: str) -> None:
        """What is done before the user's code is run, and what waits for that."""
        raise NotImplementedError

    def left(self, frame: Any) -> None:
        """The user's loop ended, as by break, before the run did; `frame` is where."""

    def begin(self, run: Run) -> Memory:
        """The memory that the model is to be bound to."""
        raise NotImplementedError

    def row_source(self, run: Run) -> Source:
        """Where rows of tables come from."""
        raise NotImplementedError

    def steps(self, run: Run) -> Iterator[list[Batch]]:
        """The batches of each step."""
        raise NotImplementedError

    def trained(self, sums: Sums) -> None:
        """The memory has the step's gradients."""
        raise NotImplementedError


class Describe(Mode):
    """Writes what the model and its data are, once, and ends the process."""

    is_master = False

    patience = 30.0  # seconds until a line says where a program is that has not come to fit(), and twice that each time

    def __init__(self, folder: str, until: Optional[float] = None) -> None:
        """`until`: when scheduling.maxRunningTime is over, in seconds of the steady clock."""
        self._folder = folder
        self._until = math.inf if until is None else until
        self._told = ""  # what is done in place of the program
        if until is not None:  # where the program lets no other thread run
            faulthandler.dump_traceback_later(max(0.0, until - time.monotonic()) + _GRACE, exit=True)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        began, next_line = time.monotonic(), self.patience
        while (now := time.monotonic()) < self._until:
            time.sleep(min(began + next_line, self._until) - now)
            if (waited := time.monotonic() - began) >= next_line:
                next_line = 2 * waited
                late = f"the program has not called downpour.fit for {waited:.0f} s"
                sys.stderr.write(f"downpour: {late}, {self._place()}\n")
                sys.stderr.flush()
        with open(os.path.join(self._folder, "place"), "w", encoding="utf-8") as file:
            file.write(self._place())
        leave(1)

    def _place(self) -> str:
        return self._told or f"at {places(traceback.extract_stack(_main_frame()))[0]}"

    def tell(self, what: str, waiting_for: str) -> None:
        self._told = what
        sys.stderr.write(f"downpour {what}\n")
        sys.stderr.flush()

    def begin(self, run: Run) -> Memory:
        write_safetensors(os.path.join(self._folder, "initial.safetensors"), run.model.values())
        with open(os.path.join(self._folder, "description.json"), "w", encoding="utf-8") as file:
            json.dump({**description(run), "takesOneExample": run.takes_one, "settings": run.settings}, file)
        leave(0)


class Work(Mode):
    """Serves a worker: what it asks comes by `channel`, and the numbers lie in the file `memory` that both have."""

    # Seconds that a call may take before a warning says where the code is, if 10 times the longest are not more. The
    # worker calls a step late after as many, and status takes the last warning since then as the reason.
    patience = 30.0

    has_begun = False  # whether the user's code has come to its model
    is_asked = False  # whether the worker has asked for anything since
    left_at: Optional[traceback.StackSummary] = None  # where its loop ended before the job did

    def __init__(
        self, channel: int, memory: int, task: str = "", patience: float = patience, rows: Optional[int] = None
    ) -> None:
        self.is_master = task == "worker-0"
        self.patience = patience
        self.files = (channel, memory) if rows is None else (channel, memory, rows)
        self._row_memory = rows
        self._answers = "trained"  # the kind of answer that the worker waits for
        for file in self.files:
            os.set_inheritable(file, False)  # a process of the user's must not keep them open
        os.register_at_fork(after_in_child=self._let_go)
        self._channel = socket.socket(fileno=channel)
        self._memory = memory
        self._saying = threading.Lock()
        self._called: Optional[float] = time.monotonic()  # when the user's code was called; None: it is not at work
        self._longest = 0.0  # call that is over, in seconds
        self._warned = 0.0  # how old the call was at the last warning
        threading.Thread(target=self._watch, daemon=True).start()

    def _let_go(self) -> None:
        """In a process that the user's code has forked."""
        files, self.files = self.files, ()
        self._channel.detach()
        for file in files:
            os.close(file)

    def _watch(self) -> None:
        """Ends with the worker. Says meanwhile where the user's code is when it lingers."""
        poll = select.poll()
        poll.register(self._channel, select.POLLRDHUP)
        while not (found := poll.poll(1000 * min(1.0, self.patience / 2))):
            called = self._called
            age = 0.0 if called is None else time.monotonic() - called
            if age >= max(self.patience, 10 * self._longest, 2 * self._warned):
                self._warned = age
                self._warn(age)
        if not found[0][1] & select.POLLNVAL:  # else the program itself has closed it
            os._exit(0)

    def _warn(self, age: float) -> None:
        stack = traceback.extract_stack(_main_frame())
        sys.stderr.write("".join(traceback.format_list(stack)))
        what = "the rest of the program has run" if self.finished else "the Python code has been in one call"
        with contextlib.suppress(OSError):  # behind fit() the channel is the program's, to close too
            self.say({"warning": f"{what} for {age:.0f} s, at {places(stack)[0]}"})

    def tell(self, what: str, waiting_for: str) -> None:
        self._called = None  # it is not the user's code that takes its time
        self.say({"preparing": {"what": what, "waitingFor": waiting_for}})

    def left(self, frame: Any) -> None:
        self.left_at = self.left_at or own_of(traceback.extract_stack(frame))

    def begin(self, run: Run) -> Memory:
        from downpour.variables import Memory

        size = os.fstat(self._memory).st_size
        buffer = mmap.mmap(self._memory, size) if size else b""
        shown = mmap.mmap(self._memory, size, prot=mmap.PROT_READ) if size and run.model.only_reads else None
        memory = Memory(run.model.variables, buffer, shown)
        self._answer({"ready": {**description(run), "arithmetic": run.model.arithmetic}})
        self.has_begun = True
        return memory

    def row_source(self, run: Run) -> Source:
        from downpour.shared_rows import SharedRows

        if self._row_memory is None:
            raise TrainingError("the worker has no memory for rows of tables: install the package of its version")
        size = os.fstat(self._row_memory).st_size
        return SharedRows(mmap.mmap(self._row_memory, size), run.model.readers.tables, self._need)

    def _need(self, asked: list[list[int]]) -> dict:
        """Waits until the rows are there that were asked for, amid a step. What is said of them."""
        self._answer({self._answers: {"needs": asked}})
        request = self._heard()
        self._called = time.monotonic()
        if "rows" not in request:
            raise TrainingError("the worker brings no rows: install the package of its version")
        return request["rows"]

    def steps(self, run: Run) -> Iterator[list[Batch]]:
        from downpour.training_run import Batch, finite

        while True:
            request = self._heard()
            self._called = time.monotonic()
            if "find" in request:
                find = request["find"]
                batches = [Batch(**batch) for batch in find.get("batches", [])]
                batches += [Batch(numbers, numbers[0]) for numbers in find.get("evaluate", [])]
                self._answer({"found": {"needs": run.find_keys(batches, "evaluate" in find)}})
            elif "train" in request:
                self._answers = "trained"
                train = request["train"]
                run.memory.use(train.get("set", 0))
                yield [Batch(**batch) for batch in train["batches"]]
                if "next" in train:
                    self._called = time.monotonic()
                    run.make_ahead(Batch(**train["next"]))
                    self._returned()
            elif "evaluate" in request:
                self._answers = "evaluated"
                sums = run.evaluated(request["evaluate"]["batches"])
                answer = {"lossSum": finite(sums.loss), "correct": sums.correct, "examples": sums.examples}
                of_metrics = [finite(value) for metric in sums.metrics or [] for value in metric]
                self._answer({"evaluated": {**answer, "metricSums": of_metrics}})
            elif "finish" in request:
                return self._finish(request["finish"]["history"])
            else:
                what = ", ".join(request) or "nothing"
                raise TrainingError(f"the worker asks for {what}: install the package of its version")

    def _finish(self, history: list[dict]) -> None:
        """The job is trained: fit() returns here, and the program goes on to its end."""
        from downpour.local import History

        # An epoch's number that is not finite, which comes as none, is a number here too, as where it trains alone.
        known = [{name: math.nan if value is None else value for name, value in epoch.items()} for epoch in history]
        self.history = History(known)
        self.is_master = self.finished = True
        self._longest = 0.0  # of calls; this is another thing

    def trained(self, sums: Sums) -> None:
        from downpour.training_run import finite

        self._answer({"trained": {"lossSum": finite(sums.loss), "examples": sums.examples}})

    def _returned(self) -> None:
        """From a call of the user's code."""
        if self.has_begun:  # what came before takes a time of its own
            self._longest = max(self._longest, time.monotonic() - self._called)
        self._called, self._warned = None, 0.0

    def _answer(self, message: Any) -> None:
        self._returned()
        self.say(message)

    def say(self, message: Any) -> None:
        self.send(_encode(message))

    def send(self, text: str) -> None:
        data = text.encode()
        with self._saying:
            self._channel.sendall(len(data).to_bytes(4, "little") + data)

    def _heard(self) -> dict:
        length = int.from_bytes(self._read(4), "little")
        self.is_asked = True
        if length > MOST_MESSAGE_BYTES:
            raise TrainingError(f"the worker sent a message of {length} bytes: install the package of its version")
        return json.loads(self._read(length))

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = self._channel.recv(count - len(data))
            if not more:
                leave(0)
            data += more
        return bytes(data)


def _main_frame() -> Any:
    """Where the user's code is."""
    return sys._current_frames().get(threading.main_thread().ident)


def own_of(stack: traceback.StackSummary) -> traceback.StackSummary:
    """What of it is in the user's own code."""
    return traceback.StackSummary.from_list([entry for entry in stack if entry.filename.startswith(package)])


def places(stack: traceback.StackSummary) -> list[str]:
    """Where it is, innermost first: in the user's own code, or in others' if that is not among it."""
    own = own_of(stack)
    calls = [(f"{os.path.relpath(at.filename, package)}:{at.lineno}, in {at.name}", at.line) for at in own or stack]
    return [f"{call}: {line}" if at == 0 else call for at, (call, line) in enumerate(reversed(calls))]


def description(run: Run) -> dict[str, Any]:
    """The model and its data, as a tool or a worker is told."""
    from downpour import __version__
    from downpour.own_metrics import described

    run.model.readers.check_begun()
    return {
        "version": __version__,
        "variables": [variable.to_json() for variable in run.model.variables],
        "classes": run.classes,
        "trainExamples": run.train.count,
        "evalExamples": run.evaluation.count if run.evaluation else 0,
        "dataFingerprints": [data.fingerprint for data in (run.train, run.evaluation) if data],
        "metrics": [described(name, metric) for name, metric in run.metrics.items()],
        "tables": [table.to_json() for table in run.model.readers.tables],
        "knowsKeys": run.keys is not None,
    }


def leave(code: int) -> NoReturn:
    """Ends the process without anything of the user's that waits for its end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


package = "."  # that the user's module is imported from
current: Optional[Mode] = None  # of this process; None: it trains here

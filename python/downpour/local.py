"""Local: trains in this one process what a job would train, for a look before there is a job."""

from __future__ import annotations

import sys
from typing import Any, Iterator

import numpy

from downpour.early_stop import EarlyStop
from downpour.job_settings import section
from downpour.local_optimizer import LocalOptimizer
from downpour.local_tables import LocalTables
from downpour.modes import Mode
from downpour.training_run import Batch, Run, Sums
from downpour.variables import Memory


_LEASE_BATCHES = 16  # where a job says nothing else


class History(list):
    """A dict an epoch: epoch, loss, and where there is an evaluation evalLoss, evalAccuracy and the metrics.

    All are numbers. One that is not finite is nan in a job.
    """

    def __repr__(self) -> str:
        return "\n".join(line_of(entry) for entry in self)


class Local(Mode):
    """One worker and the parameter server in one: each epoch in an order drawn by the seed, one batch a step."""

    prints = True  # a line for each epoch

    def __init__(self) -> None:
        self.history = History()

    def begin(self, run: Run) -> Memory:
        memory = Memory(run.model.variables)
        for place, value in zip(memory.parameters, run.model.values().values()):
            place[...] = value
        self._size = run.settings.get("training.batchSize", 64)
        self._epochs = run.settings.get("training.epochs", 1)
        steps = self._epochs * -(-run.train.count // self._size)
        optimizer = section(run.settings, "training.optimizer")
        self._optimizer = LocalOptimizer(optimizer, run.model.variables, memory, steps)
        self._evaluates_every = run.settings.get("training.evaluateEveryEpochs", 1)
        self._job_steps = steps
        self._stop = EarlyStop(section(run.settings, "training.stopEarly") or None, run.metrics, memory)
        return memory

    def row_source(self, run: Run) -> LocalTables:
        tables = run.model.readers.local
        for number, table in enumerate(tables):
            if not len(table):  # else it goes on with what it has, as the parameters do
                table.number, table.seed = number, run.settings.get("seed", 1)
        self._tables = LocalTables(tables, self._job_steps)
        return self._tables

    def steps(self, run: Run) -> Iterator[list[Batch]]:
        draws = numpy.random.Generator(numpy.random.PCG64(run.settings.get("seed", 1)))
        for epoch in range(1, self._epochs + 1):
            order = _order(run, draws, self._size)
            self._sums = Sums()
            self._run = run
            for first in range(0, run.train.count, self._size):
                numbers = order[first : first + self._size].tolist()
                yield [Batch(numbers, int(draws.integers(2**64, dtype=numpy.uint64)))]
            entry = {"epoch": epoch, "loss": self._sums.loss / self._sums.examples, **self._evaluation(run, epoch)}
            self.history.append(entry)
            self._print(f"{line_of(entry)}{self._optimizer.skipped()}")
            if self._stop.ends(entry):
                self._print(self._stop.restore())
                break
        Local.finished = not hasattr(sys, "ps1")  # at a prompt, as in a notebook, no program becomes a job

    def _print(self, line: str) -> None:
        if self.prints:
            print(line, flush=True)

    def _evaluation(self, run: Run, epoch: int) -> dict[str, Any]:
        is_due = epoch == self._epochs or (self._evaluates_every and epoch % self._evaluates_every == 0)
        if run.evaluation is None or not is_due:
            return {}
        count = run.evaluation.count
        sums = run.evaluated([range(first, min(first + self._size, count)) for first in range(0, count, self._size)])
        entry = {"evalLoss": sums.loss / count}
        if run.classes:
            entry["evalAccuracy"] = sums.correct / count
        return {**entry, **run.values_of(sums.metrics or [], count)}

    def trained(self, sums: Sums) -> None:
        self._sums.loss += sums.loss
        self._sums.examples += sums.examples
        self._optimizer.apply()
        if self._run.rows is not None and not self._tables.push(self._run.rows.blocks):
            self._optimizer.skip()


def _order(run: Run, draws: numpy.random.Generator, size: int) -> numpy.ndarray:
    """Of the examples of an epoch. That of `blocks` is as in a job: whole blocks in any order, behind them what is no
    whole one, then those of each lease among themselves."""
    count = run.train.count
    if run.settings.get("data.order") != "blocks":
        return draws.permutation(count)
    block = run.settings.get("data.blockExamples", 128)
    whole = draws.permutation(count // block)[:, None] * block + numpy.arange(block)
    order = numpy.append(whole.reshape(-1), numpy.arange(count // block * block, count))
    lease = size * run.settings.get("training.leaseBatches", _LEASE_BATCHES)
    for first in range(0, count, lease):
        draws.shuffle(order[first : first + lease])
    return order


def line_of(entry: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4g}" if name != "epoch" else f"epoch {value}" for name, value in entry.items())

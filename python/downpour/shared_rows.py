"""SharedRows: rows of tables in memory that a worker shares. worker/python/child_rows.h has its form."""

from __future__ import annotations

import mmap
from typing import Any, Callable, Sequence

import numpy

from downpour.errors import MisuseError
from downpour.tables import Block, Table

_NUMBER_BYTES = 16  # of each number of a row: its share of the keys, itself and its gradient


def _too_many_of_step(numbers: int, most: int) -> Exception:
    return MisuseError(
        f"the rows of one step have {numbers} numbers or more, but at most {most} may travel: take a smaller "
        "training.batchSize or pushEvery, or more model.tableBuckets"
    )


class SharedRows:
    """The Source of rows in a job. `need` says to the worker what was written here, [[table, how many], ...], and waits
    until it has brought that. `too_many` makes the error of rows that have more numbers than there is memory for."""

    is_local = False

    def __init__(
        self,
        memory: mmap.mmap,
        tables: Sequence[Table],
        need: Callable[[list[list[int]]], Any],
        too_many: Callable[[int, int], Exception] = _too_many_of_step,
    ) -> None:
        self._most = len(memory) // _NUMBER_BYTES
        self._keys = numpy.frombuffer(memory, numpy.uint64, self._most)
        self._values = numpy.frombuffer(memory, numpy.float32, self._most, 8 * self._most)
        self._gradients = numpy.frombuffer(memory, numpy.float32, self._most, 12 * self._most)
        self._tables = tables
        self._need = need
        self._too_many = too_many
        self._numbers = 0  # of rows that were asked for in this step

    def begin(self) -> None:
        self._numbers = 0

    def bring(self, wanted: Sequence[tuple[int, numpy.ndarray]], ahead: bool) -> list[Block]:
        blocks, count = [], 0
        for table, keys in wanted:
            width = self._tables[table].width
            first, self._numbers = self._numbers, self._numbers + len(keys) * width
            if self._numbers > self._most:
                raise self._too_many(self._numbers, self._most)
            self._keys[count : count + len(keys)] = keys
            count += len(keys)
            values, gradient = (
                of[first : self._numbers].reshape(len(keys), width) for of in (self._values, self._gradients)
            )
            gradient[...] = 0
            blocks.append(Block(keys, values, gradient))
        if not ahead:
            self._need([[table, len(keys)] for table, keys in wanted])
        return blocks

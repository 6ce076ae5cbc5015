"""LocalTables: rows of tables in this one process, as parameter servers would keep them."""

from __future__ import annotations

from typing import Sequence

import numpy

from downpour.errors import MisuseError, TrainingError
from downpour.local_optimizer import rate_share, update
from downpour.tables import Block, Table

_STREAM = 12  # of initial values: ps/table/table_spec.cc
_SLOTS = {"sgd": 0, "adagrad": 1, "adam": 2, "ftrl": 2}


def _mix(z: numpy.ndarray) -> numpy.ndarray:
    """splitmix64, as runtime/prng.h has it."""
    z = z + numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def initial_rows(table: Table, number: int, seed: int, keys: numpy.ndarray) -> numpy.ndarray:
    """What rows hold before their first push: the same bits as on a server. `number`: the table's, in the model."""
    state = numpy.array([seed], numpy.uint64)
    state = _mix(state)
    for word in (_STREAM, number):
        state = _mix(state ^ numpy.uint64(word))
    streams = _mix(state ^ keys)
    draws = _mix(streams[:, None] ^ numpy.arange(table.width, dtype=numpy.uint64))
    odd = 2 * (draws >> numpy.uint64(40)).astype(numpy.int64) + 1 - (1 << 24)
    unit = numpy.float32(float(numpy.float32(table.initial)) * 2.0**-24)
    return rounded(table, odd.astype(numpy.float32) * unit)


def rounded(table: Table, values: numpy.ndarray) -> numpy.ndarray:
    """To the nearest bfloat16, where the table keeps these."""
    if table.precision != "bf16":
        return values
    bits = numpy.ascontiguousarray(values, numpy.float32).view(numpy.uint32)
    bits = bits + numpy.uint32(0x7FFF) + ((bits >> numpy.uint32(16)) & numpy.uint32(1))
    return (bits & numpy.uint32(0xFFFF0000)).view(numpy.float32)


class LocalTable:
    """Rows lie at places that are not given away. Keys that wait to be admitted are counted without a bound."""

    # While a job trains here its rows are on its servers, and those of the step at hand in the layers of its model. A
    # layer that was copied, or made later, would answer with rows that nobody trains.
    job_trains = False

    def __init__(self, table: Table) -> None:
        self.table = table
        self.number, self.seed = 0, 1
        self.is_elsewhere = False  # a job has the rows that were trained
        self._places: dict[int, int] = {}
        self._free: list[int] = []
        self._counts: dict[int, tuple[int, int]] = {}  # how often a key was pushed, and when last
        self._values = numpy.zeros((0, table.width), numpy.float32)
        width = 1 if table.row_wise else table.width
        self._slots = [numpy.zeros((0, width), numpy.float32) for _ in range(_SLOTS[table.rule["name"]])]
        self._last = numpy.zeros(0, numpy.int64)  # push that each row had
        self._clock = 0  # pushes so far, empty ones too
        self._updates = 0

    def __len__(self) -> int:
        return len(self._places)

    def items(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """(ids, values) of all rows."""
        self._check()
        self._sweep()
        places = list(self._places.values())
        return numpy.array(list(self._places), numpy.uint64).view(numpy.int64), self._values[places]

    def put(self, keys: numpy.ndarray, values: numpy.ndarray) -> None:
        """Rows with these values, as if they had just been born."""
        self.is_elsewhere = False
        places = [self._places.get(key, -1) for key in keys.tolist()]
        places = [self._born(key) if place < 0 else place for key, place in zip(keys.tolist(), places)]
        self._values[places] = rounded(self.table, values)
        self._last[places] = self._clock
        for slot in self._slots:
            slot[places] = 0

    def _check(self) -> None:
        if LocalTable.job_trains:
            raise MisuseError(
                f"table {self.table.name or 'of a layer'} is read by a layer that fit() does not know: make all layers "
                "of the model before fit(), and use those in its steps, not copies"
            )
        if self.is_elsewhere:
            name = self.table.name
            raise TrainingError(
                f"the rows of table {name} lie in the job's checkpoints, and not in this process: give the layer those "
                f"by layer.set_rows(*downpour.Job(JOB_DIR).table({name!r}))"
            )

    def gather(self, keys: numpy.ndarray) -> numpy.ndarray:
        self._check()
        places = numpy.array([self._places.get(key, -1) for key in keys.tolist()], numpy.int64)
        is_there = self._alive(places)
        values = numpy.empty((len(keys), self.table.width), numpy.float32)
        values[is_there] = self._values[places[is_there]]
        values[~is_there] = initial_rows(self.table, self.number, self.seed, keys[~is_there])
        return values

    def _alive(self, places: numpy.ndarray) -> numpy.ndarray:
        is_there = places >= 0
        if self.table.evict_after and len(self._last):
            is_there &= self._clock - self._last[places] < self.table.evict_after
        return is_there

    def push(self, keys: numpy.ndarray, gradients: numpy.ndarray, job_steps: int) -> None:
        """One push of keys, each once; of none where the step had nothing for this table."""
        if keys.size:
            places = numpy.array([self._places.get(key, -1) for key in keys.tolist()], numpy.int64)
            absent = numpy.flatnonzero(~self._alive(places))
            births = [self._admit(int(keys[i]), int(places[i])) for i in absent]
            places[absent] = births
            born = absent[numpy.array(births, numpy.int64) >= 0]
            self._values[places[born]] = initial_rows(self.table, self.number, self.seed, keys[born])
            for slot in self._slots:
                slot[places[born]] = 0
            has_row = places >= 0
            self._update(places[has_row], gradients[has_row], job_steps)
        self._clock += 1

    def _update(self, places: numpy.ndarray, gradients: numpy.ndarray, job_steps: int) -> None:
        rule = self.table.rule
        share = rate_share(rule.get("schedule", {}), self._clock, job_steps)
        self._updates += 1
        arrays = [self._values[places], *(slot[places] for slot in self._slots)]
        update(rule["name"], rule, arrays, gradients, share, self._updates)
        self._values[places] = rounded(self.table, arrays[0])
        for slot, changed in zip(self._slots, arrays[1:]):
            slot[places] = changed
        self._last[places] = self._clock + 1

    def _admit(self, key: int, place: int) -> int:
        """Where a row is born, or -1 where it is not yet. `place`: where it lay before it expired."""
        table = self.table
        if table.admit_after > 1:
            count, last = self._counts.get(key, (0, 0))
            if table.evict_after and self._clock - last >= table.evict_after:
                count = 0
            self._counts[key] = count + 1, self._clock + 1
            if count + 1 < table.admit_after:
                return -1
        if table.max_rows and len(self._places) - (place >= 0) >= table.max_rows:
            self._sweep()
            place = self._places.get(key, -1)
            if len(self._places) >= table.max_rows:
                return -1
        self._counts.pop(key, None)
        return place if place >= 0 else self._born(key)

    def _born(self, key: int) -> int:
        if not self._free:
            size = len(self._last)
            more = max(64, size // 2)
            self._values = numpy.concatenate([self._values, numpy.zeros((more, self.table.width), numpy.float32)])
            self._slots = [numpy.concatenate([s, numpy.zeros((more, s.shape[1]), numpy.float32)]) for s in self._slots]
            self._last = numpy.concatenate([self._last, numpy.zeros(more, numpy.int64)])
            self._free = list(range(size + more - 1, size - 1, -1))
        place = self._free.pop()
        self._places[key] = place
        self._last[place] = self._clock + 1
        return place

    def _sweep(self) -> None:
        """Takes away what has expired."""
        if not self.table.evict_after:
            return
        for key, place in list(self._places.items()):
            if self._clock - self._last[place] >= self.table.evict_after:
                self._free.append(self._places.pop(key))


class LocalTables:
    """The Source of rows where there are no servers."""

    is_local = True

    def __init__(self, tables: Sequence[LocalTable], job_steps: int = 1) -> None:
        self._tables = tables
        self._job_steps = job_steps

    def begin(self) -> None:
        pass

    def bring(self, wanted: Sequence[tuple[int, numpy.ndarray]], ahead: bool) -> list[Block]:
        blocks = []
        for table, keys in wanted:
            values = self._tables[table].gather(keys)
            blocks.append(Block(keys, values, numpy.zeros_like(values)))
        return blocks

    def push(self, blocks: Sequence[Sequence[Block]]) -> bool:
        """A step: of each table what was brought, with its gradients. False, and without effect, where some of these
        are not finite."""
        is_safe = all(bool(numpy.isfinite(block.gradient).all()) for one in blocks for block in one)
        for table, its in zip(self._tables, blocks):
            keys = numpy.concatenate([block.keys for block in its]) if its and is_safe else numpy.zeros(0, numpy.uint64)
            gradients = numpy.concatenate([block.gradient for block in its]) if keys.size else numpy.zeros((0, 0))
            table.push(keys, gradients, self._job_steps)
        return is_safe

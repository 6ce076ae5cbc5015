"""Table: rows of numbers by 64-bit keys; and Rows: those of them that the step at hand reads. docs/TABLES.md"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Optional, Protocol, Sequence, Union

import numpy

from downpour.errors import MisuseError, TrainingError, kind_of
from downpour.optimizers import completed

MOST_TABLES = 256
MOST_WIDTH = 4096
MOST_PUSHES = 1 << 24
OPTIMIZERS = ("sgd", "adagrad", "adam", "ftrl")
_NO_KEY = numpy.uint64(1 << 63)  # -2^63: what stands in data where there is no key
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class Table:
    """As model.tables of a job file has it, with keys in the way of Python. docs/JOB_FILE.md says what they mean."""

    name: str  # empty as long as no model gives it one
    width: int
    optimizer: Mapping[str, Any] = field(default_factory=lambda: {"name": "adagrad"})
    initializer: Union[str, Mapping[str, float]] = field(default_factory=lambda: {"uniform": 0.05})
    admit_after: int = 1
    evict_after: int = 0
    max_rows: int = 0
    precision: str = "fp32"

    def to_json(self) -> dict[str, Any]:
        initializer = self.initializer if isinstance(self.initializer, str) else dict(self.initializer)
        return {
            "name": self.name,
            "width": self.width,
            "optimizer": dict(self.optimizer),
            "initializer": initializer,
            "admitAfter": self.admit_after,
            "evictAfter": self.evict_after,
            "maxRows": self.max_rows,
            "precision": self.precision,
        }

    @property
    def initial(self) -> float:
        """A row begins with draws of U(-initial, initial)."""
        return 0.0 if isinstance(self.initializer, str) else float(self.initializer["uniform"])

    @property
    def row_wise(self) -> bool:
        return bool(self.optimizer.get("rowWise", False))

    @property
    def rule(self) -> dict[str, Any]:
        """Its optimizer with all numbers."""
        return completed({key: value for key, value in self.optimizer.items() if key != "rowWise"})


def checked(name: str, width: Any, optimizer: Any, initializer: Any, **numbers: Any) -> Table:
    """The table of these settings. Raises TrainingError, with the remedy, for what no job has."""
    which = f"table {name}" if name else "a table"
    if name and not _NAME.fullmatch(name):
        raise TrainingError(f"a table's name is {name!r}, but must be letters, digits, '_', '-' and '.': rename it")
    rule = {"name": optimizer} if isinstance(optimizer, str) else optimizer
    rule = {"name": "adagrad"} if rule is None else rule
    if not isinstance(rule, Mapping):
        raise TrainingError(
            f"the optimizer of {which} is {kind_of(optimizer)}: its rows have a rule of their own, which is a name "
            "or a dict, as optimizer={'name': 'adagrad', 'learningRate': 0.05}"
        )
    rule = {"name": "adagrad", **rule}
    if rule["name"] not in OPTIMIZERS:
        raise TrainingError(f"{which} has no optimizer {rule['name']!r}: name one of {', '.join(OPTIMIZERS)}")
    for key in ("clipValue", "clipNorm", "overrides"):
        if key in rule:
            raise TrainingError(f"{which}: its optimizer takes no {key}: leave it out")
    if "rowWise" in rule and rule["name"] != "adagrad":
        raise TrainingError(f"{which}: rowWise goes with adagrad alone: leave it out")
    initializer = {"uniform": 0.05} if initializer is None else initializer
    if not (initializer == "zeros" or (isinstance(initializer, Mapping) and list(initializer) == ["uniform"])):
        raise TrainingError(f"the initializer of {which} is {initializer!r}: give 'zeros' or {{'uniform': 0.05}}")
    ranges = {
        "width": (width, 1, MOST_WIDTH),
        "admit_after": (numbers["admit_after"], 1, MOST_PUSHES),
        "evict_after": (numbers["evict_after"], 0, MOST_PUSHES),
        "max_rows": (numbers["max_rows"], 0, 1 << 40),
    }
    for key, (value, least, most) in ranges.items():
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise TrainingError(f"{key} of {which} is {value!r}, but must be a whole number of {least} to {most}")
    if numbers["precision"] not in ("fp32", "bf16"):
        raise TrainingError(f"precision of {which} is {numbers['precision']!r}: take fp32 or bf16")
    table = Table(name, width, rule, initializer, **numbers)
    table.rule  # its numbers are looked at here
    return table


def keys_of(ids: Any, which: str) -> numpy.ndarray:
    """The ids as keys: uint64, flat. Of an id below 0 the key is that of its 64 bits.

    Raises TrainingError for what are no ids.
    """
    array = numpy.asarray(ids.detach().cpu() if callable(getattr(ids, "detach", None)) else ids)
    if array.size and array.dtype.kind not in "iu":
        kind = array.dtype if array.dtype.kind != "O" else "whole numbers beyond 64 bits, or of other objects"
        raise TrainingError(
            f"the ids of {which} are of {kind}, but must be whole numbers of 64 bits: give them as int64, such as by "
            ".long() or .astype('int64')"
        )
    keys = array.ravel()
    keys = keys.astype(numpy.int64) if keys.dtype.kind == "i" else keys.astype(numpy.uint64)
    keys = keys.view(numpy.uint64)
    if (keys == _NO_KEY).any():
        raise TrainingError(f"an id of {which} is -2^63, which names no row: take another one")
    return keys


class Block:
    """Rows that were asked for together: of one table, in the order of their keys. `leaf` is the model's own."""

    def __init__(self, keys: numpy.ndarray, values: numpy.ndarray, gradient: numpy.ndarray) -> None:
        self.keys = keys
        self.values = values
        self.gradient = gradient  # zero, until something is added
        self.leaf: Any = None


class Source(Protocol):
    """Where rows come from, and gradients go to."""

    is_local: bool  # in this process

    def begin(self) -> None:
        """Another step: what was brought before is not needed any more."""

    def bring(self, wanted: Sequence[tuple[int, numpy.ndarray]], ahead: bool) -> list[Block]:
        """Rows of tables by their numbers, ascending, and keys, ascending. Those asked for `ahead` need have their
        values only when the step begins."""


class Rows:
    """What the step or the batch at hand reads, each row once, whoever asks for it first."""

    def __init__(self, tables: Sequence[Table], source: Source) -> None:
        self.tables = tables
        self._source = source
        self.is_local = source.is_local
        self.is_ahead = False  # its rows are those that a function of keys has named
        self._lock = threading.Lock()  # a program may call its layers from several threads
        self._forget()

    def _forget(self) -> None:
        self.blocks: list[list[Block]] = [[] for _ in self.tables]
        self._known: list[Optional[tuple[numpy.ndarray, numpy.ndarray]]] = [None] * len(self.tables)
        self._used = [numpy.zeros(0, bool) for _ in self.tables]

    def begin(self) -> None:
        self._forget()
        self.is_ahead = False
        self._source.begin()

    def begin_ahead(self, keys: Sequence[numpy.ndarray]) -> list[list[int]]:
        """Another step, whose keys are these, by table. Returns [table, how many] of each that has any."""
        self.begin()
        wanted = [(table, numpy.unique(one)) for table, one in enumerate(keys) if one.size]
        self._add(wanted, ahead=True)
        self.is_ahead = True
        return [[table, len(one)] for table, one in wanted]

    def end(self, is_training: bool) -> None:
        """The step is over. Raises MisuseError for keys that were named for it and not asked for."""
        was_ahead, self.is_ahead = self.is_ahead, False
        for table, used in enumerate(self._used if was_ahead and is_training else []):
            if not used.all():
                keys = numpy.concatenate([block.keys for block in self.blocks[table]])[~used]
                self._refuse(table, keys, "keys= names {}, which forward does not ask for: let it name no others")

    def _refuse(self, table: int, keys: numpy.ndarray, what: str) -> None:
        name = self.tables[table].name
        others = f" and {len(keys) - 1} others" if len(keys) > 1 else ""
        raise MisuseError(what.format(f"the id {keys[:1].view(numpy.int64)[0]} of table {name}{others}"))

    def _add(self, wanted: Sequence[tuple[int, numpy.ndarray]], ahead: bool) -> None:
        for (table, keys), block in zip(wanted, self._source.bring(wanted, ahead)):
            self.blocks[table].append(block)
            count = len(self._used[table])
            self._used[table] = numpy.concatenate([self._used[table], numpy.zeros(len(keys), bool)])
            numbers = numpy.arange(count, count + len(keys))
            known = self._known[table]
            if known is not None:
                keys, numbers = numpy.concatenate([known[0], keys]), numpy.concatenate([known[1], numbers])
                order = numpy.argsort(keys)
                keys, numbers = keys[order], numbers[order]
            self._known[table] = keys, numbers

    def numbers(self, table: int, keys: numpy.ndarray) -> numpy.ndarray:
        """Which of the table's rows each key has, counted through its blocks. What is not here is brought first."""
        if not keys.size:
            return numpy.zeros(0, numpy.int64)
        with self._lock:
            return self._numbers(table, keys)

    def _numbers(self, table: int, keys: numpy.ndarray) -> numpy.ndarray:
        found, missing = self._find(table, keys)
        if missing.size:
            if self.is_ahead:
                self._refuse(
                    table, missing, "forward asks for {}, which keys= does not name: let it name all, or leave it out"
                )
            self._add([(table, missing)], ahead=False)
            found, _ = self._find(table, keys)
        self._used[table][found] = True
        return found

    def _find(self, table: int, keys: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Their numbers, and which of them are not here."""
        known = self._known[table]
        if known is None:
            return numpy.zeros(0, numpy.int64), numpy.unique(keys)
        places = numpy.minimum(numpy.searchsorted(known[0], keys), len(known[0]) - 1)
        is_here = known[0][places] == keys
        return known[1][places], numpy.unique(keys[~is_here]) if not is_here.all() else keys[:0]

    def all_blocks(self) -> Iterable[Block]:
        return (block for blocks in self.blocks for block in blocks)


def keys_by_table(named: Any, tables: Sequence[Table], paddings: Sequence[set]) -> list[numpy.ndarray]:
    """What a function of keys has returned: of each table its keys, without those that stand for no row."""
    if len(tables) == 1 and not isinstance(named, Mapping):
        named = {tables[0].name: named}
    if not isinstance(named, Mapping):
        raise TrainingError(f"keys= returns {kind_of(named)}: return a dict of ids by the names of tables")
    places = {table.name: place for place, table in enumerate(tables)}
    if strangers := [str(name) for name in named if name not in places]:
        raise TrainingError(f"keys= names the table {strangers[0]}, but the model's are {', '.join(places)}")
    found = [numpy.zeros(0, numpy.uint64) for _ in tables]
    for name, ids in named.items():
        several = ids if isinstance(ids, (list, tuple)) and any(hasattr(one, "shape") for one in ids) else [ids]
        keys = numpy.concatenate([keys_of(one, f"table {name}") for one in several])
        padding = paddings[places[name]]
        found[places[name]] = keys[~numpy.isin(keys, numpy.array(sorted(padding), numpy.uint64))] if padding else keys
    return found

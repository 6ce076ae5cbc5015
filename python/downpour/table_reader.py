"""TableReader: what a layer knows of its table and rows, whatever it is made with."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Union

import numpy

from downpour.errors import TrainingError
from downpour.local_tables import LocalTable, LocalTables
from downpour.tables import MOST_TABLES, Rows, Table, checked, keys_of


class TableReader:
    """
    dim: numbers of a row. There is no number of rows: each id of 64 bits has one.
    name: the table's; layers with one name share its rows. Without it that is the layer's place in the model.
    padding_idx: an id that stands for none: it yields zeros, and a bag leaves it out.
    optimizer: of the rows, by name or as a dict of its keys: sgd, adagrad (also with rowWise), adam or ftrl.
    initializer: "zeros", or {"uniform": 0.05}, for draws between -0.05 and 0.05.
    admit_after, evict_after, max_rows, precision: as a job file has them for a table.
    """

    def __init__(
        self,
        kind: str,
        dim: Any,
        others: tuple,
        *,
        name: str = "",
        padding_idx: Optional[int] = None,
        optimizer: Union[str, Mapping[str, Any], None] = None,
        initializer: Union[str, Mapping[str, float], None] = None,
        admit_after: int = 1,
        evict_after: int = 0,
        max_rows: int = 0,
        precision: str = "fp32",
    ) -> None:
        """`kind`: the layer's, for errors; `others`: what stands behind dim and should not."""
        if others:
            raise TrainingError(f"a table has no number of rows: write {kind}({others[0]})")
        self._kind = kind
        self._settings = {"admit_after": admit_after, "evict_after": evict_after, "max_rows": max_rows}
        self._settings["precision"] = precision
        self.table = checked(name, dim, optimizer, initializer, **self._settings)
        self.padding = None if padding_idx is None else keys_of([padding_idx], f"{kind}.padding_idx")[0]
        self.local = LocalTable(self.table)  # the rows that this process has by itself
        self._rows: Optional[Rows] = None  # those of the step at hand; place is that of its table there
        self._place = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}  # those of a step are this process's

    def __str__(self) -> str:
        return f"table {self.table.name}" if self.table.name else self._kind

    def name_table(self, name: str) -> None:
        if not self.table.name:
            table = self.table
            self.table = checked(name, table.width, dict(table.optimizer), table.initializer, **self._settings)

    def bind(self, rows: Optional[Rows], place: int = 0) -> None:
        self._rows, self._place = rows, place

    def rows(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """(ids, values) of all rows that this process has: those that it trained by itself, or was given."""
        return self.local.items()

    def set_rows(self, ids: Any, values: Any) -> None:
        """From now on these ids have these rows here, as from Job.table(). A job begins without them."""
        keys = keys_of(ids, str(self))
        values = numpy.asarray(values, numpy.float32)
        if values.shape != (len(keys), self.table.width):
            raise TrainingError(
                f"{self} has rows of {self.table.width} numbers, but {len(keys)} ids have values of "
                f"shape {list(values.shape)}"
            )
        self.local.put(keys, values)
        self.bind(None)

    def for_step(self) -> tuple[Rows, int]:
        """Where its rows are, and the place of its table there. Where nothing is trained they are read each time."""
        return (self._rows, self._place) if self._rows else (Rows([self.table], LocalTables([self.local])), 0)

    def is_bound(self) -> bool:
        return self._rows is not None


class Readers:
    """All that a model has, with its tables. Raises TrainingError where layers of one name differ.

    `named`: each with its place in the model, such as `layers.0`.
    """

    def __init__(self, named: Iterable[tuple[str, TableReader]]) -> None:
        self.tables: list[Table] = []
        self._readers: list[tuple[TableReader, int]] = []
        self.local: list[LocalTable] = []  # of each table, where this process trains by itself
        for path, reader in named:
            reader.name_table(path or "rows")
            names = [table.name for table in self.tables]
            if reader.table.name not in names:
                names.append(reader.table.name)
                self.tables.append(reader.table)
                self.local.append(reader.local)
            place = names.index(reader.table.name)
            if self.tables[place] != reader.table:
                raise TrainingError(
                    f"two layers share the table {reader.table.name} with other settings: give both the same, or names "
                    "of their own"
                )
            self._readers.append((reader, place))
            reader.local = self.local[place]
            reader.local.table = reader.table
        if len(self.tables) > MOST_TABLES:
            raise TrainingError(
                f"the model has {len(self.tables)} tables, a job at most {MOST_TABLES}: let layers share some"
            )

    @property
    def paddings(self) -> list[set]:
        """Of each table the keys that stand for no row."""
        sets: list[set] = [set() for _ in self.tables]
        for reader, place in self._readers:
            if reader.padding is not None:
                sets[place].add(reader.padding)
        return sets

    def check_begun(self) -> None:
        """Raises TrainingError where rows were set, which a job would pass over."""
        for table in self.local:
            if len(table):
                raise TrainingError(
                    f"table {table.table.name} was given {len(table)} rows by set_rows(), and a job begins without "
                    "them: leave that out where a job trains, or go on in the job that has them, by --resume"
                )

    def bind(self, rows: Optional[Rows]) -> None:
        for reader, place in self._readers:
            reader.bind(rows, place)

    def release(self, are_local: bool) -> None:
        """Behind training. Rows of a job are not here."""
        LocalTable.job_trains = False
        for table in self.local:
            table.is_elsewhere = not are_local
        self.bind(None)

"""Embedding and EmbeddingBag: torch modules whose weights are rows of a table on the parameter servers."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

import numpy
import torch
from torch.nn import functional

from downpour.errors import TrainingError, kind_of
from downpour.local_tables import LocalTable, LocalTables
from downpour.tables import MOST_TABLES, Block, Rows, Table, checked, keys_of


class TableLayer(torch.nn.Module):
    """What the two layers have in common. Its rows are no parameters: neither state_dict() nor an optimizer of torch
    has them."""

    def __init__(
        self,
        dim: int,
        *others: Any,
        name: str = "",
        padding_idx: Optional[int] = None,
        optimizer: Union[str, Mapping[str, Any], None] = None,
        initializer: Union[str, Mapping[str, float], None] = None,
        admit_after: int = 1,
        evict_after: int = 0,
        max_rows: int = 0,
        precision: str = "fp32",
    ) -> None:
        """
        dim: numbers of a row. There is no number of rows: each id of 64 bits has one.
        name: the table's; layers with one name share its rows. Without it that is the layer's place in the model.
        padding_idx: an id that stands for none: it yields zeros, and a bag leaves it out.
        optimizer: of the rows, by name or as a dict of its keys: sgd, adagrad (also with rowWise), adam or ftrl.
        initializer: "zeros", or {"uniform": 0.05}, for draws between -0.05 and 0.05.
        admit_after, evict_after, max_rows, precision: as a job file has them for a table.
        """
        super().__init__()
        kind = type(self).__name__
        if others:
            raise TrainingError(f"a table has no number of rows: write downpour.{kind}({others[0]})")
        settings = {"admit_after": admit_after, "evict_after": evict_after, "max_rows": max_rows}
        self.table = checked(name, dim, optimizer, initializer, precision=precision, **settings)
        self.padding_idx = padding_idx
        self._padding = None if padding_idx is None else keys_of([padding_idx], f"{kind}.padding_idx")[0]
        self._local: Optional[LocalTable] = None  # where it trains in one process
        self._rows: Optional[Rows] = None  # since it is known which of them: place is that of its table there
        self._place = 0

    @property
    def padding(self) -> set:
        """Keys that stand for no row."""
        return set() if self._padding is None else {self._padding}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}  # those of a step are this process's

    def extra_repr(self) -> str:
        return f"{self.table.width}, name={self.table.name!r}" if self.table.name else f"{self.table.width}"

    def local(self) -> LocalTable:
        """The rows that this process has by itself."""
        if self._local is None:
            self._local = LocalTable(self.table)
        return self._local

    def bind(self, rows: Optional[Rows], place: int = 0) -> None:
        self._rows, self._place = rows, place

    def rows(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """(ids, values) of all rows that this process has: those that it trained by itself, or was given."""
        return self.local().items()

    def set_rows(self, ids: Any, values: Any) -> None:
        """From now on these ids have these rows here, as from Job.table(). A job begins without them."""
        keys = keys_of(ids, f"table {self.table.name}")
        values = numpy.asarray(values, numpy.float32)
        if values.shape != (len(keys), self.table.width):
            raise TrainingError(
                f"table {self.table.name} has rows of {self.table.width} numbers, but {len(keys)} ids have values of "
                f"shape {list(values.shape)}"
            )
        self.local().put(keys, values)
        self.bind(None)

    def _look_up(self, ids: torch.Tensor, keys: numpy.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """(which row each key has, the rows), where the ids are. Where nothing is trained rows are read each time."""
        rows, place = (self._rows, self._place) if self._rows else (Rows([self.table], LocalTables([self.local()])), 0)
        numbers = torch.from_numpy(rows.numbers(place, keys))
        leaves = [self._leaf(block) for block in rows.blocks[place]]
        if len(leaves) == 1:
            weight = leaves[0]
        else:
            weight = torch.cat(leaves) if leaves else torch.zeros(0, self.table.width)
        return numbers.to(ids.device), weight.to(ids.device)

    @staticmethod
    def _leaf(block: Block) -> torch.Tensor:
        if block.leaf is None:
            block.leaf = torch.from_numpy(block.values).requires_grad_()
        return block.leaf

    def _keys(self, ids: Any) -> numpy.ndarray:
        if not isinstance(ids, torch.Tensor):
            raise TrainingError(f"the ids of {self._name()} are {kind_of(ids)}: give a tensor of whole numbers")
        return keys_of(ids, self._name())

    def _name(self) -> str:
        return f"table {self.table.name}" if self.table.name else f"downpour.{type(self).__name__}"


class Embedding(TableLayer):
    """In place of torch.nn.Embedding: of ids of any shape [...] the rows, [..., dim]."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        keys = self._keys(ids)
        if self._padding is None:
            numbers, weight = self._look_up(ids, keys)
            return functional.embedding(numbers, weight).view(*ids.shape, self.table.width)
        is_row = torch.from_numpy(keys != self._padding).to(ids.device)
        numbers, weight = self._look_up(ids, keys[keys != self._padding])
        out = weight.new_zeros(len(keys), self.table.width)
        return out.index_put((is_row.nonzero(as_tuple=True)[0],), functional.embedding(numbers, weight)).view(
            *ids.shape, self.table.width
        )


class EmbeddingBag(TableLayer):
    """In place of torch.nn.EmbeddingBag: the sum, mean or maximum of the rows of each bag, [bags, dim]. A bag without
    an id yields zeros."""

    def __init__(
        self, dim: int, *others: Any, mode: str = "mean", include_last_offset: bool = False, **settings: Any
    ) -> None:
        """mode: sum, mean or max. All else is as for Embedding."""
        if mode not in ("sum", "mean", "max"):
            raise TrainingError(f"mode of downpour.EmbeddingBag is {mode!r}: take sum, mean or max")
        super().__init__(dim, *others, **settings)
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self,
        ids: torch.Tensor,
        offsets: Optional[torch.Tensor] = None,
        per_sample_weights: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        """ids: [bags, ids of each], or flat with `offsets`, where each bag begins. per_sample_weights: like ids, for
        mode sum."""
        keys = self._keys(ids)
        if (offsets is None) != (ids.dim() == 2) or ids.dim() > 2:
            has = "without" if offsets is None else "with"
            raise TrainingError(
                f"the ids of {self._name()} have the shape {list(ids.shape)} {has} offsets: give ids "
                "[bags, ids of each] alone, or flat ids with offsets"
            )
        if offsets is None:
            offsets = torch.arange(ids.shape[0] + 1, device=ids.device) * ids.shape[1]
        elif not self.include_last_offset:
            offsets = torch.cat([offsets, offsets.new_tensor([len(keys)])])
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        if self._padding is not None:
            is_row = torch.from_numpy(keys != self._padding).to(ids.device)
            before = torch.cat([is_row.new_zeros(1, dtype=torch.long), is_row.cumsum(0)])
            offsets, keys = before[offsets.long()], keys[keys != self._padding]
            weights = None if weights is None else weights[is_row]
        numbers, weight = self._look_up(ids, keys)
        if not len(keys):
            return weight.new_zeros(len(offsets) - 1, self.table.width)
        return functional.embedding_bag(
            numbers, weight, offsets.long(), mode=self.mode, per_sample_weights=weights, include_last_offset=True
        )


def layers_of(module: torch.nn.Module) -> tuple[list[Table], list[tuple[TableLayer, int]]]:
    """The tables of a model, and its layers that read them, each with the place of its table.

    Raises TrainingError where layers of one name differ.
    """
    tables: list[Table] = []
    layers: list[tuple[TableLayer, int]] = []
    for path, layer in module.named_modules():
        if not isinstance(layer, TableLayer):
            continue
        if not layer.table.name:
            layer.table = checked_name(layer.table, path or "rows")
        names = [table.name for table in tables]
        if layer.table.name not in names:
            tables.append(layer.table)
        place = [table.name for table in tables].index(layer.table.name)
        if tables[place] != layer.table:
            raise TrainingError(
                f"two layers share the table {layer.table.name} with other settings: give both the same, or names of "
                "their own"
            )
        layers.append((layer, place))
    if len(tables) > MOST_TABLES:
        raise TrainingError(f"the model has {len(tables)} tables, a job at most {MOST_TABLES}: let layers share some")
    return tables, layers


def checked_name(table: Table, name: str) -> Table:
    settings = table.__dict__
    rest = {key: settings[key] for key in ("admit_after", "evict_after", "max_rows", "precision")}
    return checked(name, table.width, dict(table.optimizer), table.initializer, **rest)


def local_tables(layers: Sequence[tuple[TableLayer, int]]) -> list[LocalTable]:
    """The rows that this process has, of each table: layers that share one have the same."""
    first: dict[int, LocalTable] = {}
    for layer, place in layers:
        own = first.setdefault(place, layer.local())
        layer._local = own
        own.table = layer.table
    return [first[place] for place in sorted(first)]

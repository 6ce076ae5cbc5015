"""Embedding and EmbeddingBag: torch modules whose weights are rows of a table on the parameter servers."""

from __future__ import annotations

from typing import Any, Iterator, Optional

import numpy
import torch
from torch.nn import functional

from downpour.errors import TrainingError, kind_of
from downpour.table_reader import TableReader
from downpour.tables import Block, keys_of


class TableLayer(torch.nn.Module):
    """What the two layers have in common. Its rows are no parameters: neither state_dict() nor an optimizer of torch
    has them."""

    def __init__(self, dim: int, *others: Any, **settings: Any) -> None:
        super().__init__()
        self.reader = TableReader(f"downpour.{type(self).__name__}", dim, others, **settings)

    __init__.__doc__ = TableReader.__doc__

    def extra_repr(self) -> str:
        table = self.reader.table
        return f"{table.width}, name={table.name!r}" if table.name else f"{table.width}"

    def rows(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        return self.reader.rows()

    def set_rows(self, ids: Any, values: Any) -> None:
        self.reader.set_rows(ids, values)

    rows.__doc__, set_rows.__doc__ = TableReader.rows.__doc__, TableReader.set_rows.__doc__

    def _look_up(self, ids: torch.Tensor, keys: numpy.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """(which row each key has, the rows), where the ids are."""
        rows, place = self.reader.for_step()
        numbers = torch.from_numpy(rows.numbers(place, keys))
        leaves = [_leaf(block) for block in rows.blocks[place]]
        if len(leaves) == 1:
            weight = leaves[0]
        else:
            weight = torch.cat(leaves) if leaves else torch.zeros(0, self.reader.table.width)
        return numbers.to(ids.device), weight.to(ids.device)

    def _keys(self, ids: Any) -> numpy.ndarray:
        if not isinstance(ids, torch.Tensor):
            raise TrainingError(f"the ids of {self.reader} are {kind_of(ids)}: give a tensor of whole numbers")
        return keys_of(ids, str(self.reader))


def _leaf(block: Block) -> torch.Tensor:
    if block.leaf is None:
        block.leaf = torch.from_numpy(block.values).requires_grad_()
    return block.leaf


class Embedding(TableLayer):
    """In place of torch.nn.Embedding: of ids of any shape [...] the rows, [..., dim]."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        keys, padding = self._keys(ids), self.reader.padding
        shape = *ids.shape, self.reader.table.width
        if padding is None:
            return functional.embedding(*self._look_up(ids, keys)).view(shape)
        places = torch.from_numpy(numpy.flatnonzero(keys != padding)).to(ids.device)
        numbers, weight = self._look_up(ids, keys[keys != padding])
        out = weight.new_zeros(len(keys), shape[-1])
        return out.index_put((places,), functional.embedding(numbers, weight)).view(shape)


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
        keys, padding = self._keys(ids), self.reader.padding
        if (offsets is None) != (ids.dim() == 2) or ids.dim() > 2:
            has = "without" if offsets is None else "with"
            raise TrainingError(
                f"the ids of {self.reader} have the shape {list(ids.shape)} {has} offsets: give ids "
                "[bags, ids of each] alone, or flat ids with offsets"
            )
        if offsets is None:
            offsets = torch.arange(ids.shape[0] + 1, device=ids.device) * ids.shape[1]
        elif not self.include_last_offset:
            offsets = torch.cat([offsets, offsets.new_tensor([len(keys)])])
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        if padding is not None:
            is_row = torch.from_numpy(keys != padding).to(ids.device)
            before = torch.cat([is_row.new_zeros(1, dtype=torch.long), is_row.cumsum(0)])
            offsets, keys = before[offsets.long()], keys[keys != padding]
            weights = None if weights is None else weights[is_row]
        numbers, weight = self._look_up(ids, keys)
        if not len(keys):
            return weight.new_zeros(len(offsets) - 1, self.reader.table.width)
        return functional.embedding_bag(
            numbers, weight, offsets.long(), mode=self.mode, per_sample_weights=weights, include_last_offset=True
        )


def readers_of(module: torch.nn.Module) -> Iterator[tuple[str, TableReader]]:
    return ((path, layer.reader) for path, layer in module.named_modules() if isinstance(layer, TableLayer))

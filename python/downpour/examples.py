"""Examples: the user's data, of which batches are made."""

from __future__ import annotations

import random
import sys
from typing import Any, Callable, Optional, Sequence

import numpy

from downpour.errors import TrainingError

Collate = Callable[[list], Any]


class Examples:
    """A map-style dataset; or a tuple or dict of arrays with a row for each example, of which each item is one too.

    `collate` makes a batch of a list of items. Without it a batch has the form of an item, of stacked arrays: those of
    torch's default_collate if `tensors`, else of NumPy. `argument` names the data in errors.
    """

    def __init__(self, data: Any, collate: Optional[Collate], tensors: bool, argument: str) -> None:
        self._columns = _columns_of(data)
        self._data = data
        self._collate = collate
        self._tensors = tensors
        self.count = _length(data, argument) if self._columns is None else len(self._columns[0])
        if self.count < 1:
            raise TrainingError(f"{argument} has no example: give it one or more")

    def batch(self, numbers: Sequence[int], seed: int) -> Any:
        """The batch of the examples of these numbers. All random draws from here on begin with `seed`."""
        seed_all(seed)
        if self._collate is not None:
            return self._collate([self._item(number) for number in numbers])
        if self._columns is not None:  # the same batch, at once
            rows = numpy.asarray(numbers)
            return _in_form_of(self._data, [self._array(column[rows]) for column in self._columns])
        items = [self._item(number) for number in numbers]
        try:
            return sys.modules["torch"].utils.data.default_collate(items) if self._tensors else _stack(items)
        except (TypeError, ValueError, RuntimeError, KeyError) as error:
            raise TrainingError(
                f"{len(items)} examples cannot be stacked to a batch ({error}): "
                "give collate=function(items), which makes one"
            ) from error

    def _array(self, rows: Any) -> Any:
        return sys.modules["torch"].as_tensor(rows) if self._tensors else numpy.asarray(rows)

    def _item(self, number: int) -> Any:
        if self._columns is None:
            return self._data[number]
        return _in_form_of(self._data, [column[number] for column in self._columns])


def seed_all(seed: int) -> None:
    """Of Python, NumPy and torch, if that is at work."""
    random.seed(seed)
    numpy.random.seed([seed & 0xFFFFFFFF, seed >> 32])
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def _columns_of(data: Any) -> Optional[list]:
    """The arrays, one row an example, that the data consist of; None if they are a dataset of another kind."""
    torch = sys.modules.get("torch")
    if torch is not None and type(data) is torch.utils.data.TensorDataset:
        return list(data.tensors)
    values = list(data.values()) if isinstance(data, dict) else list(data) if isinstance(data, tuple) else []
    if not values or not all(getattr(value, "shape", ()) for value in values):
        return None
    lengths = {len(value) for value in values}
    if len(lengths) > 1:
        raise TrainingError(f"the arrays of the data have {sorted(lengths)} rows: give each one row an example")
    return values


def _in_form_of(data: Any, values: list) -> Any:
    return dict(zip(data, values)) if isinstance(data, dict) else tuple(values)


def _length(data: Any, argument: str) -> int:
    kind = type(data).__name__
    if kind == "DataLoader":
        raise TrainingError(f"{argument} is a DataLoader: give its dataset, and batch_size= and collate= beside it")
    if not hasattr(data, "__getitem__") or isinstance(data, (str, bytes, dict)):
        raise TrainingError(
            f"{argument} is a {kind}, whose examples have no numbers: give a dataset with __getitem__ and __len__"
        )
    try:
        return len(data)
    except (TypeError, NotImplementedError) as error:
        raise TrainingError(f"{argument} is a {kind} without a length: give it __len__") from error


def _stack(items: list) -> Any:
    first = items[0]
    if isinstance(first, dict):
        return {name: _stack([item[name] for item in items]) for name in first}
    if isinstance(first, (tuple, list)):
        return tuple(_stack(list(column)) for column in zip(*items))
    return numpy.stack([numpy.asarray(item) for item in items])

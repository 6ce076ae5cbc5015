"""Examples: the user's data, of which batches are made."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import numbers
import random
import re
import sys
from typing import Any, Callable, Iterator, Optional, Sequence

import numpy

from downpour import data_kinds, rows
from downpour.data import Rows
from downpour.errors import TrainingError, kind_of

Collate = Callable[[list], Any]
# In what torch raises where types differ.
_OF_TYPES = re.compile("dtype|double|half|bfloat16", re.IGNORECASE)
_WANTS_LONG = "expected scalar type Long"


class Examples:
    """A map-style dataset; or a tuple or dict of arrays with a row for each example, of which each item is one too. In
    place of an array there may be a dict, tuple or list of arrays. Beside arrays a list of numbers is one.

    `collate` makes a batch of a list of items. Without it a batch has the form of an item, of stacked arrays: those of
    torch's default_collate if `tensors`, else of NumPy. `argument` names the data in errors. `are_rows`: they are no
    dataset of another kind, whatever they look like.
    """

    def __init__(
        self, data: Any, collate: Optional[Collate], tensors: bool, argument: str, are_rows: bool = False
    ) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and type(data) is torch.utils.data.TensorDataset:
            data = data.tensors
            are_rows = True
        data_kinds.refuse(data, argument)
        data = data if are_rows else _with_arrays(data)
        self._makes_batches = isinstance(data, Rows)
        self._are_rows = are_rows or (not self._makes_batches and _are_rows(data))
        if self._are_rows:
            data = map_arrays(lambda array: rows.positional(array, argument), data)
        elif hasattr(data, "iloc") and hasattr(data, "to_numpy"):
            data = rows.positional(data, argument)
        self._data = data
        self._argument = argument
        self._collate = collate
        self._tensors = tensors
        self.count = _rows_of(data) if self._are_rows else _length(data, argument)
        if self.count < 1:
            raise TrainingError(f"{argument} has no example: give it one or more")
        self.settings = data.settings if self._makes_batches else {}  # of the job that trains on it
        self.fingerprint = int(data.fingerprint, 16) if self._makes_batches else 0  # 0: of what cannot be told apart

    def batch(self, numbers: Sequence[int], seed: int) -> Any:
        """The batch of the examples of these numbers. All random draws from here on begin with `seed`."""
        seed_all(seed)
        if self._collate is not None:
            return self._collate(self._items(numbers))
        if self._makes_batches:
            return map_arrays(self._array, self._data.batch(numbers))
        if self._are_rows:  # the same batch, at once
            return map_arrays(lambda array: self._array(rows.at(array, numbers)), self._data)
        items = self._items(numbers)
        stack = sys.modules["torch"].utils.data.default_collate if self._tensors else _stack
        try:
            try:
                return stack(items)
            except (TypeError, ValueError):  # as of arrays in the byte order of files
                return stack(map_arrays(rows.native, items))
        except (TypeError, ValueError, RuntimeError, LookupError) as error:
            raise TrainingError(
                f"{len(items)} examples cannot be stacked to a batch ({error}): "
                "give collate=function(items), which makes one"
            ) from error

    def _array(self, found: Any) -> Any:
        if not self._tensors:
            return numpy.asarray(found)
        try:
            return sys.modules["torch"].as_tensor(found)
        except TypeError as error:
            raise TrainingError(
                f"{self._argument} has {kind_of(found)} of {getattr(found, 'dtype', 'no type')}, of which there are no "
                'tensors: give numbers, such as by .astype("int64") or .astype("float32")'
            ) from error

    def _items(self, numbers: Sequence[int]) -> list:
        if self._are_rows:
            return [map_arrays(lambda array: rows.at(array, [number])[0], self._data) for number in numbers]
        if hasattr(self._data, "__getitems__"):  # as a DataLoader asks whoever reads several at once better than one
            return list(self._data.__getitems__(list(numbers)))
        return [self._data[number] for number in numbers]


@contextlib.contextmanager
def explaining_types(argument: str, batch: Any) -> Iterator[None]:
    """Where torch refuses the types of a batch in here, such as the float64 that NumPy makes, the error says what to
    do."""
    try:
        yield
    except RuntimeError as error:
        kinds = {str(getattr(array, "dtype", "")).rpartition(".")[2] for array in _arrays_in(batch)}
        others = sorted(kinds & {"float64", "float16", "bfloat16"})
        if others and _OF_TYPES.search(str(error)):
            raise TrainingError(
                f"{argument} has data of {' and '.join(others)}, but the model is of float32 ({error}): give them as "
                'float32, such as array.astype("float32")'
            ) from error
        if _WANTS_LONG in str(error) and kinds & {"int32", "int16", "int8", "uint8"}:
            raise TrainingError(
                f'{argument} has labels that are not of int64 ({error}): give labels.astype("int64")'
            ) from error
        raise


def seed_all(seed: int) -> None:
    """Of Python, NumPy and torch, if that is at work."""
    random.seed(seed)
    numpy.random.seed([seed & 0xFFFFFFFF, seed >> 32])
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if _has_accelerator():
        torch.manual_seed(seed)
    else:  # torch would note where it was called, in case a GPU comes, which takes longer than all the rest
        torch.default_generator.manual_seed(seed)


@functools.lru_cache(maxsize=None)
def _has_accelerator() -> bool:
    torch = sys.modules["torch"]
    return any(hasattr(torch, kind) and getattr(torch, kind).is_available() for kind in ("cuda", "xpu"))


def map_arrays(function: Callable[[Any], Any], data: Any) -> Any:
    """What the function makes of each array in nested dicts, tuples and lists, in the same form."""
    if isinstance(data, dict):
        return {name: map_arrays(function, value) for name, value in data.items()}
    if isinstance(data, (tuple, list)):
        mapped = [map_arrays(function, value) for value in data]
        return mapped if isinstance(data, list) else tuple(mapped)
    return function(data)


def _arrays_in(data: Any) -> list:
    arrays: list = []
    map_arrays(arrays.append, data)
    return arrays


def _with_arrays(data: Any) -> Any:
    """The same where it is no tuple or dict with an array. Else with arrays in place of lists of numbers, which labels
    often are."""
    if not isinstance(data, (tuple, dict)) or not any(getattr(a, "shape", ()) for a in _values_of(data)):
        return data
    if isinstance(data, dict):
        return {name: _array_of(value) for name, value in data.items()}
    return tuple(_array_of(value) for value in data)


def _values_of(data: Any) -> list:
    return list(data.values() if isinstance(data, dict) else data)


def _array_of(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(v, numbers.Number) for v in value):
        return value
    array = numpy.asarray(value)
    return array.astype(numpy.float32) if array.dtype == numpy.float64 else array


def _are_rows(data: Any) -> bool:
    """Whether a tuple or dict is of arrays, one row an example. A tuple of items that look alike is a dataset.
    A dict of items by their numbers is none of both."""
    if isinstance(data, tuple):
        forms = {repr(map_arrays(type, value)) for value in data if not hasattr(value, "shape")}
        if len(forms) == 1 and not any(hasattr(value, "shape") for value in data):
            return False
    elif not isinstance(data, dict) or (0 in data and not hasattr(data[0], "shape")):
        return False
    arrays = _arrays_in(data)
    return bool(arrays) and all(getattr(array, "shape", ()) for array in arrays)


def _rows_of(data: Any) -> int:
    lengths = {rows.count(array) for array in _arrays_in(data)}
    if len(lengths) > 1:
        raise TrainingError(f"the arrays of the data have {sorted(lengths)} rows: give each one row an example")
    return lengths.pop()


def _length(data: Any, argument: str) -> int:
    if not hasattr(data, "__getitem__") or isinstance(data, (str, bytes, collections.abc.Mapping)):
        raise TrainingError(
            f"{argument} is {kind_of(data)}, whose examples have no numbers: "
            "give a dataset with __getitem__ and __len__"
        )
    try:
        return len(data)
    except (TypeError, NotImplementedError) as error:
        raise TrainingError(f"{argument} is {kind_of(data)} without a length: give it __len__") from error


def _stack(items: list) -> Any:
    first = items[0]
    if isinstance(first, dict):
        return {name: _stack([item[name] for item in items]) for name in first}
    if isinstance(first, (tuple, list)):
        if len({len(item) for item in items}) > 1:
            raise ValueError("their tuples are of several lengths")
        return tuple(_stack(list(column)) for column in zip(*items))
    return numpy.stack([numpy.asarray(item) for item in items])

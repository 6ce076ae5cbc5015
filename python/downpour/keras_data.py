"""The data of downpour.keras.fit, in the forms that model.fit takes, as arrays with a row an example."""

from __future__ import annotations

import math
from typing import Any, Mapping, Optional, Union

import keras
import numpy

from downpour import data_kinds, rows
from downpour.data import Rows
from downpour.errors import TrainingError, kind_of
from downpour.examples import Examples, map_arrays


Columns = Union[tuple, Rows]


def columns(x: Any, y: Any = None, sample_weight: Any = None) -> Columns:
    """(x, y, sample_weight), or what of it there is, of NumPy's arrays and SciPy's sparse matrices. Rows of files have
    x and y, and stay as they are."""
    if isinstance(x, Rows):
        return _labelled(x, y is not None or sample_weight is not None)
    data_kinds.refuse(x, "x", "x and y")
    x, y = _arrays_of(x), None if y is None else _arrays_of(y)
    if sample_weight is None:
        return (x,) if y is None else (x, y)
    if y is None:
        raise TrainingError("there is a sample_weight but no y: give both, or leave it out")
    weight = _arrays_of(sample_weight)
    # One of all outputs is that of each.
    return x, y, map_arrays(lambda _: weight, y) if isinstance(weight, numpy.ndarray) else weight


def _labelled(data: Rows, has_more: bool) -> Rows:
    if data.label is None:
        raise TrainingError("the rows have no label: name one where they are opened")
    if has_more:
        raise TrainingError("the rows have their labels: leave y and sample_weight out")
    return data


def parts_of(data: Columns, validation_data: Any, validation_split: float) -> tuple[Columns, Optional[Columns]]:
    """What is trained, and what is evaluated or None, of columns and what model.fit takes by these names."""
    if isinstance(validation_data, Rows):
        return data, _labelled(validation_data, False)
    if validation_data is None and validation_split and isinstance(data, Rows):
        raise TrainingError("rows of files are not split: give others as validation_data (downpour data split)")
    if validation_data is None:
        return _split(data, validation_split) if validation_split else (data, None)
    data_kinds.refuse(validation_data, "validation_data", "(x, y)")
    if not isinstance(validation_data, (tuple, list)) or len(validation_data) not in (2, 3):
        raise TrainingError(f"validation_data is {kind_of(validation_data)}: give (x, y) or (x, y, sample_weight)")
    return data, columns(*validation_data)


def _split(data: tuple, share: float) -> tuple[tuple, tuple]:
    """Without the last rows, and these."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
        raise TrainingError(f"validation_split is {share!r}, but must be above 0 and below 1")
    counts: list[int] = []
    map_arrays(lambda array: counts.append(rows.count(array)), data)
    at = math.floor(min(counts) * (1.0 - share))
    if not 0 < at < min(counts):
        raise TrainingError(f"validation_split is {share:g}, which leaves one part of {min(counts)} rows empty")
    return map_arrays(lambda array: array[:at], data), map_arrays(lambda array: array[at:], data)


def weighted(data: Columns, class_weight: Optional[Mapping[int, float]]) -> Columns:
    """With the weight of its class, as model.fit gives it, as that of each example. A class without one has 1."""
    if class_weight is None:
        return data
    if isinstance(data, Rows):
        raise TrainingError("rows of files have no class_weight: leave it out, or give arrays")
    if len(data) != 2:
        raise TrainingError("class_weight needs y, and takes the place of sample_weight: give one of the two")
    y = data[1]
    if not isinstance(y, numpy.ndarray) or y.ndim > 2:
        raise TrainingError("class_weight is for one output of classes: give sample_weight for y of other forms")
    if not isinstance(class_weight, Mapping) or not all(map(_is_weight, class_weight.values())):
        raise TrainingError(f"class_weight is {class_weight!r}, but must be a dict of finite numbers by class")
    y = y if y.ndim == 1 else y[:, 0] if y.shape[1] == 1 else y.argmax(axis=1)
    found, places = numpy.unique(numpy.round(y).astype("int64"), return_inverse=True)
    weights = numpy.array([class_weight.get(int(one), 1.0) for one in found], "float32")
    return (*data, weights[places])


def has_weights(data: Optional[Columns]) -> bool:
    """Of examples."""
    return isinstance(data, tuple) and len(data) == 3


def examples(data: Columns, argument: str) -> Examples:
    return Examples(data, None, False, argument, are_rows=isinstance(data, tuple))


def _is_weight(value: Any) -> bool:
    return isinstance(value, (int, float, numpy.number)) and math.isfinite(value) and value >= 0


def _arrays_of(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _arrays_of(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)) and any(isinstance(v, dict) or getattr(v, "shape", ()) for v in data):
        arrays = [_arrays_of(value) for value in data]
        return arrays if isinstance(data, list) else tuple(arrays)
    data = rows.positional(data, "the data of fit()")
    if hasattr(data, "tocsr"):  # each batch alone is made dense
        return data
    array = numpy.asarray(data if isinstance(data, list) else keras.ops.convert_to_numpy(data))
    if array.ndim == 0:
        raise TrainingError(f"the data have a {type(data).__name__}: give arrays with a row an example")
    return array

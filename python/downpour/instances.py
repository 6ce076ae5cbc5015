"""Instances as JSON has them, on their way into a model; and what it returns, on its way out."""

from __future__ import annotations

import inspect
import json
import math
import sys
from typing import Any, Callable, Mapping, NoReturn, Optional, Sequence

import numpy

from downpour.errors import InstanceError, TrainingError, kind_of

_SHOWN = 80  # characters of a value, in an error
_MOST_LEVELS = 24  # of a prediction: who reads it takes 32 of the whole message


class Types:
    """Of which type each input is: JSON writes 1 for 1.0 too. `known` has them by name, "" is the only one's."""

    def __init__(self, known: Mapping[str, numpy.dtype], whole: type) -> None:
        """`whole`: the type of whole numbers for inputs that are not known."""
        self._known = known
        self._whole = whole

    def of(self, name: str, sent: numpy.dtype) -> numpy.dtype:
        """`sent`: the type of what the request has."""
        usual = {"b": numpy.bool_, "f": numpy.float32}.get(sent.kind, self._whole)
        return numpy.dtype(self._known.get(name, usual))


def types_of(model: Any, batch: Any, example: Any) -> Types:
    """`batch`: as the model is trained with, its target last; None: it is not known. Without it the example tells."""
    known = {}
    if batch is not None:
        is_row = isinstance(batch, (tuple, list))
        parts = _named(model, batch[:-1]) if is_row else dict(getattr(batch, "items", dict)())
        known = {name: _dtype_of(part) for name, part in parts.items() if hasattr(part, "dtype")}
    elif example is not None:
        parts = example if isinstance(example, dict) else {"": example}
        known = {name: _EXACT.get(numpy.asarray(part).dtype.kind) for name, part in parts.items()}
        known = {name: kind for name, kind in known.items() if kind is not None}
    return Types(known, numpy.int64 if _looks_up(model) else numpy.float32)


_EXACT = {"i": numpy.int64, "f": numpy.float32, "b": numpy.bool_}


def _named(model: Any, inputs: Sequence[Any]) -> dict[str, Any]:
    if len(inputs) == 1:
        return inputs[0] if isinstance(inputs[0], dict) else {"": inputs[0]}
    return dict(zip(names_of(model.forward) or (), inputs)) if hasattr(model, "forward") else {}


def _dtype_of(array: Any) -> numpy.dtype:
    try:
        return numpy.dtype(str(array.dtype).removeprefix("torch."))
    except TypeError:  # bfloat16
        return numpy.dtype(numpy.float32)


def _looks_up(model: Any) -> bool:
    """Whether a layer takes whole numbers for what they name."""
    layers = model.modules() if hasattr(model, "modules") else getattr(model, "layers", ())
    return any(word in type(layer).__name__ for layer in layers for word in ("Embedding", "Lookup", "CategoryEncoding"))


def usual(model: Any, types: Types) -> Callable[[list], Any]:
    """What answers without a function of the user's: one call of the model, with all instances as its batch."""
    torch, keras = sys.modules.get("torch"), sys.modules.get("keras")
    if keras is not None and isinstance(model, keras.Model):
        return lambda instances: model(batch_of(instances, types), training=False)
    if torch is not None and isinstance(model, torch.nn.Module):
        place = next(model.parameters()).device
        names, needed = names_of(model.forward), _needed_by(model.forward)

        def answer(instances: list) -> Any:
            batch = batch_of(instances, types, names, needed)
            if not isinstance(batch, dict):
                return model(torch.as_tensor(batch).to(place))
            return model(**{name: torch.as_tensor(array).to(place) for name, array in batch.items()})

        return answer
    raise TrainingError(
        "a dict of arrays does not say how it answers: give downpour.serve(values, predict) a function of a list of "
        "instances"
    )


def names_of(function: Callable) -> Optional[list[str]]:
    """The names that it takes; None: any."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return None
    return [one.name for one in parameters if one.kind is not inspect.Parameter.VAR_POSITIONAL]


def _needed_by(function: Callable) -> list[str]:
    """The names without which it cannot be called."""
    some = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is inspect.Parameter.empty and one.kind not in some]


def batch_of(
    instances: list, types: Types, names: Optional[list[str]] = None, needed: Sequence[str] = ()
) -> Any:
    """The instances as one array, or as a dict of them by input. `names`: which there may be; `needed`: which must."""
    first = instances[0]
    if not isinstance(first, dict):
        if len(needed) > 1:
            raise InstanceError(f"row 0: it is no object with the inputs {', '.join(needed)}: give each by its name")
        return _array(instances, "", types)
    for row, instance in enumerate(instances):
        if not isinstance(instance, dict) or instance.keys() != first.keys():
            raise InstanceError(f"row {row}: it has other inputs than row 0, which has {', '.join(first)}")
    for name in first:
        if names is not None and name not in names:
            raise InstanceError(f"row 0: the model has no input '{name}': its inputs are {', '.join(names)}")
    for name in needed:
        if name not in first:
            raise InstanceError(f"row 0: it lacks input '{name}', which the model needs: give it")
    return {name: _array([instance[name] for instance in instances], name, types) for name in first}


def _array(values: list, name: str, types: Types) -> numpy.ndarray:
    which = f"input '{name}' " if name else "the instance "
    arrays: list[numpy.ndarray] = []
    for row, value in enumerate(values):
        try:
            array, are_alike = numpy.asarray(value), True
        except ValueError:  # of newer NumPy
            array, are_alike = numpy.empty(0, object), False
        if array.dtype.kind not in "biuf":
            what = f"is {json.dumps(value)[:_SHOWN]}" if are_alike else "has lists of several lengths"
            raise InstanceError(f"row {row}: {which}{what}: give numbers, or lists of them that are alike")
        if arrays and array.shape != arrays[0].shape:
            raise InstanceError(
                f"row {row}: {which}has the shape {list(array.shape)}, where row 0 has {list(arrays[0].shape)}: send "
                "rows of one shape in a request"
            )
        arrays.append(array)
    sent = numpy.result_type(*arrays)
    kind = types.of(name, sent)
    if sent.kind == "f" and kind.kind in "iu":
        # A float beside whole numbers of 64 bits makes floats of them, which have 53. So they are compared one by one.
        rows, bounds = numpy.asarray(values, object), numpy.iinfo(kind)
        is_lost = (rows < bounds.min) | (rows > bounds.max) | (rows % 1 != 0)
        converted = numpy.where(is_lost, 0, rows).astype(kind)
    else:
        rows = numpy.stack(arrays)
        with numpy.errstate(over="ignore"):
            converted = rows.astype(kind)
        is_lost = numpy.isinf(converted) & numpy.isfinite(rows) if kind.kind == "f" else converted != rows
    if kind.kind in "iuf" and is_lost.any():
        row = int(is_lost.reshape(len(values), -1).any(axis=1).argmax())
        give = "give smaller ones" if kind.kind == "f" else "give whole numbers"
        raise InstanceError(f"row {row}: {which}has a number that {kind} does not have: {give}")
    return converted


def rows_of(answer: Any, count: int) -> list:
    """A prediction for each instance, as JSON has it, of what the program returned."""
    if hasattr(answer, "items") and callable(answer.items):
        columns = {str(name): rows_of(column, count) for name, column in answer.items() if column is not None}
        return [dict(zip(columns, row)) for row in zip(*columns.values())] if columns else _wrong(answer, count)
    if isinstance(answer, tuple) and not (len(answer) == count and not any(map(_is_array, answer))):
        return rows_of({f"output_{place}": column for place, column in enumerate(answer)}, count)
    rows = plain(answer)
    if not isinstance(rows, list) or len(rows) != count:
        return _wrong(answer, count)
    return rows


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and len(value.shape) > 0


def _wrong(answer: Any, count: int) -> NoReturn:
    shape = getattr(answer, "shape", None)
    what = f"an array of shape {list(shape)}" if shape is not None else kind_of(answer)
    what = f"{len(answer)} predictions" if isinstance(answer, (list, tuple)) else what
    instances = "1 instance" if count == 1 else f"{count} instances"
    raise TrainingError(f"predict returned {what} for {instances}: return a list with a prediction for each")


def plain(value: Any, level: int = 0) -> Any:
    """As JSON has it: arrays and tensors as lists."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise TrainingError("a prediction has a whole number of more than 64 bits: return a float or a text")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if level > _MOST_LEVELS:
        raise TrainingError(f"a prediction has more than {_MOST_LEVELS} lists and dicts in each other: return fewer")
    if isinstance(value, dict):
        return {str(key): plain(one, level + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, level + 1) for one in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if callable(getattr(value, "detach", None)):  # of torch
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    array = numpy.asarray(value)
    if array.dtype.kind not in "biufUS":
        what = f"a prediction has {kind_of(value)}, which JSON has not"
        raise TrainingError(f"{what}: return numbers, texts, lists and dicts")
    if array.dtype.kind == "S":
        array = numpy.char.decode(array, errors="replace")
    return array.tolist()


def not_finite_in(predictions: list) -> Optional[TrainingError]:
    """What is wrong with the first prediction that JSON has no number for."""
    for row, prediction in enumerate(predictions):
        if number := _not_finite(prediction):
            return TrainingError(f"row {row}: the prediction has {number}, which JSON has not: return finite numbers")
    return None


def _not_finite(value: Any) -> str:
    """The first number in it that is not; or ""."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else str(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(_not_finite, inner)), "")

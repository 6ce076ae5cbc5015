"""Embedding: a Keras layer whose weights are rows of a table on the parameter servers."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator, Optional

import keras
import numpy

from downpour.errors import TrainingError
from downpour.table_reader import TableReader
from downpour.tables import Rows, keys_of

_COMBINERS = (None, "sum", "mean", "sqrtn")


class Embedding(keras.layers.Layer):
    """In place of keras.layers.Embedding: of ids of any shape [...] the rows, [..., dim].

    table: the table's name; layers with one share its rows. Without it that is the layer's name.
    combiner: sum, mean or sqrtn: of the ids of the last axis one row is made, as a bag of words is. Else none is.
    All other settings are those of downpour.Embedding.

    It has one number for a weight, which stays 0: by it backends know that a gradient of what it returns is wanted.
    """

    def __init__(
        self,
        dim: int,
        *others: Any,
        table: str = "",
        combiner: Optional[str] = None,
        padding_idx: Optional[int] = None,
        optimizer: Any = None,
        initializer: Any = None,
        admit_after: int = 1,
        evict_after: int = 0,
        max_rows: int = 0,
        precision: str = "fp32",
        **of_layer: Any,
    ) -> None:
        super().__init__(**of_layer)
        if combiner not in _COMBINERS:
            raise TrainingError(f"combiner of downpour.keras.Embedding is {combiner!r}: take sum, mean or sqrtn")
        settings = {"optimizer": optimizer, "initializer": initializer, "admit_after": admit_after}
        settings |= {"evict_after": evict_after, "max_rows": max_rows, "precision": precision}
        self.reader = TableReader(
            "downpour.keras.Embedding", dim, others, name=table, padding_idx=padding_idx, **settings
        )
        self.combiner = combiner
        self._config = {"dim": dim, "table": table, "combiner": combiner, "padding_idx": padding_idx, **settings}
        self.gathered = Gathered(self.reader)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config}

    def build(self, shape: Any) -> None:
        self._anchor = self.add_weight(shape=(), initializer="zeros", name="anchor")

    def compute_output_spec(self, ids: Any) -> keras.KerasTensor:
        shape = ids.shape[:-1] if self.combiner else ids.shape
        return keras.KerasTensor((*shape, self.reader.table.width), dtype="float32")

    def call(self, ids: Any) -> Any:
        rows = _BACKENDS[keras.backend.backend()](self.gathered, ids, self._anchor.value)
        if self.combiner is None:
            return rows
        total = keras.ops.sum(rows, axis=-2)
        if self.combiner == "sum":
            return total
        count = keras.ops.ones_like(ids, dtype="float32")
        if self.reader.padding is not None:
            padding = int(self.reader.padding.view(numpy.int64))
            count = keras.ops.cast(keras.ops.not_equal(ids, padding), "float32")
        count = keras.ops.maximum(keras.ops.sum(count, axis=-1, keepdims=True), 1.0)
        return total / (count if self.combiner == "mean" else keras.ops.sqrt(count))

    def rows(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        return self.reader.rows()

    def set_rows(self, ids: Any, values: Any) -> None:
        self.reader.set_rows(ids, values)

    rows.__doc__, set_rows.__doc__ = TableReader.rows.__doc__, TableReader.set_rows.__doc__


class Gathered:
    """What backends call with arrays: rows of ids, and gradients of these. What goes wrong is kept in `failure`, since
    TensorFlow makes another error of it."""

    _lock = threading.RLock()  # a graph may call several layers at once

    def __init__(self, reader: TableReader) -> None:
        self.reader = reader
        self.failure: Optional[BaseException] = None
        self.gradients: list[tuple[int, numpy.ndarray, numpy.ndarray]] = []  # table, rows and gradients, of the batch

    def _found(self, ids: numpy.ndarray) -> tuple[numpy.ndarray, Rows, int, numpy.ndarray]:
        """(which ids have a row, where rows are, the table's place there, which row each of those has)"""
        keys, padding = keys_of(ids, str(self.reader)), self.reader.padding
        is_row = numpy.ones(len(keys), bool) if padding is None else keys != padding
        rows, place = self.reader.for_step()
        return is_row, rows, place, rows.numbers(place, keys[is_row])

    def look_up(self, ids: numpy.ndarray) -> numpy.ndarray:
        try:
            with self._lock:
                is_row, rows, place, numbers = self._found(ids)
                out = numpy.zeros((len(is_row), self.reader.table.width), numpy.float32)
                if len(numbers):
                    out[is_row] = numpy.concatenate([block.values for block in rows.blocks[place]])[numbers]
                return out.reshape(*numpy.shape(ids), -1)
        except BaseException as error:
            self.failure = error
            raise

    def add(self, ids: numpy.ndarray, gradient: numpy.ndarray) -> None:
        if not self.reader.is_bound():
            return
        with self._lock:
            is_row, _, place, numbers = self._found(ids)
            gradient = numpy.asarray(gradient, numpy.float32).reshape(len(is_row), -1)[is_row]
            self.gradients.append((place, numbers, gradient))


def add_gradients(rows: Rows, gathered: Gathered, share: float) -> None:
    """To those of the step what a batch has, which counts so much in it."""
    for place, numbers, gradient in gathered.gradients:
        if not len(numbers):
            continue
        order = numpy.argsort(numbers, kind="stable")
        ascending = numbers[order]
        begins = numpy.flatnonzero(numpy.concatenate([[True], ascending[1:] != ascending[:-1]]))
        sums = numpy.add.reduceat(gradient[order], begins, axis=0) * numpy.float32(share)
        first = 0
        for block in rows.blocks[place]:
            own = ascending[begins]
            here = (own >= first) & (own < first + len(block.keys))
            block.gradient[own[here] - first] += sums[here]
            first += len(block.keys)


def layers_of(model: keras.Model) -> Iterator[tuple[str, Embedding]]:
    """The layers with tables, each once, by their names."""
    for layer in model._flatten_layers():
        if isinstance(layer, Embedding):
            yield layer.name, layer


def _tensorflow(gathered: Gathered, ids: Any, anchor: Any) -> Any:
    import tensorflow

    def add(ids: Any, gradient: Any) -> Any:
        gathered.add(ids, gradient)
        return numpy.float32(0)

    @tensorflow.custom_gradient
    def look_up(ids: Any, anchor: Any) -> Any:
        rows = tensorflow.numpy_function(gathered.look_up, [ids], tensorflow.float32)
        rows = tensorflow.ensure_shape(rows, (*ids.shape, gathered.reader.table.width))

        def back(gradient: Any) -> Any:
            nothing = tensorflow.numpy_function(add, [ids, gradient], tensorflow.float32)
            return None, tensorflow.reshape(nothing, ())

        return rows, back

    return look_up(tensorflow.convert_to_tensor(ids), anchor)


def _torch(gathered: Gathered, ids: Any, anchor: Any) -> Any:
    import torch

    class LookUp(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, anchor: Any) -> Any:
            return torch.from_numpy(gathered.look_up(ids.cpu().numpy())).to(anchor.device)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            gathered.add(ids.cpu().numpy(), gradient.cpu().numpy())
            return torch.zeros_like(anchor)

    return LookUp.apply(anchor)


_BACKENDS: dict[str, Callable] = {"tensorflow": _tensorflow, "torch": _torch}

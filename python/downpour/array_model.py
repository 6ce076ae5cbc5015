"""ArrayModel: a dict of float32 NumPy arrays that lie in a Memory."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping

import numpy

from downpour.errors import TrainingError, kind_of
from downpour.table_reader import Readers
from downpour.variables import Memory, Variable, check


def _read_only(values: numpy.ndarray) -> numpy.ndarray:
    """A view that cannot be written: the servers alone change parameters, and else a change would be lost unsaid."""
    view = values.view()
    view.flags.writeable = False
    return view


class ArrayModel:
    """The dict's arrays become views of the memory, so its entries are replaced once, and the dict stays the same."""

    readers = Readers(())  # of tables, which it cannot have
    only_reads = True  # the parameters, which it may thus not be able to write at all

    def __init__(self, values: dict[str, numpy.ndarray]) -> None:
        self.module = values
        self.variables = []
        for name, value in values.items():
            if not isinstance(name, str):
                raise TrainingError(f"the model's entry {name!r} has no name: its key is to be a str")
            if not isinstance(value, numpy.ndarray) or value.dtype != numpy.float32:
                kind = f"an array of {value.dtype}" if isinstance(value, numpy.ndarray) else kind_of(value)
                raise TrainingError(
                    f"the model's entry {name!r} is {kind}, but a dict of float32 arrays by name is needed: "
                    "use numpy.asarray(value, numpy.float32)"
                )
            self.variables.append(Variable(name, value.shape))
            values[name] = _read_only(value)
        check(self.variables)

    @property
    def arithmetic(self) -> str:
        return f"numpy {numpy.__version__}"

    def values(self) -> dict[str, numpy.ndarray]:
        """Copies of what the variables are now."""
        return {name: numpy.array(value, order="C") for name, value in self.module.items()}

    def bind(self, memory: Memory, rows: None = None) -> None:
        """From now on the memory has the parameters and is given the gradients."""
        self._memory = memory
        for variable, values in zip(self.variables, memory.parameters):
            self.module[variable.name] = _read_only(values)

    def release(self) -> None:
        """Behind training the arrays are the user's again, to write too."""
        for name, value in self.values().items():
            self.module[name] = value

    def backward(self, outcome: Any) -> None:
        """Nothing: the step has returned the gradients."""

    def clear(self) -> None:
        """Nothing: collect() writes all gradients, and the arrays are the memory's."""

    load = finish = clear

    def to_device(self, batch: Any) -> Any:
        return batch

    def collect(self, gradients: Mapping[str, Any]) -> None:
        """Writes the gradients that a step has returned; those that are not there are zero."""
        self.check_gradients(gradients)
        for variable, gradient in zip(self.variables, self._memory.gradients):
            gradient[...] = gradients.get(variable.name, 0)

    def check_gradients(self, gradients: Any) -> None:
        """Raises TrainingError if they are not those of this model."""
        if not isinstance(gradients, Mapping):
            raise TrainingError(f"the gradients are {kind_of(gradients)}: return a dict of arrays by name")
        shapes = {variable.name: variable.shape for variable in self.variables}
        for name, gradient in gradients.items():
            if name not in shapes:
                raise TrainingError(f"there is a gradient of {name!r}, but the model has no such entry: return its own")
            if numpy.shape(gradient) != shapes[name]:
                raise TrainingError(
                    f"the gradient of {name} has the shape {list(numpy.shape(gradient))}, "
                    f"but {name} has {list(shapes[name])}: return one of the same shape"
                )

    def changes(self) -> None:
        """Nothing: the arrays cannot be written."""

    sums = changes

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        yield

    unchanged = evaluating

    def check_loss(self, loss: Any) -> None:
        """Raises TrainingError if it is no number."""
        if numpy.size(loss) != 1 or not numpy.issubdtype(numpy.asarray(loss).dtype, numpy.number):
            raise TrainingError(f"the loss is no number but {kind_of(loss)}: return the batch's mean loss")

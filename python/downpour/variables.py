"""Variable: what parameter servers keep of a model; and Memory, in which a worker and the user's code share them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Optional, Sequence

import numpy

from downpour.errors import TrainingError

ITEM_BYTES = 4
ALIGNMENT = 64  # bytes; of each variable
PAGE = 4096  # bytes; of each region

# What a job can have.
MOST_VARIABLES = 20_000
MOST_DIMENSIONS = 16
LONGEST_NAME = 200  # bytes


@dataclass(frozen=True)
class Variable:
    """A float32 array by its name. Parameter servers add to one that is not trainable what each step changed it by."""

    name: str
    shape: tuple[int, ...]
    trainable: bool = True

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "trainable": self.trainable}


def check(variables: Sequence[Variable], has_tables: bool = False) -> None:
    """Raises TrainingError if no job can have these variables."""
    if has_tables and not any(variable.trainable for variable in variables):
        raise TrainingError(
            "the model has tables, but no parameter to train beside them: give it one, such as a bias that is added to "
            "what it returns, by torch.nn.Parameter(torch.zeros(()))"
        )
    if not any(variable.trainable for variable in variables):
        raise TrainingError("the model has no parameter to train: give it layers, or set requires_grad on some")
    if len(variables) > MOST_VARIABLES:
        raise TrainingError(f"the model has {len(variables)} variables, but a job at most {MOST_VARIABLES}: join some")
    seen: set[str] = set()
    for variable in variables:
        name, shape = variable.name, variable.shape
        if not 1 <= len(name.encode(errors="replace")) <= LONGEST_NAME or not name.isprintable():
            raise TrainingError(f"the variable {name!r} needs a name of 1 to {LONGEST_NAME} printable bytes: rename it")
        if name in seen:
            raise TrainingError(f"two variables have the name {name}: rename one")
        if len(shape) > MOST_DIMENSIONS or not all(shape):
            raise TrainingError(
                f"the variable {name} has the shape {list(shape)}, but a job's have at most {MOST_DIMENSIONS} "
                "sizes of 1 or more: reshape it or take it away"
            )
        seen.add(name)


class Memory:
    """The parameters and sets of their gradients, each variable at the next multiple of 64 bytes.

    `parameters` and `gradients` are float32 arrays, one a variable, in the order of the variables. They are views of
    `buffer`, which has the parameters and then, each from a page's begin on, one or more sets of gradients. use() says
    which set `gradients` are: others may be on their way to the servers. Without a buffer there is one of zeros. With
    `shown`, which is the same memory, `parameters` are views of that: if it is mapped read-only, nobody can write them.
    """

    def __init__(self, variables: Sequence[Variable], buffer: Any = None, shown: Optional[Any] = None) -> None:
        offsets, end = [], 0
        for variable in variables:
            offsets.append(end)
            end += -(-variable.elements * ITEM_BYTES // ALIGNMENT) * ALIGNMENT
        region = -(-end // PAGE) * PAGE
        buffer = numpy.zeros(2 * region, numpy.uint8) if buffer is None else buffer
        if len(buffer) < 2 * region or len(buffer) % region:
            raise TrainingError(
                f"the job's memory has {len(buffer)} bytes, but the model needs regions of {region}: "
                "the module must build the same model on every host and at every start"
            )
        self._regions = numpy.frombuffer(buffer, numpy.float32).reshape(-1, region // ITEM_BYTES)
        begins = [offset // ITEM_BYTES for offset in offsets]
        regions = list(self._regions)
        if shown is not None:
            regions[0] = numpy.frombuffer(shown, numpy.float32, region // ITEM_BYTES)
        self.parameters, *self.sets = [
            [numbers[first : first + v.elements].reshape(v.shape) for v, first in zip(variables, begins)]
            for numbers in regions
        ]
        self.use(0)

    def use(self, index: int) -> None:
        """From now on the gradients are those of `sets[index]`."""
        self.set = index
        self.gradients = self.sets[index]
        self.all_gradients = self._regions[1 + index]

"""LocalOptimizer: what parameter servers apply, in NumPy. docs/OPTIMIZERS.md has the rules."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Mapping, Sequence

import numpy

from downpour.optimizers import completed
from downpour.variables import Memory, Variable

_fnmatch = ctypes.CDLL(None).fnmatch  # Python's own knows no backslash


class LocalOptimizer:
    """Applies the gradients of the memory to its parameters, as `settings`, keys of training.optimizer, say.

    `job_steps` is how many there are to come, which a cosine needs. A gradient that is not finite has no effect on its
    variable.
    """

    def __init__(
        self, settings: Mapping[str, Any], variables: Sequence[Variable], memory: Memory, job_steps: int
    ) -> None:
        self._settings = completed(settings)
        self._own = [self._numbers_of(variable) for variable in variables]
        self._variables = variables
        self._memory = memory
        self._job_steps = job_steps
        self._slots = [(numpy.zeros(v.shape, numpy.float32), numpy.zeros(v.shape, numpy.float32)) for v in variables]
        self._updates = [0] * len(variables)
        self._steps = 0
        self._skipped = 0

    def _numbers_of(self, variable: Variable) -> dict[str, Any]:
        own = dict(self._settings)
        for override in self._settings.get("overrides", ()):
            if _fnmatch(override["variables"].encode(), variable.name.encode(), 0) == 0:
                own.update({key: value for key, value in override.items() if key != "variables"})
        return own

    def skipped(self) -> str:
        """What was left out since the last call, as the end of a sentence; empty if nothing was."""
        count, self._skipped = self._skipped, 0
        return f"; {count} gradients were not finite and had no effect" if count else ""

    def skip(self) -> None:
        """A gradient that is not this object's was left out, too."""
        self._skipped += 1

    def apply(self) -> None:
        """One step."""
        share = rate_share(self._settings.get("schedule", {}), self._steps, self._job_steps)
        self._steps += 1
        places = list(zip(self._variables, self._memory.parameters, self._memory.gradients))
        is_finite = [bool(numpy.isfinite(gradient).all()) for _, _, gradient in places]
        if self._settings["clipNorm"] and not all(is_finite):
            is_finite = [False] * len(places)
        self._clip([gradient for variable, _, gradient in places if variable.trainable])
        for index, (variable, value, gradient) in enumerate(places):
            if not is_finite[index]:
                self._skipped += 1
            elif not variable.trainable:
                value -= gradient
            else:
                self._updates[index] += 1
                self._update(index, value, gradient, share)

    def _clip(self, gradients: list[numpy.ndarray]) -> None:
        if most := self._settings["clipValue"]:
            for gradient in gradients:
                numpy.clip(gradient, -most, most, out=gradient)
        if most := self._settings["clipNorm"]:
            norm = math.sqrt(sum(float(numpy.square(gradient, dtype=numpy.float64).sum()) for gradient in gradients))
            for gradient in gradients if most < norm < math.inf else ():
                gradient *= numpy.float32(most / norm)

    def _update(self, index: int, w: numpy.ndarray, g: numpy.ndarray, share: float) -> None:
        update(self._settings["name"], self._own[index], [w, *self._slots[index]], g, share, self._updates[index])


def update(
    kind: str, own: Mapping[str, Any], arrays: Sequence[numpy.ndarray], g: numpy.ndarray, share: float, updates: int
) -> None:
    """One update of values and slots, in place. `share`: of the learning rate; `updates`: so many, with this one.

    Adagrad's sum may have one number for a row of values: then it is that of the mean of its squares.
    """
    w, a, b = (*arrays, None, None)[:3]
    rate, decay = own["learningRate"] * share, own["weightDecay"]
    shrink = rate * decay if kind == "adamw" else 0.0
    if decay and kind != "adamw":
        g = g + numpy.float32(decay) * w
    if kind == "sgd":
        w -= numpy.float32(rate) * g
    elif kind in ("momentum", "nesterov"):
        a *= numpy.float32(own["momentum"])
        a += g
        w -= numpy.float32(rate) * (a if kind == "momentum" else numpy.float32(own["momentum"]) * a + g)
    elif kind in ("adagrad", "rmsprop"):
        keep = own["alpha"] if kind == "rmsprop" else 1.0
        a *= numpy.float32(keep)
        squares = numpy.float32(1 - keep if kind == "rmsprop" else 1) * g * g
        a += squares if a.shape == w.shape else squares.mean(axis=1, keepdims=True)
        start = numpy.float32(own.get("initialAccumulator", 0))
        w -= numpy.float32(rate) * g / (numpy.sqrt(a + start) + numpy.float32(own["epsilon"]))
    elif kind in ("adam", "adamw"):
        _adam(own, updates, (w, g, a, b), rate, shrink)
    else:
        _ftrl(own, (w, g, a, b), rate)


def _adam(own: Mapping[str, Any], step: int, arrays: tuple, rate: float, shrink: float) -> None:
    w, g, m, v = arrays
    beta1, beta2 = own["beta1"], own["beta2"]
    m *= numpy.float32(beta1)
    m += numpy.float32(1 - beta1) * g
    v *= numpy.float32(beta2)
    v += numpy.float32(1 - beta2) * g * g
    root = math.sqrt(1 - beta2**step)
    size, epsilon = numpy.float32(rate * root / (1 - beta1**step)), numpy.float32(own["epsilon"] * root)
    w -= size * m / (numpy.sqrt(v) + epsilon) + numpy.float32(shrink) * w


def _ftrl(own: Mapping[str, Any], arrays: tuple, rate: float) -> None:
    w, g, z, n = arrays
    # z holds the paper's times the rate, so both penalties are times it too: as the job has it, without a schedule.
    l1, l2 = (numpy.float32(own["learningRate"] * own[key]) for key in ("l1", "l2"))
    root = numpy.sqrt(n + g * g)
    z += numpy.float32(rate) * g - (root - numpy.sqrt(n)) * w
    n += g * g
    values = (numpy.copysign(l1, z) - z) / (numpy.float32(own["beta"]) + root + l2)
    w[...] = numpy.where(numpy.abs(z) <= l1, 0, values)


def rate_share(schedule: Mapping[str, Any], step: int, job_steps: int) -> float:
    """The share of the learning rate that this step, counted from 0, uses."""
    name, warmup = schedule.get("name", "constant"), schedule.get("warmupSteps", 0)
    if step < warmup:
        return (step + 1) / warmup
    if name == "step":
        return schedule.get("decay", 0.1) ** ((step - warmup) // schedule["stepEvery"])
    if name == "cosine":
        total, last = schedule.get("totalSteps", 0) or job_steps, schedule.get("finalShare", 0.0)
        if step >= total:
            return last
        return last + (1 - last) * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2
    if name == "inverseSquareRoot":
        return math.sqrt(max(warmup, 1) / (step + 1))
    return 1.0

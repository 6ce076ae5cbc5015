"""Keras's learning rates that change, as keys of training.optimizer."""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Sequence

from downpour.errors import TrainingError

_SCHEDULES = (
    "parameter servers have warm-up, step, cosine and inverseSquareRoot: compile with a number, and give "
    "optimizer={'name': 'adam', 'learningRate': 0.001, 'schedule': {'name': 'cosine', 'warmupSteps': 100}}"
)
_SAME = 1e-5  # relative distance of rates that count as one: Keras computes them in float32


def of_schedule(serialized: Mapping[str, Any]) -> dict[str, Any]:
    """`learningRate` and `schedule` of a LearningRateSchedule, as an optimizer's get_config() has it. A step of Keras
    is one of the job. Raises TrainingError for one that servers do not have."""
    kind, config = serialized.get("class_name"), serialized.get("config", {})
    is_keras = str(serialized.get("module", "")).partition(".")[0] == "keras"
    if is_keras and kind == "ExponentialDecay":
        return _exponential(config)
    if is_keras and kind == "CosineDecay":
        return _cosine(config)
    raise TrainingError(f"the optimizer's learning rate is a schedule, {kind}, that servers do not have: {_SCHEDULES}")


def _exponential(config: Mapping[str, Any]) -> dict[str, Any]:
    steps, decay = _count("decay_steps", config["decay_steps"]), float(config["decay_rate"])
    if not 1e-37 <= decay <= 1:
        raise TrainingError(f"ExponentialDecay has decay_rate={decay:g}, but here rates may only fall: {_SCHEDULES}")
    every = steps if config.get("staircase") else 1
    schedule = {"name": "step", "stepEvery": every, "decay": decay ** (every / steps)}
    return {"learningRate": float(config["initial_learning_rate"]), "schedule": schedule}


def _cosine(config: Mapping[str, Any]) -> dict[str, Any]:
    steps, warmup = _count("decay_steps", config["decay_steps"]), int(config.get("warmup_steps") or 0)
    rate, target = float(config["initial_learning_rate"]), config.get("warmup_target")
    schedule = {"name": "cosine", "totalSteps": steps, "finalShare": float(config.get("alpha") or 0)}
    if target is None:
        return {"learningRate": rate, "schedule": schedule}
    if rate:
        raise TrainingError(
            f"CosineDecay warms up from {rate:g}, but servers do so from 0: give it initial_learning_rate=0"
        )
    return {
        "learningRate": float(target),
        "schedule": {**schedule, "warmupSteps": warmup, "totalSteps": warmup + steps},
    }


def _count(name: str, value: Any) -> int:
    if int(value) != value or value < 1:
        raise TrainingError(f"the optimizer's schedule has {name}={value}, but must have a whole number of 1 or more")
    return int(value)


def of_epochs(function: Callable, rate: float, epochs: int, steps_per_epoch: int) -> dict[str, Any]:
    """`learningRate` and, unless that is constant, `schedule` of the function of a LearningRateScheduler. Of so many
    epochs the rates must be those of a constant or of a decay by the same factor each so many epochs. Raises
    TrainingError."""
    rates: list[float] = []
    for epoch in range(epochs):
        try:
            found = function(epoch, rates[-1] if rates else rate)
        except TypeError:  # Keras takes functions of the epoch alone too
            found = function(epoch)
        rates.append(float(found))
    every = next((epoch for epoch, one in enumerate(rates) if not _is_same(one, rates[0])), 0)
    if not every:
        return {"learningRate": rates[0]}
    decay = _decay(rates, every)
    wanted = [rates[0] * decay ** (epoch // every) for epoch in range(epochs)]
    if not 1e-37 <= decay <= 1 or not all(map(_is_same, rates, wanted)):
        raise TrainingError(
            f"LearningRateScheduler has the rates {', '.join(f'{one:.4g}' for one in rates[:8])}"
            f"{', ...' if epochs > 8 else ''}, which are no decay by one factor: {_SCHEDULES}"
        )
    return {
        "learningRate": rates[0],
        "schedule": {"name": "step", "stepEvery": every * steps_per_epoch, "decay": decay},
    }


def _decay(rates: Sequence[float], every: int) -> float:
    """By the last of the rates, which tells it best; 0 where there can be none."""
    times = (len(rates) - 1) // every
    share = rates[-1] / rates[0] if rates[0] > 0 else 0.0
    return share ** (1 / times) if share > 0 and math.isfinite(share) else 0.0


def _is_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME)

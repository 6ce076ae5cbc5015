"""EarlyStop: training.stopEarly where training goes on in this one process. docs/METRICS.md has the rule."""

from __future__ import annotations

import math
from typing import Any, Mapping, Optional

import numpy

from downpour.errors import TrainingError
from downpour.metrics import Metric
from downpour.own_metrics import ACCURACY, shortfall
from downpour.variables import Memory


class EarlyStop:
    """Watches the evaluations, and has the parameters of the best one. Without `settings`, keys of training.stopEarly,
    it never ends anything. Costs a copy of the parameters for each evaluation that is the best so far.

    Raises TrainingError where evaluations cannot be compared by the settings' metric.
    """

    def __init__(
        self, settings: Optional[Mapping[str, Any]], metrics: Mapping[str, Metric], memory: Memory
    ) -> None:
        name = (settings or {}).get("metric", "loss")
        if name not in ("loss", ACCURACY) and getattr(metrics.get(name), "better", None) is None:
            known = ", ".join(["loss", ACCURACY, *(name for name, metric in metrics.items() if metric.better)])
            raise TrainingError(f"training.stopEarly.metric is {name}, but evaluations are compared by {known}")
        self._settings = settings
        self._metrics = metrics
        self._memory = memory
        self._best: Optional[dict[str, Any]] = None  # the epoch's entry
        self._values: list[numpy.ndarray] = []
        self._without_gain = 0

    def ends(self, entry: Mapping[str, Any]) -> bool:
        """Whether training is to end behind this epoch. One that was not evaluated says nothing."""
        if self._settings is None or "evalLoss" not in entry:
            return False
        value = self._shortfall(entry)
        better = math.inf if self._best is None else self._shortfall(self._best) - value
        if math.isfinite(value) and better > self._settings.get("minDelta", 0):
            self._best, self._without_gain = dict(entry), 0
            self._values = [values.copy() for values in self._memory.parameters]
        else:
            self._without_gain += 1
        return self._without_gain >= self._settings.get("patience", 3)

    def _shortfall(self, entry: Mapping[str, Any]) -> float:
        """Lower is better."""
        name = self._settings.get("metric", "loss")
        of_job = {"loss": "evalLoss", ACCURACY: "evalAccuracy"}.get(name, name)
        return shortfall(self._metrics, name, entry.get(of_job, entry.get(name)))

    def restore(self) -> str:
        """Gives the parameters the values of the best evaluation, and says so."""
        if self._best is None:
            return "it stops early: no evaluation was a number"
        for place, values in zip(self._memory.parameters, self._values):
            place[...] = values
        return f"it stops early: the model has the values of epoch {self._best['epoch']}, the best"

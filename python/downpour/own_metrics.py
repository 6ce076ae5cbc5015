"""What fit() is given as metrics, by name: those of downpour.metrics, and plain functions of (output, target)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Optional

from downpour.errors import TrainingError, kind_of
from downpour.metrics import Mean, Metric

# Where the user gives one of this name, it stands for the accuracy that the job would know by itself.
ACCURACY = "accuracy"

_OF_HISTORY = ("epoch", "loss", "evalLoss", "evalAccuracy")  # what an epoch has besides metrics
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")


def checked(metrics: Any) -> dict[str, Metric]:
    """As fit() was given them, {} for None. A function's is the mean over examples. Raises TrainingError."""
    if not isinstance(metrics or {}, Mapping):
        raise TrainingError(
            f"metrics is {kind_of(metrics)}: give a dict of functions of (output, target) by name, "
            'as {"error": error}, or of those of downpour.metrics, as {"auc": downpour.metrics.AUC()}'
        )
    found: dict[str, Metric] = {}
    for name, metric in (metrics or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _OF_HISTORY:
            raise TrainingError(
                f"a metric cannot have the name {name!r}: take letters, digits, _, - and ., but not "
                f"{', '.join(_OF_HISTORY)}"
            )
        if isinstance(metric, type) and issubclass(metric, Metric):
            made = f"downpour.metrics.{metric.__name__}()"
            raise TrainingError(f"the metric {name} is a class: make one of it, as {made}")
        if not isinstance(metric, Metric) and not callable(metric):
            raise TrainingError(f"the metric {name} is {metric!r}, but must be a function of (output, target)")
        found[name] = metric if isinstance(metric, Metric) else Mean(metric)
        if name == ACCURACY and found[name].better == "less":
            raise TrainingError("more of an accuracy is better, but less of this metric is: give it another name")
    return found


def described(name: str, metric: Metric) -> dict[str, str]:
    """As the job file has it: which way is better where its kind does not say so."""
    said = {"name": name, "kind": metric.kind}
    return {**said, "better": metric.better} if metric.better and metric.kind in ("mean", "ratio") else said


def check_share(name: str, share: float) -> None:
    """Raises TrainingError if it is an accuracy that is none: it is shown in percent, and more of it is better."""
    if name == ACCURACY and not math.isnan(share) and not -1e-6 <= share <= 1 + 1e-6:
        raise TrainingError(
            f"the metric accuracy is {share:.4g}, but an accuracy is a share: return 0 to 1, or give it another name"
        )


def shortfall(metrics: Mapping[str, Metric], name: str, value: Optional[float]) -> float:
    """How far it is from the best, for comparing: lower is better. `name`: loss, accuracy, or that of a metric."""
    value = math.nan if value is None else value
    more = name == ACCURACY or (name in metrics and metrics[name].better == "more")
    return 1 - value if more else value

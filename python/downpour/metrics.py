"""Metrics of the user's own: functions of (output, target) of a batch, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Callable

import numpy

from downpour.errors import TrainingError, kind_of

# Where the user gives one of this name, it stands for the accuracy that the job would know by itself.
ACCURACY = "accuracy"

_OF_HISTORY = ("epoch", "loss", "evalLoss", "evalAccuracy")  # what an epoch has besides metrics
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")


def checked(metrics: Any) -> dict[str, Callable]:
    """As fit() was given them, {} for None. Raises TrainingError."""
    if not isinstance(metrics or {}, Mapping):
        raise TrainingError(
            f"metrics is {kind_of(metrics)}: give a dict of functions of (output, target) by name, "
            'as {"error": error}'
        )
    for name, function in (metrics or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _OF_HISTORY:
            raise TrainingError(
                f"a metric cannot have the name {name!r}: take letters, digits, _, - and ., but not "
                f"{', '.join(_OF_HISTORY)}"
            )
        if not callable(function):
            raise TrainingError(f"the metric {name} is {function!r}, but must be a function of (output, target)")
    return dict(metrics or {})


def sum_of(name: str, value: Any, count: int) -> float:
    """The sum over a batch of `count` examples of what the function has returned: their mean, or a number for each, of
    the shape [count] or [count, 1]. Raises TrainingError."""
    try:
        array = numpy.asarray(value.detach().cpu().tolist() if hasattr(value, "detach") else value)
        if array.shape in ((count,), (count, 1)):
            return float(array.sum(dtype=numpy.float64))
        return float(value) * count
    except (TypeError, ValueError, RuntimeError) as error:
        shape = f" of shape {list(value.shape)}" if hasattr(value, "shape") else ""
        raise TrainingError(
            f"the metric {name} is no number but {kind_of(value)}{shape}: "
            "return the batch's mean, or a number for each example"
        ) from error


def check_share(name: str, share: float) -> None:
    """Raises TrainingError if it is an accuracy that is none: it is shown in percent, and more of it is better."""
    if name == ACCURACY and not numpy.isnan(share) and not -1e-6 <= share <= 1 + 1e-6:
        raise TrainingError(
            f"the metric accuracy is {share:.4g}, but an accuracy is a share: return 0 to 1, or give it another name"
        )

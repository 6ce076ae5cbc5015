"""Keras's metrics, as those whose parts add up.

A mean is what Keras says of a batch. Precision, Recall and RootMeanSquaredError are added up from what they have
counted in it. AUC is that of downpour.metrics, whose bins are finer than Keras's 200 thresholds.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping

import keras
import numpy

from downpour.errors import TrainingError
from downpour.metrics import AUC, RMSE, Judged, Mean, Metric, Ratio
from downpour.own_metrics import ACCURACY

_NO_NAME = re.compile("[^A-Za-z0-9_.-]")  # of what a metric's name is not made


class _RootMeanSquare(RMSE):
    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def sums(self, judged: Judged) -> numpy.ndarray:
        """Of the examples' mean squares, which Keras has over all their numbers."""
        total, numbers = (float(value) for value in (self._metric.total, self._metric.count))
        return numpy.array([total / numbers * judged.count])


def compiled(model: Any, said: Callable[[], Mapping[str, float]], is_classification: bool) -> dict[str, Metric]:
    """Those that the model was compiled with, by name, but for the accuracy of a classification, which the job knows.

    said: what they make of the batch that was judged last. Raises TrainingError, with the remedy.
    """
    found: dict[str, Metric] = {}
    groups = [group for group in model.metrics if hasattr(group, "metrics")]
    own = {name: metric for group in groups for name, metric in zip(group.result(), group.metrics)}
    for name in said():
        if is_classification and name == ACCURACY:
            continue
        plain = _NO_NAME.sub("_", name)
        if plain in found:
            raise TrainingError(
                f"two metrics come to the name {plain}: give them other ones, of letters, digits, _, - and ."
            )
        found[plain] = _of(own.get(name), name, said)
    return found


def directions(metrics: Mapping[str, Metric]) -> dict[str, str]:
    """Of those by which evaluations can be compared: which way is better, in Keras's words."""
    return {name: {"more": "max", "less": "min"}[metric.better] for name, metric in metrics.items() if metric.better}


# `metric`: None of what a layer or a compute_metrics of the model's own adds.
def _of(metric: Any, name: str, said: Callable[[], Mapping[str, float]]) -> Metric:
    better = {"up": "more", "down": "less"}.get(getattr(metric, "_direction", None))
    if metric is None or type(metric).result is keras.metrics.Mean.result:
        return Mean(lambda output, target: said()[name], better)
    if type(metric) is keras.metrics.RootMeanSquaredError:
        return _RootMeanSquare(metric)
    if type(metric) in (keras.metrics.Precision, keras.metrics.Recall):
        others = "false_positives" if type(metric) is keras.metrics.Precision else "false_negatives"
        return Ratio(lambda output, target: _counts(metric, others), better)
    if type(metric) is keras.metrics.AUC:
        return _area(metric)
    raise TrainingError(
        f"the metric {metric.name} is no mean over examples, so workers cannot add up their parts: leave it out of "
        "compile(). AUC, Precision, Recall and RootMeanSquaredError are added up"
    )


def _counts(metric: Any, others: str) -> tuple[float, float]:
    right = keras.ops.convert_to_numpy(metric.true_positives)
    wrong = keras.ops.convert_to_numpy(getattr(metric, others))
    return float(right.sum()), float(right.sum() + wrong.sum())


def _area(metric: Any) -> AUC:
    is_plain = metric.curve == keras.metrics.AUC().curve and not metric.multi_label and metric.label_weights is None
    if not is_plain:
        raise TrainingError(
            f"the metric {metric.name} is an AUC of the curve {metric.curve.value}, of many labels or of weights, "
            "which workers cannot add up: leave out curve=, multi_label= and label_weights="
        )
    return AUC(from_logits=metric._from_logits)

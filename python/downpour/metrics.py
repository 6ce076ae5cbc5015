"""Metrics of evaluations whose parts add up: how the examples are cut into batches, and who computes them, does not
change the value.

    downpour.fit(model, train=train, eval=evaluation, loss=loss, metrics={
        "auc": downpour.metrics.AUC(from_logits=True),
        "recall": downpour.metrics.Ratio(lambda output, target: (target * (output > 0), target), better="more"),
    })

A worker adds up `sums` over its batches, and the chief those of all workers. docs/METRICS.md has the formulas.
Shapes: an output is [N], [N, 1] or, of classes, [N, C]; a target [N] or [N, 1]; as PyTorch or numpy have them.
Errors: TrainingError, with the remedy, where the shapes or numbers are not such as a metric needs. An output that is
    no number makes the metric no number.
"""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple, Optional

import numpy

from downpour.errors import TrainingError, kind_of

_BINS = 1024  # of log-odds, as runtime/metrics.cc has them, whose sums these are
_MOST_ODDS = 16.0
_LEAST_SHARE = 1e-7
_CONFIDENCES = 15
_ROUNDED = 1e-6  # so far beyond 0 and 1 a probability of float32 may come to lie


class Judged(NamedTuple):
    """A batch of an evaluation: `count` examples, what was computed of them, and what was wanted."""

    name: str  # of the metric, for errors
    output: Any
    target: Any
    count: int


class Metric:
    """What all have in common. `kind` is that of the job file; `better` is "more", "less", or None: not known."""

    kind: str
    better: Optional[str] = None

    def sums(self, judged: Judged) -> numpy.ndarray:
        """Over the examples of a batch."""
        raise NotImplementedError

    def value(self, sums: numpy.ndarray, count: int) -> float:
        """Of the sums over `count` examples."""
        raise NotImplementedError


class _OfFunction(Metric):
    """What a function of the user's returns of (output, target), added up."""

    def __init__(self, function: Callable[[Any, Any], Any], better: Optional[str] = None) -> None:
        self._function = _checked(function)
        self.better = _direction(better)

    def _sum(self, said: Any, judged: Judged, remedy: str, examples: int = 1) -> float:
        """Of numbers for each example; or of a single one, which is that of so many examples."""
        array = _numbers(said, judged, remedy)
        if array.shape in ((judged.count,), (judged.count, 1)):
            return float(array.sum())
        if array.size != 1:
            raise _no_number(said, judged, remedy)
        return float(array.reshape(())) * examples


class Mean(_OfFunction):
    """The mean over examples of what a function of (output, target) returns: a number for each example, [N] or [N, 1],
    or the batch's mean.

    better: "more" or "less", where early stopping and the best checkpoint are to go by it.
    """

    kind = "mean"

    def sums(self, judged: Judged) -> numpy.ndarray:
        """The sum of one number."""
        said = self._function(judged.output, judged.target)
        what = "return the batch's mean, or a number for each example"
        return numpy.array([self._sum(said, judged, what, judged.count)])

    def value(self, sums: numpy.ndarray, count: int) -> float:
        """The mean."""
        return float(sums[0]) / count


class Ratio(_OfFunction):
    """One sum divided by another, over all examples: precision, recall, F1, a mean over weights. A function of
    (output, target) returns the two, each as a number for each example, [N] or [N, 1], or as the batch's sum.

    better: as of Mean.
    """

    kind = "ratio"

    def sums(self, judged: Judged) -> numpy.ndarray:
        """What is divided, and by what."""
        said = self._function(judged.output, judged.target)
        what = "return two sums over the batch, or two numbers for each example: what is divided, and by what"
        if not isinstance(said, (tuple, list)) or len(said) != 2:
            raise TrainingError(f"the metric {judged.name} is no pair but {kind_of(said)}: {what}")
        return numpy.array([self._sum(one, judged, what) for one in said])

    def value(self, sums: numpy.ndarray, count: int) -> float:
        """No number where the divisor is not above 0."""
        return float(sums[0] / sums[1]) if sums[1] > 0 else math.nan


class RMSE(Metric):
    """The root of the mean squared error, which of an example is the mean over its numbers. Output and target have one
    shape."""

    kind = "rmse"
    better = "less"

    def sums(self, judged: Judged) -> numpy.ndarray:
        """The sum of squares."""
        output, target = _rows(judged.output, judged, "output"), _rows(judged.target, judged, "target")
        if output.shape != target.shape:
            raise TrainingError(
                f"the metric {judged.name} has an output of the shape {list(numpy.shape(judged.output))} and a target "
                f"of {list(numpy.shape(judged.target))}: its error needs two of one shape"
            )
        return numpy.array([((output - target) ** 2).mean(axis=1).sum()])

    def value(self, sums: numpy.ndarray, count: int) -> float:
        """In the units of the target."""
        return math.sqrt(sums[0] / count) if sums[0] >= 0 else math.nan


class AUC(Metric):
    """The area under the ROC curve: the chance that an example of class 1 is ranked above one of class 0. Equal ones
    count half. Targets are 0 or 1. Log-odds are rounded to 1/32, so that is how near two must be to be equal.

    from_logits: outputs are log-odds, or of two classes what softmax takes; else they are probabilities.
    """

    kind = "auc"
    better = "more"

    def __init__(self, from_logits: bool = False) -> None:
        self._from_logits = from_logits

    def sums(self, judged: Judged) -> numpy.ndarray:
        """How many examples of class 0 fall into each bin, then of class 1."""
        with numpy.errstate(divide="ignore", invalid="ignore"):  # of two that are 0, or infinite: they are no number
            odds = self._odds(judged)
        target = _rows(judged.target, judged, "target")
        if target.shape[1] != 1 or not numpy.isin(target, (0, 1)).all():
            raise TrainingError(f"the metric {judged.name} needs a target of 0 or 1 for each example")
        if numpy.isnan(odds).any():
            return numpy.full(2 * _BINS, math.nan)
        share = numpy.clip((odds + _MOST_ODDS) / (2 * _MOST_ODDS), 0, 1)
        bins = numpy.minimum((share * _BINS).astype(int), _BINS - 1)
        return numpy.bincount(bins + _BINS * target[:, 0].astype(int), minlength=2 * _BINS).astype(numpy.float64)

    def _odds(self, judged: Judged) -> numpy.ndarray:
        output = _rows(judged.output, judged, "output")
        if output.shape[1] > 2:
            raise TrainingError(
                f"the metric {judged.name} is of two classes, but there are {output.shape[1]} outputs: give it a model "
                "with one output, or with two"
            )
        if self._from_logits:
            return output[:, 1] - output[:, 0] if output.shape[1] == 2 else output[:, 0]
        _check_shares(output, judged, "AUC")
        ones = output[:, -1] if output.shape[1] == 1 else output[:, 1] / output.sum(axis=1)
        ones = numpy.clip(ones, _LEAST_SHARE, 1 - _LEAST_SHARE)
        return numpy.log(ones / (1 - ones))

    def value(self, sums: numpy.ndarray, count: int) -> float:
        """No number where all examples are of one class."""
        zeros, ones = sums[:_BINS], sums[_BINS:]
        below = numpy.cumsum(zeros) - zeros
        all_pairs = zeros.sum() * ones.sum()
        return float((ones * (below + zeros / 2)).sum() / all_pairs) if all_pairs > 0 else math.nan


class CalibrationError(Metric):
    """How far a class's probability is from how often it is right: the mean over 15 bins of confidence, each by its
    examples (Naeini et al. 2015). Outputs are [N, C], targets the numbers of classes.

    from_logits: outputs are what softmax takes; else they are probabilities.
    """

    kind = "calibrationError"
    better = "less"

    def __init__(self, from_logits: bool = False) -> None:
        self._from_logits = from_logits

    def sums(self, judged: Judged) -> numpy.ndarray:
        """Of each bin: how many examples, the sum of their confidence, and how many are right."""
        output, target = _rows(judged.output, judged, "output"), _rows(judged.target, judged, "target")
        if output.shape[1] < 2 or target.shape[1] != 1:
            raise TrainingError(
                f"the metric {judged.name} needs an output of [N, classes] and a target of [N], but they are "
                f"{list(numpy.shape(judged.output))} and {list(numpy.shape(judged.target))}"
            )
        if not self._from_logits:
            _check_shares(output, judged, "CalibrationError")
        most = output.max(axis=1)
        confidence = most
        if self._from_logits:
            with numpy.errstate(invalid="ignore"):
                confidence = 1 / numpy.exp(output - most[:, None]).sum(axis=1)
        if numpy.isnan(confidence).any() or numpy.isnan(output).any():
            return numpy.full(3 * _CONFIDENCES, math.nan)
        bins = numpy.clip((confidence * _CONFIDENCES).astype(int), 0, _CONFIDENCES - 1)
        right = output.argmax(axis=1) == target[:, 0]
        of_bins = [numpy.bincount(bins, weights, _CONFIDENCES) for weights in (None, confidence, right)]
        return numpy.stack(of_bins, axis=1).astype(numpy.float64).reshape(-1)

    def value(self, sums: numpy.ndarray, count: int) -> float:
        """From 0, where they are the same."""
        _, confidence, right = sums.reshape(_CONFIDENCES, 3).T
        return float(numpy.abs(confidence - right).sum() / count)


def _checked(function: Any) -> Callable:
    if not callable(function):
        raise TrainingError(f"a metric is {function!r}, but must be a function of (output, target)")
    return function


def _direction(better: Optional[str]) -> Optional[str]:
    if better not in (None, "more", "less"):
        raise TrainingError(f'better is {better!r}: say "more" or "less", or leave it out')
    return better


def _check_shares(output: numpy.ndarray, judged: Judged, metric: str) -> None:
    beyond = output[(output < -_ROUNDED) | (output > 1 + _ROUNDED)]
    if beyond.size > 0:
        raise TrainingError(
            f"the metric {judged.name} takes probabilities, but an output is {beyond[0]:.4g}: write "
            f"{metric}(from_logits=True), or let the model end in a sigmoid or softmax"
        )


def _numbers(value: Any, judged: Judged, remedy: str) -> numpy.ndarray:
    try:
        if value is None:
            raise TypeError
        value = value.detach().cpu().double() if hasattr(value, "detach") else value
        return numpy.asarray(value, dtype=numpy.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _no_number(value, judged, remedy) from error


def _no_number(said: Any, judged: Judged, remedy: str) -> TrainingError:
    shape = f" of shape {list(said.shape)}" if hasattr(said, "shape") else ""
    return TrainingError(f"the metric {judged.name} is no number but {kind_of(said)}{shape}: {remedy}")


def _rows(value: Any, judged: Judged, what: str) -> numpy.ndarray:
    """A row for each example."""
    array = _numbers(value, judged, f"let the {what} be one tensor or array")
    if array.shape[:1] != (judged.count,):
        raise TrainingError(
            f"the metric {judged.name} has an {what} of the shape {list(array.shape)}, but there are {judged.count} "
            "examples"
        )
    return array.reshape(judged.count, -1)

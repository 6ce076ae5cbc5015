"""Run: a model, its data and what is asked of them, by whoever asks: a worker, or the loop of this one process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

import numpy

from downpour import own_metrics as own
from downpour.errors import MisuseError, TrainingError
from downpour.examples import Examples, explaining_types
from downpour.job_settings import beaten_by
from downpour.local_tables import LocalTable
from downpour.metrics import Judged
from downpour.tables import Rows, keys_by_table

if TYPE_CHECKING:
    from downpour.modes import Mode

_PROBE = 64  # examples, where no batch size is given


class Batch(NamedTuple):
    """The examples of one batch, by their numbers, and what random draws of it begin with."""

    examples: Sequence[int]
    seed: int


class Outcome(NamedTuple):
    """What a step makes of a batch: its mean loss; what was computed and what was wanted, if metrics are to know."""

    loss: Any
    output: Any = None
    target: Any = None
    gradients: Any = None  # where the model is a dict of arrays

    @staticmethod
    def of(result: Any, count: int) -> Outcome:
        """What the user's step returned: the first `count` alone, or with output and target behind them."""
        words = result if isinstance(result, (tuple, list)) else (result,)
        if len(words) not in (count, count + 2):
            what = "loss, or (loss, output, target)"
            what = what if count == 1 else "(loss, gradients), or (loss, gradients, output, target)"
            raise TrainingError(f"step returned {len(words)} values: return {what}")
        return Outcome(words[0], *words[count:], gradients=words[1] if count > 1 else None)


@dataclass
class Sums:
    """Sums over examples."""

    loss: float = 0.0
    correct: int = 0
    examples: int = 0
    metrics: Optional[list[numpy.ndarray]] = None  # of each, in the order of Run.metrics


class Run:
    """What fit() and steps() are made of.

    `evaluate` makes an Outcome of a batch of `evaluation`. `settings` are what the user's arguments say, as dotted keys
    of the job file; they beat those of `train`.
    """

    def __init__(
        self,
        mode: Mode,
        train: Examples,
        evaluation: Optional[Examples],
        evaluate: Optional[Callable[[Any], Outcome]],
        metrics: Optional[Mapping[str, Any]],
        settings: Mapping[str, Any],
        keys: Optional[Callable[[Any], Any]] = None,
    ) -> None:
        self.train = train
        self.evaluation = evaluation
        self.metrics = own.checked(metrics)
        # Examples in any order lie in no blocks.
        self.settings = beaten_by(settings, {} if settings.get("data.order") == "examples" else train.settings)
        self.classes = 0
        self.takes_one = True  # whether a batch of one example can be trained on, as far as that was tried
        self.model: Any = None
        self.memory: Any = None
        self.keys = keys  # which rows of tables a batch needs, if that is known before
        self.rows: Optional[Rows] = None  # where the model has tables
        self._mode = mode
        self._evaluate = evaluate
        self._pushed: Optional[float] = None
        # A batch that was made before it was asked for: of which data, its examples and seed, and itself.
        self._ahead: Optional[tuple[Examples, Batch, Any]] = None

    def probe(self) -> Batch:
        """The examples by which a model shows what it is. What is computed of them does not count."""
        size = int(self.settings.get("training.batchSize", _PROBE))
        return Batch(range(min(size, self.train.count)), 0)

    def begin(self, model: Any, outcome: Optional[Outcome] = None) -> None:
        """From now on the model is the run's. `outcome` is that of the probe, if it is known."""
        if self._mode.finished:
            raise MisuseError(
                "a job trains once, but this program has called downpour.fit or looped over downpour.steps before: "
                "join the models, or give each a program of its own"
            )
        self.model = model
        if self.evaluation is not None:
            numbers = range(min(len(self.probe().examples), self.evaluation.count))
            batch = self.evaluation.batch(numbers, 0)
            with model.evaluating(), explaining_types("eval", batch):
                outcome = self._evaluate(batch)
                _, _, sums = self._judge(outcome, len(numbers))
                for name, value in self.values_of(sums, len(numbers)).items():
                    own.check_share(name, value)
        is_judged = outcome is not None and own.ACCURACY not in self.metrics  # else the user's own stands in its place
        self.classes = classes_of(outcome) if is_judged else 0
        if self.keys is not None and not model.readers.tables:
            raise TrainingError("keys= is for models with downpour.Embedding or EmbeddingBag: leave it out")
        self.memory = self._mode.begin(self)
        if model.readers.tables:
            self.rows = Rows(model.readers.tables, self._mode.row_source(self))
            LocalTable.job_trains = not self.rows.is_local
        model.bind(self.memory, self.rows)

    def batches(self) -> Iterator[Any]:
        """The batches of all steps. Behind each one there must be a push()."""
        for step in self._mode.steps(self):
            total = sum(len(batch.examples) for batch in step)
            sums = Sums()
            self.model.load()
            self._begin_rows(self.train, step)
            mean = None if len(step) == 1 else numpy.zeros_like(self.memory.all_gradients)
            for batch in step:
                self.model.clear()
                self._pushed = None
                yield self._made(batch)
                if self._pushed is None:
                    raise MisuseError("a batch came without a push of the one before: call downpour.push for each")
                count = len(batch.examples)
                sums.loss += self._pushed * count
                sums.examples += count
                if mean is not None:
                    mean += self.memory.all_gradients * numpy.float32(count / total)
                if self.rows is not None:
                    self.model.collect_rows(count / total)
            if mean is not None:
                self.memory.all_gradients[:] = mean
            self.model.finish()
            if self.rows is not None:
                self.rows.end(is_training=True)
            self._mode.trained(sums)
        self.model.load()  # what is no view: it is to have the last values
        self.model.release()

    def make_ahead(self, batch: Batch) -> None:
        """Makes a training batch that will probably be asked for next, while nothing else is to be done.

        It counts only if nothing else is asked for first: what draws come behind it follow from its seed. What goes
        wrong here is told when the batch is asked for, since it is made again then.
        """
        try:
            self._ahead = self.train, batch, self.train.batch(batch.examples, batch.seed)
        except Exception:  # noqa: BLE001 (whatever the user's data raise)
            self._ahead = None

    def _made(self, batch: Batch, data: Optional[Examples] = None) -> Any:
        data = data or self.train
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is data and ahead[1] == batch:
            return ahead[2]
        return data.batch(batch.examples, batch.seed)

    def find_keys(self, batches: Sequence[Batch], evaluates: bool = False) -> list[list[int]]:
        """Begins a step, or a batch of the evaluation, with the rows that keys= names. Returns [table, how many] of
        each table that has any."""
        data = self.evaluation if evaluates else self.train
        found: list[list] = [[] for _ in self.model.readers.tables]
        for batch in batches:
            made = self._made(batch, data)
            named = keys_by_table(self.keys(made), self.model.readers.tables, self.model.readers.paddings)
            for table, keys in zip(found, named):
                table.append(keys)
            self._ahead = data, batch, made  # what it draws begins with its seed, so only the last one can be kept
        return self.rows.begin_ahead([numpy.concatenate(keys) for keys in found])

    def _begin_rows(self, data: Examples, batches: Sequence[Batch]) -> None:
        """Unless that was done when its keys were found."""
        if self.rows is None or self.rows.is_ahead:
            return
        if self.keys is not None:
            self.find_keys(batches, data is self.evaluation)
        else:
            self.rows.begin()

    def pushed(self, loss: Any, gradients: Any) -> None:
        """The batch's mean loss; and its gradients, if the model does not have them by itself."""
        self.model.check_loss(loss)
        self.model.collect(gradients)
        self._pushed = float(loss.detach() if hasattr(loss, "detach") else loss)

    def evaluated(self, batches: Sequence[Sequence[int]]) -> Sums:
        """The sums over these batches of the evaluation data."""
        if self.evaluation is None:
            raise TrainingError("an evaluation is asked for, but there are no data for it: give eval=")
        sums = Sums(metrics=[0.0] * len(self.metrics))
        self.model.load()
        with self.model.evaluating():
            for numbers in batches:
                batch = Batch(numbers, numbers[0])
                self._begin_rows(self.evaluation, [batch])
                outcome = self._evaluate(self._made(batch, self.evaluation))
                if self.rows is not None:
                    self.rows.end(is_training=False)
                loss, correct, metrics = self._judge(outcome, len(numbers))
                sums.loss += loss
                sums.correct += correct
                sums.examples += len(numbers)
                sums.metrics = [one + other for one, other in zip(sums.metrics, metrics)]
        return sums

    def values_of(self, sums: Sequence[numpy.ndarray], count: int) -> dict[str, float]:
        """The metrics' values, of their sums over `count` examples."""
        return {name: metric.value(own, count) for (name, metric), own in zip(self.metrics.items(), sums)}

    def _judge(self, outcome: Outcome, count: int) -> tuple[float, int, list[numpy.ndarray]]:
        """The sums of loss, correct answers and metrics over the examples of one batch."""
        self.model.check_loss(outcome.loss)
        if self.metrics and outcome.output is None:
            raise TrainingError("metrics are functions of (output, target): let step return (loss, output, target)")
        judged = [Judged(name, outcome.output, outcome.target, count) for name in self.metrics]
        metrics = [metric.sums(batch) for metric, batch in zip(self.metrics.values(), judged)]
        correct = 0
        if self.classes:
            output, target = _numpy(outcome.output), _numpy(outcome.target)
            correct = int((output.argmax(axis=1) == target).sum())
        return float(outcome.loss) * count, correct, metrics


def classes_of(outcome: Outcome) -> int:
    """How many a classification has, which a float output [N, C] and an integer target [N] are; else 0."""
    output, target = _numpy(outcome.output), _numpy(outcome.target)
    shapes = numpy.shape(output), numpy.shape(target)
    if len(shapes[0]) != 2 or shapes[1] != shapes[0][:1] or shapes[0][1] < 2:
        return 0
    is_both = output.dtype.kind == "f" and target.dtype.kind in "iu"
    return int(shapes[0][1]) if is_both else 0


def _numpy(value: Any) -> Any:
    """An array of the same numbers. What is none, such as a list of tensors, is None."""
    if callable(getattr(value, "detach", None)):
        value = value.detach().cpu()
        return (value.float() if value.is_floating_point() else value).numpy()
    return value if isinstance(value, numpy.ndarray) else None


def finite(value: float) -> Any:
    """As JSON has it: "nan", "inf" or "-inf" if it is not."""
    return value if math.isfinite(value) else str(value)

"""Keras's callbacks, as keys of the job file: those for early stopping, checkpoints and learning rates.

No callback is called: the steps of a job are computed by many processes at once, and no process sees its epochs.
"""

from __future__ import annotations

import sys
from typing import Any, Mapping, NamedTuple

import keras

from downpour.errors import TrainingError, kind_of
from downpour.keras_schedules import of_epochs

_JUST_THERE = (keras.callbacks.History, keras.callbacks.ProgbarLogger, keras.callbacks.BackupAndRestore)
_REMEDIES = {
    "TensorBoard": "leave it out, since `tensorboard --logdir JOB_DIR` reads what a job writes anyway",
    "CSVLogger": "leave it out, since metrics.jsonl in the job's folder has the numbers",
    "ReduceLROnPlateau": "give optimizer= with a schedule of training.optimizer.schedule in its place",
    "SwapEMAWeights": "leave it out, since parameter servers keep no moving averages",
}


_EPOCHS = 100  # that a learning rate's function is asked for, where the job file alone says how many there are


class _Training(NamedTuple):
    """What callbacks are translated by."""

    settings: Mapping[str, Any]  # keys of the job file, without callbacks
    examples: int
    comparable: Mapping[str, str]


def settings_of_callbacks(
    callbacks: Any, given: Mapping[str, Any], examples: int, comparable: Mapping[str, str]
) -> dict[str, Any]:
    """Keys of the job file that do the same. Raises TrainingError for a callback for which there are none.

    given: the job's keys without callbacks; those of training.optimizer are among the result if they change.
    comparable: by what evaluations can be compared, with "min" or "max"; nothing where there are none.
    """
    training = _Training(given, examples, comparable)
    if isinstance(callbacks, keras.callbacks.Callback):
        callbacks = [callbacks]
    if not isinstance(callbacks or [], (list, tuple)):
        raise TrainingError(f"callbacks is {kind_of(callbacks)}: give a list of those of keras.callbacks")
    settings: dict[str, Any] = {}
    for callback in callbacks or ():
        for key, value in _settings_of(callback, training).items():
            if settings.setdefault(key, value) != value:
                raise TrainingError(f"two callbacks give {key}, as {settings[key]} and {value}: leave one of them out")
    return settings


def _settings_of(callback: Any, training: _Training) -> dict[str, Any]:
    kind = type(callback)
    if kind is keras.callbacks.EarlyStopping:
        return _early_stopping(callback, training)
    if kind is keras.callbacks.ModelCheckpoint:
        return _checkpoint(callback, training)
    if kind is keras.callbacks.LearningRateScheduler:
        return _learning_rate(callback, training)
    if kind is keras.callbacks.TerminateOnNaN:
        return {"training.maxSkippedPushes": 0}
    if kind in _JUST_THERE:
        return {}
    remedy = _REMEDIES.get(kind.__name__, "do it behind fit(), or write a loop over downpour.steps")
    raise TrainingError(f"callbacks has {kind_of(kind)}, which no process of a job could call: {remedy}")


def _early_stopping(callback: Any, training: _Training) -> dict[str, Any]:
    metric = _metric_of(callback, training)
    for name in ("baseline", "start_from_epoch"):
        if getattr(callback, name, None):
            raise TrainingError(f"EarlyStopping has {name}={getattr(callback, name)}, which no job has: leave it out")
    stop = {"metric": metric, "patience": max(1, int(callback.patience)), "minDelta": float(callback.min_delta)}
    return {"training.stopEarly": stop, **({"checkpoint.best": metric} if callback.restore_best_weights else {})}


def _checkpoint(callback: Any, training: _Training) -> dict[str, Any]:
    which = "--checkpoint best" if callback.save_best_only else "its checkpoints"
    sys.stderr.write(
        f"downpour: ModelCheckpoint does not write {callback.filepath}: the job keeps checkpoints by itself, which "
        f"`downpour export` reads ({which}); where a file is wanted, save the model behind fit()\n"
    )
    return {"checkpoint.best": _metric_of(callback, training)} if callback.save_best_only else {}


def _learning_rate(callback: Any, training: _Training) -> dict[str, Any]:
    given = training.settings
    optimizer = given["training.optimizer"]
    if "schedule" in optimizer:
        raise TrainingError("there is a LearningRateScheduler, but the optimizer has a schedule: leave one of them out")
    steps = -(-training.examples // given.get("training.batchSize", 64))
    epochs = given.get("training.epochs", _EPOCHS)
    rates = of_epochs(callback.schedule, optimizer.get("learningRate", 0.01), epochs, steps)
    return {"training.optimizer": {**optimizer, **rates}}


def _metric_of(callback: Any, training: _Training) -> str:
    """What evaluations are to be compared by."""
    name = type(callback).__name__
    metric = {"acc": "accuracy"}.get(callback.monitor[4:], callback.monitor[4:])
    if not callback.monitor.startswith("val_") or metric not in training.comparable:
        known = " or ".join(f"val_{one}" for one in training.comparable)
        known = f"monitor {known}" if known else "give validation_data= or validation_split=, and monitor val_loss"
        raise TrainingError(f"{name} monitors {callback.monitor}, by which no job compares evaluations: {known}")
    mode = training.comparable[metric]
    if callback.mode not in ("auto", mode):
        raise TrainingError(f"{name} has mode={callback.mode!r}, but of {callback.monitor} it is {mode!r}")
    return metric

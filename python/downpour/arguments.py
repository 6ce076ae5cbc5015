"""Arguments that people know from other libraries: each is refused by its name, with what to write instead."""

from __future__ import annotations

import difflib
import inspect
from typing import Any, Callable, Mapping

from downpour.errors import TrainingError

_SCHEDULE = (
    "give the optimizer as a dict with a schedule, such as optimizer={'name': 'adam', 'schedule': {'name': 'cosine'}}"
)
_ORDER = "leave it out: a job draws the order of each epoch by its seed"
_WORKERS = "leave it out: workers are the job's, as cluster.workerCount says"
_RESUME = "leave it out: a job continues by --resume, and begins with saved values by model.initializeFrom"
_ALL_ROWS = "leave it out: an epoch is each example once, so give fewer examples or other epochs="

# Of downpour.fit and downpour.steps.
OF_TORCH = {
    "callbacks": "leave them out: training.stopEarly, checkpoint.best and training.optimizer.schedule of the job do "
    "what those for early stopping, checkpoints and learning rates do",
    "class_weight": "give them to the loss, such as torch.nn.CrossEntropyLoss(weight=...)",
    "sample_weight": "give the weights as a part of train, and step=function(model, batch) that multiplies by them",
    "validation_split": "cut the data, and give the last part as eval=",
    "validation_data": "it is called eval= here",
    "eval_data": "it is called eval= here",
    "verbose": "leave it out: where it trains by itself it prints a line for each epoch",
    "shuffle": _ORDER,
    "sampler": _ORDER,
    "scheduler": _SCHEDULE,
    "lr_scheduler": _SCHEDULE,
    "lr": "give it to the optimizer",
    "learning_rate": "give it to the optimizer",
    "device": "leave it out: move the model by model.to(device), and batches follow it",
    "num_workers": _WORKERS,
    "initial_epoch": _RESUME,
    "steps_per_epoch": _ALL_ROWS,
    "collate_fn": "it is called collate= here",
    "loss_fn": "it is called loss= here",
}
# Of downpour.keras.fit: what model.fit takes besides.
OF_KERAS = {
    "shuffle": _ORDER,
    "initial_epoch": _RESUME,
    "steps_per_epoch": _ALL_ROWS,
    "validation_steps": "leave it out: all rows of validation_data are evaluated, so give fewer",
    "validation_batch_size": "leave it out: evaluations go by batch_size",
    "workers": _WORKERS,
    "use_multiprocessing": _WORKERS,
    "max_queue_size": _WORKERS,
}
# What these are where they ask for nothing.
_DEFAULTS = {"shuffle": True, "initial_epoch": 0, "workers": 1, "use_multiprocessing": False, "max_queue_size": 10}


def refuse_others(call: Callable, given: Mapping[str, Any], remedies: Mapping[str, str]) -> None:
    """Raises TrainingError for the first argument that `call` does not take."""
    for name in given:
        remedy = remedies.get(name)
        if remedy is None:
            own = [own for own in inspect.signature(call).parameters if own not in ("self", "others")]
            meant = difflib.get_close_matches(name, own, n=1)
            remedy = f"did you mean {meant[0]}=?" if meant else f"it takes {', '.join(own)}"
        raise TrainingError(f"{call.__qualname__.partition('.')[0]} takes no {name}=: {remedy}")


def refuse_others_of_keras(call: Callable, given: Mapping[str, Any]) -> None:
    """As refuse_others, but an argument at the default of model.fit is as if it was not there."""
    asked = {name: value for name, value in given.items() if value is not None or name not in OF_KERAS}
    refuse_others(call, {n: v for n, v in asked.items() if v != _DEFAULTS.get(n, ...)}, OF_KERAS)

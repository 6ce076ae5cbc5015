"""A Keras optimizer as keys of training.optimizer."""

from __future__ import annotations

from typing import Any, Mapping

from downpour.errors import TrainingError
from downpour.keras_schedules import of_schedule
from downpour.optimizers import completed

# At these values an option changes nothing.
_NEUTRAL = {"name", "learning_rate", "ema_momentum", "ema_overwrite_frequency", "loss_scale_factor"}


def settings_of(optimizer: Any) -> dict[str, Any]:
    """The same rule. Raises TrainingError where Keras's is another one than the parameter servers'.

    Of Adam and AdamW only epsilon means something else: Keras adds it to the root of the corrected v times that
    correction, which is up to 30 times as much in the first steps, and the same later.
    """
    options = {key: value for key, value in optimizer.get_config().items() if key not in _NEUTRAL}
    rate = optimizer.get_config()["learning_rate"]
    settings = of_schedule(rate) if isinstance(rate, Mapping) else {"learningRate": float(rate)}
    clipping = {"clipvalue": "clipValue", "global_clipnorm": "clipNorm"}
    settings.update({ours: float(value) for key, ours in clipping.items() if (value := options.pop(key, None))})
    kind = type(optimizer).__name__
    is_keras = type(optimizer).__module__.split(".")[0] == "keras"  # each backend has classes of its own there
    if is_keras and kind == "SGD":
        momentum, is_nesterov = options.pop("momentum"), options.pop("nesterov")
        settings["name"] = "sgd" if not momentum else "nesterov" if is_nesterov else "momentum"
        settings.update({"momentum": float(momentum)} if momentum else {})
    elif is_keras and kind in ("Adam", "AdamW"):
        settings["name"] = kind.lower()
        for key, ours in (("beta_1", "beta1"), ("beta_2", "beta2"), ("epsilon", "epsilon")):
            settings[ours] = float(options.pop(key))
        if kind == "AdamW":
            settings["weightDecay"] = float(options.pop("weight_decay") or 0)
    else:
        raise TrainingError(
            f"parameter servers have no {kind} as Keras has it: compile with SGD, Adam or AdamW, "
            "or give optimizer=, a dict of keys of training.optimizer"
        )
    for key, value in options.items():
        if value:
            raise TrainingError(f"parameter servers have no {kind} with {key}={value}: leave that out")
    completed(settings)
    return settings

"""The optimizer of a job as a dict of the keys of training.optimizer, checked; also out of one of torch.optim.

docs/OPTIMIZERS.md has the rules, docs/JOB_FILE.md the keys.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy

from downpour.errors import TrainingError, kind_of

if TYPE_CHECKING:
    import torch

MOST_OVERRIDES = 1000

RATE = "between 1e-37 and 1e30"
DIVISOR = "between 1e-16 and 1e30"
AMOUNT = "0, or between 1e-37 and 1e30"
DECAY = "at least 0 and below 1, also as a 32-bit float"

# Of each key what it may be, and its default.
COMMON = {
    "learningRate": (RATE, 0.01),
    "weightDecay": (AMOUNT, 0.0),
    "clipValue": (AMOUNT, 0.0),
    "clipNorm": (AMOUNT, 0.0),
}
_MOMENTUM = {"momentum": (DECAY, 0.9)}
_ADAM = {"beta1": (DECAY, 0.9), "beta2": (DECAY, 0.999), "epsilon": (DIVISOR, 1e-8)}
KINDS: dict[str, dict[str, tuple[str, float]]] = {
    "sgd": {},
    "momentum": _MOMENTUM,
    "nesterov": _MOMENTUM,
    "adagrad": {"initialAccumulator": (AMOUNT, 0.0), "epsilon": (DIVISOR, 1e-10)},
    "rmsprop": {"alpha": (DECAY, 0.99), "epsilon": (DIVISOR, 1e-8)},
    "adam": _ADAM,
    "adamw": {**_ADAM, "weightDecay": (AMOUNT, 0.01)},
    "ftrl": {"beta": (DIVISOR, 1.0), "l1": (AMOUNT, 0.0), "l2": (AMOUNT, 0.0)},
}

# Our key for that of a torch optimizer's group.
_KEYS = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "momentum": "momentum",
    "initial_accumulator_value": "initialAccumulator",
    "alpha": "alpha",
    "eps": "epsilon",
}
_SAME_RESULT = {"params", "foreach", "fused", "capturable", "differentiable", "param_names"}


def completed(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """Its name and all numbers of its kind, each its own or the default. Raises TrainingError for what no job takes.

    What is in `schedule` and `overrides` is not looked at: the tool does that, when the job is submitted.
    """
    kind = optimizer.get("name", "sgd")
    if kind not in KINDS:
        raise TrainingError(f"optimizer: there is no {kind!r}: name one of {', '.join(KINDS)}")
    numbers = {**COMMON, **KINDS[kind]}
    for key, value in optimizer.items():
        if key in ("name", "schedule", "overrides"):
            continue
        if key not in numbers:
            raise TrainingError(f"optimizer: {kind} has no {key}: its keys are {', '.join(numbers)}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_in(numbers[key][0], value):
            raise TrainingError(f"optimizer: {key} is {value!r}, but must be {numbers[key][0]}")
    own = {key: optimizer.get(key, default) for key, (_, default) in numbers.items()}
    if own["learningRate"] * own["weightDecay"] >= 1:
        raise TrainingError("optimizer: weightDecay times learningRate is 1 or more: take a smaller weightDecay")
    return {"name": kind, **own, **{key: optimizer[key] for key in ("schedule", "overrides") if key in optimizer}}


def _is_in(what: str, value: float) -> bool:
    if what is DECAY:
        return value >= 0 and numpy.float32(value) < 1
    least = 1e-16 if what is DIVISOR else 1e-37
    return least <= value <= 1e30 or (what is AMOUNT and value == 0)


def of_torch(optimizer: Any) -> list[torch.optim.Optimizer]:
    """The optimizers of torch that a call was given: one, or several as a list. Of anything else the list is empty."""
    torch = sys.modules.get("torch")
    given = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    return given if torch is not None and all(isinstance(one, torch.optim.Optimizer) for one in given) else []


def from_torch(optimizers: Sequence[torch.optim.Optimizer], names: Mapping[int, str]) -> dict[str, Any]:
    """The same optimizer as keys of a job file. Raises TrainingError for what parameter servers do in another way.

    `names` are those of the model's variables, by the id of the parameter. Groups with a learning rate or a weight
    decay of their own become overrides. So do the groups of several optimizers, which are to be of one kind.
    """
    if any(_steps(state) for optimizer in optimizers for state in optimizer.state.values()):
        raise TrainingError("optimizer has made steps before, which a job does not know: make a new one")
    _check_apart(optimizers, names)
    pairs = [(optimizer, group) for optimizer in optimizers for group in optimizer.param_groups]
    groups = [group for _, group in pairs]
    translated = [_translated(type(optimizer), group, names, len(groups) > 1) for optimizer, group in pairs]
    first = max(range(len(groups)), key=lambda index: len(groups[index]["params"]))
    settings = translated[first]
    overrides = []
    for group, its in zip(groups, translated):
        own = {key: its[key] for key in ("learningRate", "weightDecay") if its[key] != settings[key]}
        for key in its:
            if its[key] != settings.get(key) and key not in own:
                both = f"{settings.get(key)} and {its[key]}"
                raise TrainingError(f"optimizer: its groups have the {key} {both}: give all groups the same")
        if own:
            overrides += [{"variables": _escaped(names[id(parameter)]), **own} for parameter in group["params"]]
    if len(overrides) > MOST_OVERRIDES:
        raise TrainingError(
            f"optimizer: {len(overrides)} variables have numbers of their own, but a job has at most {MOST_OVERRIDES}: "
            "give the job file's optimizer with a pattern, such as {'variables': '*.bias', 'weightDecay': 0}"
        )
    return {**settings, "overrides": overrides} if overrides else settings


def _check_apart(optimizers: Sequence[torch.optim.Optimizer], names: Mapping[int, str]) -> None:
    kinds = list(dict.fromkeys(type(optimizer).__name__ for optimizer in optimizers))
    if len(kinds) > 1:
        raise TrainingError(
            f"optimizer has {' and '.join(kinds)}, but parameter servers have one rule for all parameters: "
            "give optimizers of one kind, which may differ in learning rate and weight decay"
        )
    owners: dict[int, Any] = {}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if owners.setdefault(id(parameter), optimizer) is not optimizer:
                    raise TrainingError(f"optimizer: two of them have {names[id(parameter)]}: give it to one")


def _translated(kind: type, group: Mapping[str, Any], names: Mapping[int, str], has_others: bool) -> dict[str, Any]:
    import torch

    options = {key: value for key, value in group.items() if key not in _SAME_RESULT}
    if "initial_lr" in options:
        raise TrainingError(
            "optimizer has a scheduler: leave it out and give the job training.optimizer.schedule, in its file or by "
            'job={"training.optimizer.schedule.name": "step", "training.optimizer.schedule.stepEvery": 200}'
        )
    own = [names[id(parameter)] for parameter in group["params"]]
    if own and not float(group["lr"]) and has_others:
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        raise TrainingError(
            f"optimizer: the group of {own[0]}{more} has a learning rate of 0, which servers do not have: "
            "leave these parameters out of the optimizer, or set requires_grad=False, and they stay as they are"
        )
    if kind is torch.optim.SGD:
        name = "nesterov" if options.pop("nesterov") else "momentum" if options["momentum"] else "sgd"
        if name == "sgd":
            options.pop("momentum")
            options.pop("dampening")  # of a momentum that is not there
    elif kind is torch.optim.RMSprop:
        name = "rmsprop"
        _refuse(kind, {"momentum": options.pop("momentum")})
    elif kind in (torch.optim.Adam, torch.optim.AdamW):
        is_decoupled = options.pop("decoupled_weight_decay", False)
        name = "adamw" if kind is torch.optim.AdamW or is_decoupled else "adam"
    elif kind is torch.optim.Adagrad:
        name = "adagrad"
    else:
        raise TrainingError(
            f"optimizer is {kind_of(kind)}, which parameter servers do not have: "
            "take SGD, Adagrad, RMSprop, Adam or AdamW of torch.optim, or a dict of keys of training.optimizer"
        )
    settings = {"name": name, **{ours: float(options.pop(key)) for key, ours in _KEYS.items() if key in options}}
    if "betas" in options:
        settings["beta1"], settings["beta2"] = map(float, options.pop("betas"))
    _refuse(kind, options)
    completed(settings)
    return settings


def _refuse(kind: type, options: Mapping[str, Any]) -> None:
    """Whatever is not mapped must be at a value that changes nothing."""
    for key, value in options.items():
        if value:
            raise TrainingError(f"optimizer: servers have no {kind.__name__} with {key}={value}: leave that out")


def _steps(state: Mapping[str, Any]) -> bool:
    return float(state.get("step") or 0) > 0 or state.get("momentum_buffer") is not None


def _escaped(name: str) -> str:
    """A pattern that only this name matches."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", name)

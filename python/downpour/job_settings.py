"""Keys of the job file that a program gives defaults for, by fit(job=...)."""

from __future__ import annotations

import json
from typing import Any, Iterable, Iterator, Mapping, Optional

from downpour.errors import TrainingError, kind_of


def job_settings(job: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """What `job` says, by dotted keys: {"training": {"epochs": 3}} is {"training.epochs": 3}.

    Raises TrainingError, with the key, where it is no key of a job file or its value is nothing that JSON has.
    """
    if job is None:
        return {}
    if not isinstance(job, Mapping):
        raise TrainingError(f'job is {kind_of(job)}: give keys of the job file, as {{"training.consistency": "sync"}}')
    settings: dict[str, Any] = {}
    for key, value in _leaves(job, ""):
        if _is_in(key, settings):
            raise TrainingError(f"job: {key} is said twice: leave one of them out")
        try:
            settings[key] = json.loads(json.dumps(value, allow_nan=False, default=as_json))
        except (TypeError, ValueError) as error:
            raise TrainingError(f"job: {key} is {kind_of(value)}: give a number, a text, a flag, or a list") from error
    return settings


def beaten_by(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Both, without those of the defaults that `settings` have too, wholly or in part."""
    said = [key for key, _ in _leaves(settings, "")]

    # The defaults come last: they are read in the order of their keys.
    return {**settings, **{key: value for key, value in defaults.items() if not _is_in(key, said)}}


def _is_in(key: str, others: Iterable[str]) -> bool:
    """Whether it is one of them, or one of them stands in the other."""
    return any(key == one or key.startswith(f"{one}.") or one.startswith(f"{key}.") for one in others)


def section(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What stands under a key, as maps: {"schedule": {"name": "step"}} of training.optimizer.schedule.name."""
    found: dict[str, Any] = {}
    for path, value in _leaves(settings, ""):
        if path.startswith(f"{key}."):
            *above, name = path[len(key) + 1 :].split(".")
            place = found
            for step in above:
                place = place.setdefault(step, {})
            place[name] = value
    return found


def _leaves(entries: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in entries.items():
        if not isinstance(name, str) or "=" in name or not all(name.split(".")):
            raise TrainingError(f"job: {prefix}{name!r} is no key of a job file, such as training.epochs")
        key = prefix + name
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def as_json(value: Any) -> Any:
    """A scalar or an array of NumPy's or PyTorch's, as JSON has it."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"a {type(value).__name__} is no value for a job file: {value!r}")
    return value.tolist()

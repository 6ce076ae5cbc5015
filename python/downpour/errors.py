"""What calls raise, apart from TypeError, ValueError and TimeoutError."""

from __future__ import annotations

from typing import Any

from downpour.status import Status


def kind_of(value: Any) -> str:
    """What it is, for a sentence: "a str", "an int"."""
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


class DownpourError(Exception):
    """The base of all errors of this package."""


class ToolNotFound(DownpourError):
    """There is no program `downpour` to call, or it cannot be started."""


class ToolError(DownpourError):
    """`downpour` refused or failed. The message is its own sentence.

    `exit_code` is that of the tool, such as 69 if the chief cannot be reached and 78 for a bad job file. It is negative
    if a signal ended the tool, as in subprocess. It is 0 if the tool succeeded with an answer that cannot be read.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message, exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.args[0]


class ModelFileError(DownpourError):
    """A file is no safetensors file as `downpour export` writes it. The message names the file and the place."""


class TrainingError(DownpourError):
    """fit() or steps() was given what parameter servers cannot train. The message has the remedy."""


class MisuseError(TrainingError):
    """A loop over steps() breaks its rules, and would do so at every try. So a job ends with the first one."""


class InstanceError(ValueError):
    """An instance does not fit. So the request is at fault, and not the program."""


class _JobEnded(DownpourError):
    def __init__(self, message: str, summary: Status) -> None:
        super().__init__(message, summary)
        self.summary = summary

    def __str__(self) -> str:
        return self.args[0]


class JobFailed(_JobEnded):
    """The job ended as FAILED. The message has the reason, `summary` the rest."""


class JobCancelled(_JobEnded):
    """The job ended as CANCELLED. The message has the reason and the command that continues; `summary` the rest."""

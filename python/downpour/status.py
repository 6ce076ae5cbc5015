"""Status: what a job says of itself, as a dict that prints well."""

from __future__ import annotations

import html
from collections import Counter
from typing import Any

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class Status(dict):
    """The status of a job, or its summary once it has ended, as the JSON object of docs/STATUS.md.

    Names are camelCase, durations are seconds, and an absent name means unknown. It prints as a few lines of text, and
    as a table in a notebook.
    """

    @property
    def is_summary(self) -> bool:
        """Whether this is the job's summary.json, which is there once its chief has exited."""
        return "state" in self and "chief" not in self

    def __repr__(self) -> str:
        return "\n".join(f"{label + ':':<12}{value}" for label, value in self._rows())

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{label}</th><td>{html.escape(value)}</td></tr>" for label, value in self._rows())
        return f"<table>{cells}</table>"

    def _first(self, *paths: str) -> Any:
        """The first of these entries that is there, such as "progress.loss"; None if none is."""
        for path in paths:
            value: Any = self
            for name in path.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            if value not in (None, ""):
                return value
        return None

    def _rows(self) -> list[tuple[str, str]]:
        count = self._first("progress.examplesCommitted", "examples")
        goal = self._first("progress.examples")
        trained = None if count is None else f"{count} examples" if goal is None else f"{count} of {goal} examples"
        tasks = self.get("tasks")
        listed = tasks if isinstance(tasks, list) else []
        states = Counter(str(task.get("state")) for task in listed if isinstance(task, dict))
        checkpoint = self._first("checkpoint.round", "checkpoint")
        rows = [
            ("Job", f"{self.get('job', '?')} {self.get('state', '?')}"),
            ("Error", self._first("errorMessage")),
            ("Trained", trained),
            ("Examples/s", self._first("progress.examplesPerSecond", "examplesPerSecond")),
            ("Loss", self._first("progress.loss", "trainLoss")),
            ("Eval loss", self._first("evaluation.loss", "evalLoss")),
            ("Accuracy", self._first("evaluation.accuracy", "evalAccuracy")),
            ("Checkpoint", None if isinstance(checkpoint, dict) else checkpoint),
            ("Best", self._first("checkpoint.best.path", "bestCheckpoint.path")),
            ("Tasks", ", ".join(f"{states[state]} {state}" for state in sorted(states)) or None),
            ("Stalled", self._first("stalled")),
            ("Diverging", self._first("diverging")),
        ]
        return [(label, str(value)) for label, value in rows if value is not None]

"""Watch: whether the user's code has changed parameters, which only the servers may do."""

from __future__ import annotations

from typing import Any

from downpour.errors import MisuseError


class Watch:
    """Begun where a batch is handed out, and asked where its push comes and where it is over.

    PyTorch counts what changes a parameter in place, and so each batch is held against that. It does not count writes
    into `data`, as a hand-written optimizer makes them. So at the batches 1, 2, 4, 8 and so on the sums of the bits are
    compared as well. That costs as much as reading all parameters twice.
    """

    def __init__(self) -> None:
        self._batches = 0
        self._before: Any = None
        self._sums: Any = None

    def begin(self, model: Any, is_probe: bool = False) -> None:
        """Of a model that is bound. Behind the probe its memory is being filled, so that sums would tell nothing."""
        self._batches += not is_probe
        self._before = model.changes()
        self._sums = None if is_probe or self._batches & (self._batches - 1) else model.sums()

    def check(self, model: Any) -> None:
        """Raises MisuseError for the first parameter that is not as it was."""
        self._compare(model, self._before, model.changes())
        if self._sums is not None:
            self._compare(model, self._sums, model.sums())

    @staticmethod
    def _compare(model: Any, before: Any, now: Any) -> None:
        if now == before:
            return
        changed = next(name for name, value in now.items() if value != before.get(name))
        if changed in getattr(model, "left_out", ()):
            raise MisuseError(
                f"{changed} was changed in the loop but is none of the optimizer's parameters: give them to it as a "
                "group of their own, or set requires_grad_(False) where the loop itself keeps the values, such as a "
                "moving average"
            )
        raise MisuseError(
            f"{changed} was changed, and behind the first batch only the servers may do so: leave out what does it, "
            "such as an optimizer.step(), a write to its data, or max_norm"
        )

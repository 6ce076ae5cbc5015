"""Names other frameworks' ways to spread a program over hosts, as it builds them.

In a job they would wait for ever: their cluster has no process that listens for them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from typing import Any, Optional

from downpour.errors import TrainingError

_INSTEAD = (
    "leave the strategy and its scope out, compile the model as it is, and write downpour.keras.fit(model, x, y, ...) "
    "in place of model.fit: the job's servers and workers do the rest (docs/PYTHON.md, Keras)"
)
_PLACES = "tensorflow.python.distribute."
_STRATEGIES = {
    _PLACES + "parameter_server_strategy_v2": {"ParameterServerStrategyV2": "ParameterServerStrategy"},
    _PLACES + "parameter_server_strategy": {"ParameterServerStrategyV1": "ParameterServerStrategy"},
    _PLACES + "collective_all_reduce_strategy": {
        "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
        "CollectiveAllReduceStrategyV1": "MultiWorkerMirroredStrategy",
    },
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what others find, and has the strategies refused in it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if name not in _STRATEGIES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                for kind, known_as in _STRATEGIES[name].items():
                    if hasattr(module, kind):
                        getattr(module, kind).__init__ = _refusal(known_as)

            spec.loader.exec_module = exec_module
        return spec


def _refusal(known_as: str) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise TrainingError(f"tf.distribute's {known_as} would wait for ever in a job: {_INSTEAD}")

    return refuse


def refuse_strategies() -> None:
    """From now on, in this process, before the program imports TensorFlow."""
    sys.meta_path.insert(0, _Finder())

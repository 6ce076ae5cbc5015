"""Names other frameworks' ways to spread a program over hosts, as it begins them.

In a job they would wait for ever: their cluster has no process that listens for them.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import inspect
import os
import re
import sys
from typing import Any, Callable, Optional

from downpour.errors import TrainingError

_REST = "the job's servers and workers do the rest (docs/FROM_OTHER_FRAMEWORKS.md)"
_IN_KERAS = (
    "leave the strategy and its scope out, compile the model as it is, and write downpour.keras.fit(model, x, y, ...) "
    f"in place of model.fit: {_REST}"
)
_IN_TORCH = (
    "leave it and the wrapper around the model out, and write downpour.fit(model, train=dataset, loss=loss, "
    f"optimizer=optimizer, epochs=N, batch_size=N) in place of the loop: {_REST}"
)
_WAITS = "would wait for ever in a job"


def _refuse(known_as: str, why: str, instead: str) -> Any:
    raise TrainingError(f"{known_as} {why}: {instead}")


def _refused_class(known_as: str, why: str = _WAITS) -> Callable[[Any], Any]:
    def patch(kind: Any) -> Any:
        kind.__init__ = lambda *_, **__: _refuse(f"tf.distribute's {known_as}", why, _IN_KERAS)
        return kind

    return patch


def _refused_unless_alone(known_as: str) -> Callable[[Any], Any]:
    """A rendezvous of PyTorch, which one process alone comes to at once."""

    def patch(begin: Any) -> Any:
        @functools.wraps(begin)
        def begun(*args: Any, **settings: Any) -> Any:
            given = inspect.signature(begin).bind_partial(*args, **settings).arguments
            if _processes(given) != 1:
                _refuse(f"torch.distributed.{known_as}", _WAITS, _IN_TORCH)
            return begin(*args, **settings)

        return begun

    return patch


def _processes(given: Any) -> Optional[int]:
    """How many are to meet, as far as these arguments or the environment say."""
    count = given.get("world_size")
    in_address = re.search(r"[?&]world_size=(\d+)", str(given.get("init_method") or ""))
    for said in (count if isinstance(count, int) and count > 0 else None, in_address and in_address[1]):
        if said is not None:
            return int(said)
    said = os.environ.get("WORLD_SIZE", "")
    return int(said) if said.isascii() and said.isdigit() else None


_PLACES = "tensorflow.python.distribute."
_OF_MULTI_WORKER = _refused_class("MultiWorkerMirroredStrategy")
_OF_SERVERS = _refused_class("ParameterServerStrategy")
_OF_TPUS = _refused_class("TPUStrategy", "finds no TPU in a job")
_REFUSED: dict[str, dict[str, Callable[[Any], Any]]] = {  # module: {what it defines: what takes its place}
    _PLACES + "parameter_server_strategy_v2": {"ParameterServerStrategyV2": _OF_SERVERS},
    _PLACES + "parameter_server_strategy": {"ParameterServerStrategyV1": _OF_SERVERS},
    _PLACES + "collective_all_reduce_strategy": {
        "CollectiveAllReduceStrategy": _OF_MULTI_WORKER,
        "CollectiveAllReduceStrategyV1": _OF_MULTI_WORKER,
    },
    _PLACES + "cluster_resolver.tpu.tpu_cluster_resolver": {"TPUClusterResolver": _OF_TPUS},
    "torch.distributed.distributed_c10d": {
        "init_process_group": _refused_unless_alone("init_process_group")
    },
    "torch.distributed.rpc": {"init_rpc": _refused_unless_alone("rpc.init_rpc")},
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what others find, and has the strategies refused in it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if name not in _REFUSED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                for defined, patch in _REFUSED[name].items():
                    if hasattr(module, defined):
                        setattr(module, defined, patch(getattr(module, defined)))

            spec.loader.exec_module = exec_module
        return spec


def refuse_strategies() -> None:
    """From now on, in this process, before the program imports TensorFlow or PyTorch."""
    sys.meta_path.insert(0, _Finder())

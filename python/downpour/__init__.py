"""Starts, watches and reads Downpour jobs by the tool `downpour`; trains models of Python code in them.

    job = downpour.run("job.yaml", "runs/first", set={"training.epochs": 3})
    print(job.status())
    summary = job.wait()
    values = job.state_dict()

docs/PYTHON_JOBS.md in the repository has a walk through these calls, and docs/PYTHON.md one through those that train.
"""

import importlib
from typing import Any

from downpour import data
from downpour.errors import (
    DownpourError,
    JobCancelled,
    JobFailed,
    ModelFileError,
    ToolError,
    ToolNotFound,
    TrainingError,
)
from downpour.job import Job, run
from downpour.serving import serve
from downpour.status import Status
from downpour.training import fit, is_master, push, steps


def __getattr__(name: str) -> Any:
    """The metrics, which need numpy, and the layers, which need torch."""
    if name == "metrics":
        return importlib.import_module("downpour.metrics")
    if name not in ("Embedding", "EmbeddingBag"):
        raise AttributeError(f"module 'downpour' has no attribute {name!r}")
    from downpour import table_layers

    return getattr(table_layers, name)


__version__ = "0.1.0"  # as meson.build has it; tests/python holds it against `downpour --version`

__all__ = [
    "DownpourError",
    "Embedding",
    "EmbeddingBag",
    "Job",
    "JobCancelled",
    "JobFailed",
    "ModelFileError",
    "Status",
    "ToolError",
    "ToolNotFound",
    "TrainingError",
    "data",
    "fit",
    "is_master",
    "metrics",
    "push",
    "run",
    "serve",
    "steps",
]

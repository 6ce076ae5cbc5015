"""Starts, watches and reads Downpour jobs by the tool `downpour`; trains models of Python code in them.

    job = downpour.run("job.yaml", "runs/first", set={"training.epochs": 3})
    print(job.status())
    summary = job.wait()
    values = job.state_dict()

docs/PYTHON.md in the repository has a walk through all calls.
"""

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
from downpour.status import Status
from downpour.training import fit, is_master, push, steps

__version__ = "0.1.0"  # as meson.build has it; tests/python holds it against `downpour --version`

__all__ = [
    "DownpourError",
    "Job",
    "JobCancelled",
    "JobFailed",
    "ModelFileError",
    "Status",
    "ToolError",
    "ToolNotFound",
    "TrainingError",
    "fit",
    "is_master",
    "push",
    "run",
    "steps",
]

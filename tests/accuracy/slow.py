"""Workers whose steps take as long as one says (tools/dev/slow_worker), for what is measured on few cores."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev"))

import oracle_check  # noqa: E402


def workers(build, folder, milliseconds, slower_by=1):
    """What mnist.train takes for them; worker-0 is slower than the others by that factor."""
    environment = dict(os.environ, SLOW_STEP_MS=str(milliseconds), SLOW_INDEX="0", SLOW_FACTOR=str(slower_by))
    return {"tool": oracle_check.programs(build, folder / "programs", "slow_worker"), "environment": environment}

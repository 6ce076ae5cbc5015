"""The Python that tools/dev/clients_environment makes, which has the clients of others."""

import os
import pathlib
import sys
import unittest


def run_again_in_the_environment(program):
    """Where there is none, the program's tests are run here, and skipped by name."""
    python = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", "build")) / "clients/bin/python3"
    if pathlib.Path(sys.executable) != python.absolute() and python.exists():
        os.execv(python, [python, program, *sys.argv[1:]])
    unittest.main(module="__main__")

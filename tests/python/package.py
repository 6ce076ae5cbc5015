"""What the tests of the Python package share: the package of this tree, and those of tests/process."""

import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests/process")]
os.environ.pop("DOWNPOUR_TOOL", None)  # which tool is tested is up to the tests


def is_there(module):
    return importlib.util.find_spec(module) is not None

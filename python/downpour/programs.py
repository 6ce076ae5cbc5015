"""Programs: those that a wheel brings, `downpour` and the three roles.

They lie in the folder `bin` of this package, where the libraries that a wheel carries are found from. The commands in
the PATH come here, and are replaced by the program of the same name: same process, same signals, same exit code.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn, Optional


def bundled(name: str) -> Optional[str]:
    """The path of a program that came with this package. None of a package that was installed without them."""
    path = pathlib.Path(__file__).resolve().parent / "bin" / name
    return str(path) if os.access(path, os.X_OK) else None


def run() -> NoReturn:
    """Becomes the program that this command is named after. Exits with 127 if the package has no such program."""
    name = pathlib.Path(sys.argv[0]).name
    program = bundled(name)
    if program is None:
        print(f"{name}: this package came without programs: install the wheel of the release", file=sys.stderr)
        sys.exit(127)
    # Python code of jobs runs where this package is, also if no environment is activated.
    environment = {"DOWNPOUR_PYTHON": sys.executable, **os.environ}
    os.execve(program, [name, *sys.argv[1:]], environment)

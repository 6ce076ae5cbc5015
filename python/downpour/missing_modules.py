"""What to do about an import that failed, where the package itself has a module of that name.

Python 2 looked for `import model` beside the file that has it. Python 3 does so for a file that is run by its path, but
not for a module that is run by its name, as AI Platform and Downpour do. Nothing here makes such an import work: the
module would be there twice, as `model` and as `trainer.model`, with two of each class, and the same program would fail
by `python -m trainer.task`.
"""

from __future__ import annotations

import os
import re
import traceback
import zipfile
from typing import Optional


def remedy_of(error: BaseException, package: str, module: str) -> Optional[str]:
    """The sentence for an import that failed in the user's module; None if the package has nothing of that name.
    `package` is the folder or the zip file that the module is imported from."""
    if not isinstance(error, ImportError):
        return None
    is_top = "." not in module
    if is_top and "no known parent package" in str(error):
        return f"{module} was run as a module of no package, so it has no relative imports: " + _by_package(module)
    if not error.name:
        return None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_in(package, frame.filename)]
    line = frames[-1].line or "" if frames else ""
    own = re.search(rf"\b{re.escape(error.name)}(?:\.(\w+))?(?:\s+import\s+(\w+))?", line)
    if is_top and own and _has(package, [own[1] or own[2] or ""]):
        return f"there is no package {error.name}, since {module} was run as a module of none: " + _by_package(module)
    folders = [os.path.relpath(frames[-1].filename, package).split(os.sep)[:-1]] if frames else []
    return _beside(error, package, [*folders, module.split(".")[:-1]])


def _by_package(module: str) -> str:
    return f"name it with its package, as --module-name trainer.{module} with --package-path of the folder trainer"


def _beside(error: ImportError, package: str, folders: list[list[str]]) -> Optional[str]:
    """For a module that lies in one of the folders, each given as names below `package`."""
    is_another = error.path is not None and not _is_in(package, error.path)
    if error.path is not None and not is_another:
        return None  # the package's own was found, and lacks the name that was asked for
    for folder in folders:
        names = [*folder, *error.name.split(".")]
        if not folder or not _has(package, names):
            continue
        what = f"{error.name} is that of {error.path}" if is_another else f"there is no module {error.name}"
        owner, full = ".".join(names[:-1]), ".".join(names)
        return (
            f"{what}, while {'/'.join(names)} of the package goes by its whole name in Python 3: "
            f"write `from {owner} import {names[-1]}`, or `from {full} import ...`"
        )
    return None


def _is_in(package: str, file: str) -> bool:
    return file.startswith(package.rstrip(os.sep) + os.sep)


def _has(package: str, names: list[str]) -> bool:
    """Whether there is a module or a package of these names."""
    places = ["/".join(names) + ".py", "/".join(names) + "/__init__.py"]
    if os.path.isdir(package):
        return any(os.path.isfile(os.path.join(package, place)) for place in places)
    try:
        with zipfile.ZipFile(package) as archive:
            return not set(places).isdisjoint(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False

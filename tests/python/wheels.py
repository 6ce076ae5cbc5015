"""Packages to install in tests, and a setup.py that can be held in the middle."""

import zipfile

# A setup.py that tells that it runs, and then waits to be let go on: both by opening a pipe.
WAITING = """
import os
begun, go = os.environ.get("BEGUN"), os.environ.get("GO")
if begun and "egg_info" in sys.argv:
    open(begun, "w").close()
    open(go).close()
"""


def write_wheel(folder, name, version, files=None, requires=()):
    """As pip takes one; `files` are those of the module of its name."""
    about = f"{name}-{version}.dist-info"
    needed = [f"Requires-Dist: {requirement}" for requirement in requires]
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *needed]
    contents = {
        **(files or {f"{name}.py": f"VERSION = {version!r}\n"}),
        f"{about}/METADATA": "\n".join(lines) + "\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in contents.items():
            archive.writestr(file, text)
        archive.writestr(f"{about}/RECORD", "".join(f"{file},,\n" for file in (*contents, f"{about}/RECORD")))
    return path

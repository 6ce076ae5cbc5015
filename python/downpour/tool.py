"""Tool: the program `downpour`, called as a child process. It alone knows the protocol."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from typing import IO, Any, Optional, Sequence, Union

from downpour.errors import ToolError, ToolNotFound
from downpour.programs import bundled

Path = Union[str, "os.PathLike[str]"]


class Tool:
    """`path`, else the environment variable DOWNPOUR_TOOL, else what this package brought, else `downpour` in the PATH.
    Raises ToolNotFound.

    Each child has a session of its own, so a Ctrl-C in the terminal or a notebook's interrupt does not reach it.
    """

    def __init__(self, path: Optional[Path] = None) -> None:
        named = path or os.environ.get("DOWNPOUR_TOOL")
        wanted = os.path.expanduser(os.fspath(named or bundled("downpour") or "downpour"))
        found = shutil.which(wanted)
        if found is None:
            where = wanted if os.sep in wanted else f"{wanted} in the PATH"
            raise ToolNotFound(
                f"there is no program {where}: install Downpour (its wheel, or meson install -C build), "
                "or name its tool by tool=PATH or by the environment variable DOWNPOUR_TOOL"
            )
        self.path = os.path.abspath(found)

    def start(
        self, words: Sequence[str], stdout: Any, stderr: Any, stdin: Any = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """The child that runs `downpour WORDS`. Its pipes have no buffers. Raises ToolNotFound if the program cannot be
        started."""
        ends = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        try:
            return subprocess.Popen([self.path, *words], bufsize=0, start_new_session=True, **ends)
        except OSError as error:
            raise ToolNotFound(f"{self.path} cannot be started: {error.strerror}; name another tool") from error

    def ask(self, *words: str, answers: Sequence[int] = (0,)) -> str:
        """What `downpour WORDS` prints. Raises ToolError if it exits with none of `answers`, or 1 and says nothing."""
        child = self.start(words, subprocess.PIPE, subprocess.PIPE)
        try:
            out, err = child.communicate()
        except BaseException:  # Ctrl-C
            child.kill()
            child.wait()
            raise
        said = out.decode(errors="replace")
        if child.returncode not in answers or (child.returncode != 0 and not said.strip()):
            raise failure(words, child.returncode, err)
        return said


_SENTENCE = re.compile(r"downpour( \w+)?: |--[a-z-]+: |.+?:\d+(:\d+)?: ")  # begins so


def failure(words: Sequence[str], code: int, err: bytes) -> ToolError:
    """What went wrong, in the tool's words if it had any. They come last in `err`, behind what the user's program has
    printed, and first in the error."""
    lines = err.decode(errors="replace").strip().splitlines()
    first = len(lines)
    while first > 0 and _SENTENCE.match(lines[first - 1]):
        first -= 1
    message = "\n".join(lines[first:] + lines[:first])
    if not message:
        ended = f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with {code} and gave no reason"
        message = f"downpour {words[0]} {ended}"
    return ToolError(message, code)


def said_in(file: IO[bytes]) -> bytes:
    """All that a child has written into the file so far."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0)  # the child shares the file's position, so it stays where it is


def parse(text: str, kind: type, path: str) -> Any:
    """The JSON that a tool printed. Raises ToolError if it is not one value of this kind."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise ToolError(f"{path} printed no JSON {kind.__name__} but {text[:80]!r}: is it the tool of Downpour?", 0)
    return value


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""The log of a task as what the user's code prints to: it ends nothing where it can take no more."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # EFBIG: by `ulimit -f`


class _Log(io.RawIOBase):
    """Descriptor 2. What its disk does not take is lost, as lines of the worker itself are."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def write(self, data: Any) -> int:
        try:
            return os.write(2, data)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            return len(data)


def take_prints() -> None:
    """From now on sys.stdout and sys.stderr are the error output, line by line."""
    os.dup2(2, 1)
    for name in ("stdout", "stderr"):
        before = getattr(sys, name)
        before.flush()
        form = {"encoding": before.encoding, "errors": "backslashreplace"}  # a text without UTF-8 ends nothing either
        setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(_Log()), line_buffering=True, **form))

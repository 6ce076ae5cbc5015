"""What SIGINT and SIGTERM do to this call."""

import contextlib
import os
import signal
import sys

TOLD = b"""cluster: interrupted: what runs on the hosts now ends first
(a second signal ends this at once, and leaves there what was started)
"""


class Interrupted(Exception):
    """By the signal of this number."""


class Interrupts:
    """Signals that end this call. They are obeyed between the scripts that hosts run, so that none is cut off midway; a
    second one of a kind does not wait. The handler raises nothing: what a handler raises may come in the middle of
    anything, and is lost where Python lets no exception out, as from a weak reference's callback when a pool of threads
    goes."""

    def __init__(self):
        self.number = None  # of the signal that came
        self.child = None  # which is waited for, however long it takes

    def come(self, number, _):
        self.number = number
        if self.child:
            self.child.send_signal(number)
            return
        signal.signal(number, signal.SIG_DFL)
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            os.write(sys.stderr.fileno(), TOLD)

    def check(self):
        if self.number:
            raise Interrupted(self.number)

    @contextlib.contextmanager
    def ending(self, child):
        """Within it this child gets what signals come, or came before. It does not outlive it."""
        self.child = child
        if self.number:
            child.send_signal(self.number)
        try:
            yield child
        finally:
            self.child = None
            child.kill()
            child.wait()
        self.check()


INTERRUPTS = Interrupts()

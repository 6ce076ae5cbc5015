"""A busy machine, on request: DOWNPOUR_TEST_JITTER=SEED delays and stops the processes of the tests at random.

A test that passes only as long as nobody is late fails under some seed. A seed repeats what is drawn, not what it hits.
"""

import atexit
import os
import pathlib
import random
import signal
import threading

LATE = 3.0  # seconds by which a child starts late, at most
STOPPED = 1.5  # seconds for which one is stopped, at most: less than anybody's patience with the living
GOING = (0.1, 0.8)  # seconds between two stops: enough to say that one lives


def descendants(pid):
    """Children of `pid`, their children, and so on."""
    try:
        lists = [task.read_text() for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended, or a thread of it
        return []
    children = [int(child) for listed in lists for child in listed.split()]
    return children + [pid for child in children for pid in descendants(child)]


def filters_of(pid):
    """How many sift its calls: 0 of one that has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int(next((line.split()[1] for line in status.splitlines() if line.startswith("Seccomp_filters:")), 0))


OWN_FILTERS = filters_of(os.getpid())


def is_sandboxed(pid):
    """By itself, as sshd's child is that has not let anybody in: stopped in poll() it ends, since what goes on then is
    restart_syscall()."""
    return filters_of(pid) > OWN_FILTERS


class Jitter:
    def __init__(self, seed):
        self.delays, self.stops = random.Random(f"delays {seed}"), random.Random(f"stops {seed}")
        self.spared = set()  # who is stopped by a test stays stopped
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._stop_and_go, daemon=True)
        self.thread.start()
        atexit.register(self._end)  # nobody stays stopped

    @classmethod
    def from_environment(cls):
        seed = os.environ.get("DOWNPOUR_TEST_JITTER")
        return cls(seed) if seed else None

    def late(self, command):
        """The command, after a while, in the same process."""
        return ["sh", "-c", 'sleep "$0"; exec "$@"', f"{self.delays.uniform(0, LATE):.2f}", *command]

    def _stop_and_go(self):
        while not self.over.wait(self.stops.uniform(*GOING)):
            there = [pid for pid in descendants(os.getpid()) if pid not in self.spared and not is_sandboxed(pid)]
            victims = self.stops.sample(there, self.stops.randint(0, min(3, len(there))))
            self._send(victims, signal.SIGSTOP)
            self.over.wait(self.stops.uniform(0, STOPPED))
            self._send([pid for pid in victims if pid not in self.spared], signal.SIGCONT)

    def _send(self, pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def _end(self):
        self.over.set()
        self.thread.join()

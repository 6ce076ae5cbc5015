"""What hosts say: believed as far as it can be checked, and shown without what a terminal obeys. One host that went bad
shall not reach the others, nor this machine, through it."""

import contextlib
import ipaddress
import json
import os
import re
import subprocess
import sys
import threading

LONGEST_LINE = 1 << 16  # bytes; what is longer is shown in pieces
LONGEST_STATUS = 1 << 26
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# But for colours, and line ends as a remote terminal has them.
UNSHOWN = re.compile(r"\x1b(?!\[[0-9;]{0,16}m)|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
TASK = re.compile(r"chief|(?:ps|worker)-(?:0|[1-9][0-9]{0,3})")


def printable(text):
    """With '?' for each character that a terminal obeys."""
    return CONTROL.sub("?", text)


def one_line(text):
    """Likewise, since no words of a host's may begin a line of their own."""
    return "; ".join(line.strip() for line in printable(text).splitlines() if line.strip())


def show(stream, out):
    """Hands on what a host says while it says it, colours included, until it ends or nobody reads any more."""
    with stream:
        try:
            while line := stream.readline(LONGEST_LINE):
                out.write(UNSHOWN.sub("?", line.decode(errors="replace")))
                out.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # for what Python still has to flush


@contextlib.contextmanager
def shown_errors(command):
    """A child whose stdout is read here, while its stderr is shown."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors = threading.Thread(target=show, args=(child.stderr, sys.stderr), daemon=True)
    errors.start()
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        errors.join(timeout=5)  # a connection that ssh keeps for its next call may hold it open
        child.stdout.close()


def tasks_in(text):
    return [word for word in text.split() if TASK.fullmatch(word)]


def endpoint(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def endpoint_at(address, said):
    """An endpoint that a host named, spelled by this side: None unless it is a port of that address."""
    host, _, port = said.rpartition(":")
    try:
        same = ipaddress.ip_address(host.removeprefix("[").removesuffix("]")) == ipaddress.ip_address(address)
    except ValueError:
        return None
    is_port = re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536
    return endpoint(address, int(port)) if same and is_port else None


def read_object(text):
    """ValueError if it is no JSON object."""
    try:
        found = json.loads(text)
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found


def words_of(entry, key):
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def objects_of(entry, key):
    value = entry.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class Status:
    """What a chief says of its job; empty where it says nothing, or something else than docs/STATUS.md has."""

    ALIVE = ("PREPARING", "RUNNING")

    def __init__(self, text):
        said = read_object(text)
        chief = said.get("chief")
        self.state = one_line(words_of(said, "state"))
        self.error = one_line(words_of(said, "errorMessage"))
        pending = objects_of(said, "pending")
        self.pending = [one_line(f"{words_of(one, 'task')} {words_of(one, 'why')}") for one in pending]
        self.chief_endpoint = words_of(chief, "endpoint") if isinstance(chief, dict) else ""
        alive = [task for task in objects_of(said, "tasks") if words_of(task, "state") in self.ALIVE]
        names = {words_of(task, "name"): words_of(task, "endpoint") for task in alive}
        self.servers = {name: there for name, there in names.items() if TASK.fullmatch(name) and name.startswith("ps-")}

"""Hosts that are reached by ssh: their file, what runs on them, and running more there."""

import concurrent.futures
import functools
import io
import ipaddress
import pathlib
import shlex
import socket
import subprocess
import sys
import tarfile

from answers import Status, one_line, printable, show, shown_errors
from interrupts import INTERRUPTS

ROLES = ("chief", "ps", "worker")
UNREACHABLE = 255  # as ssh says it

# What each command goes by there: DOWNPOUR_KEYS names the folder of keys, where one was copied.
USE_KEYS = '[ -d keys ] && export DOWNPOUR_KEYS="$PWD/keys"'

# Functions of the other side's shell. A task is a process with a number and a start time, so that a number that was
# given again is not taken for it. Of two calls that start the same one at a time, one does.
REMOTE = r"""
set -u
born() { awk '{ sub(/.*\) /, ""); if ($1 != "Z") print $20 }' "/proc/$1/stat" 2>/dev/null; }
alive() { [ -s "pids/$1" ] && read -r pid when < "pids/$1" && [ -n "$when" ] && [ "$(born "$pid")" = "$when" ]; }
running() { for file in pids/*; do alive "${file#pids/}" && echo "${file#pids/}"; done; true; }
start() {
  task=$1; shift
  mkdir -p logs pids
  exec 9> start.lock && flock 9
  if ! alive "$task"; then
    setsid "$@" >> "logs/$task.out" 2>&1 < /dev/null 9>&- &
    echo "$! $(born $!)" > "pids/$task"
  fi
  exec 9>&-
}
stop() {
  for task in "$@"; do alive "$task" && kill "$pid"; done
  for attempt in $(seq 300); do
    left=; for task in "$@"; do alive "$task" && left=1; done
    [ -z "$left" ] && break
    sleep 0.1
  done
  for task in "$@"; do alive "$task" && kill -9 "$pid"; rm -f "pids/$task"; done
  true
}
"""


def complain(words):
    print(printable(f"cluster: {words}"), file=sys.stderr)


def fail(words, code=1):
    complain(words)
    sys.exit(code)


class Host:
    def __init__(self, name, options):
        self.name = name
        self.slots = {}  # role -> how many
        self.addr = None
        self.dir = f"downpour/{options.name}"
        self.config = ["-F", options.ssh_config] if options.ssh_config else []

    @functools.cached_property
    def settings(self):
        """What ~/.ssh/config says of it."""
        said = subprocess.run(["ssh", *self.config, "-G", self.name], capture_output=True, text=True).stdout
        return dict(line.partition(" ")[::2] for line in said.splitlines())

    @functools.cached_property
    def ssh(self):
        command = ["ssh", *self.config, "-o", "BatchMode=yes"]
        for option, unset in (("ConnectTimeout", "none"), ("ServerAliveInterval", "0")):
            if self.settings.get(option.lower(), unset) == unset:
                command += ["-o", f"{option}=10"]
        return command

    def run(self, script, data=b"", check=True):
        """As `run_raw`, with its stdout as text."""
        code, out = self.run_raw(script, data, check)
        return code, out.decode(errors="replace")

    def run_raw(self, script, data=b"", check=True):
        """Runs a script in the host's folder; (exit code, stdout). `data` is its standard input. With `check` any exit
        code but 0 is an error; that of a host that does not answer always is, since the script said nothing then.
        Interrupted, before it or once it has ended."""
        INTERRUPTS.check()
        folder = shlex.quote(self.dir)
        text = f"mkdir -p {folder} && cd {folder} || exit 1\n{USE_KEYS}\n{REMOTE}\n{script}".encode()
        # The script comes before its input, since no quoting of several lines is the same in every login shell.
        command = f"""sh -c 'eval "$(head -c {len(text)})"'"""
        # In a session of its own ssh outlives what ends this call from a terminal.
        ssh = [*self.ssh, self.name, command]
        done = subprocess.run(ssh, input=text + data, capture_output=True, start_new_session=True)
        INTERRUPTS.check()
        out, err = done.stdout, done.stderr.decode(errors="replace").strip()
        unreachable = done.returncode == UNREACHABLE
        if unreachable or (done.returncode and check):
            words = err or out.decode(errors="replace").strip() or f"exit code {done.returncode}"
            raise HostError(self, words, unreachable)
        return done.returncode, out

    def command(self, script, terminal=False):
        """What runs a script of one line in the host's folder."""
        line = shlex.quote(f"cd {shlex.quote(self.dir)} || exit 1; {USE_KEYS}; {script}")
        return [*self.ssh, *(["-t"] if terminal else []), self.name, f"sh -c {line}"]

    def attach(self, script):
        """Runs it with this terminal; its exit code."""
        with shown_errors(self.command(script, sys.stdin.isatty())) as child, INTERRUPTS.ending(child):
            show(child.stdout, sys.stdout)
            return child.wait()

    def address(self):
        """Where the others reach it, as a number."""
        if not self.addr:
            self.addr = self.settings["hostname"]
        try:
            numbers = [found[4][0] for found in socket.getaddrinfo(self.addr, None, type=socket.SOCK_STREAM)]
        except OSError as error:
            raise HostError(self, f"{self.addr} has no address: {error.strerror}; say addr=ADDRESS") from error
        reached = [number for number in numbers if not is_loopback(number)]
        if not reached and self.addr != "localhost" and self.addr not in numbers:
            where = f"here {self.addr} means {numbers[0]}, where no other host reaches it"
            raise HostError(self, f"{where}; say addr=ADDRESS")
        return (reached or numbers)[0]


class HostError(Exception):
    def __init__(self, host, words, unreachable=False):
        super().__init__(f"{host.name} {'does not answer' if unreachable else 'failed'}: {one_line(words)}")
        self.unreachable = unreachable


def is_loopback(number):
    return ipaddress.ip_address(number.split("%")[0]).is_loopback


def read_hosts(options):
    """Every host once, in the order of the file. All mistakes are told at once."""
    hosts, errors, text = {}, [], ""
    try:
        text = pathlib.Path(options.hosts).read_text()
    except OSError as error:
        fail(f"{options.hosts}: {error.strerror}", 2)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        host = hosts.setdefault(words[0], Host(words[0], options))
        settings = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        unknown = [word for word in words[1:] if word.split("=")[0] not in ("role", "slots", "addr", "dir")]
        role, slots = settings.get("role", ""), settings.get("slots", "1")
        if words[0].startswith("-") or unknown or role not in ROLES or not slots.isdecimal() or int(slots) < 1:
            errors.append(f"{number}: a line is HOST role=chief|ps|worker [slots=N] [addr=ADDRESS] [dir=FOLDER]")
        elif role in host.slots:
            errors.append(f"{number}: {words[0]} is {role} twice; say slots=N")
        else:
            host.slots[role] = int(slots)
        host.addr = settings.get("addr", host.addr)
        if "dir" in settings:  # ssh starts at home
            host.dir = settings["dir"].removeprefix("~/") if settings["dir"] != "~" else "."
        if host.dir.startswith("~"):
            errors.append(f"{number}: dir={host.dir}: write it out, or as ~/FOLDER")
    count = {role: sum(host.slots.get(role, 0) for host in hosts.values()) for role in ROLES}
    if not errors and (count["chief"] != 1 or not count["ps"] or not count["worker"]):
        errors.append(" there must be one chief, and a ps and a worker at least")
    if errors:
        fail("\n".join(f"{options.hosts}:{error}" for error in errors), 2)
    for host in hosts.values():
        host.dir += options.below
    return list(hosts.values())


def find_chief(hosts):
    return next(host for host in hosts if "chief" in host.slots)


def status_of(chief, text):
    try:
        return Status(text)
    except ValueError as error:
        raise HostError(chief, f"what it says is no status: {error}") from error


def pack(files):
    """As one archive, without their folders. Of a folder all that is in it, but for what Python compiled."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for file in files:
            tar.add(file.resolve(), file.name, filter=lambda it: None if "__pycache__" in it.name else it)
    return out.getvalue()


def on_all(hosts, work, report=complain):
    """Results of the hosts that answered; the others are named by `report`."""
    results = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        for host, future in [(host, pool.submit(work, host)) for host in hosts]:
            try:
                results[host] = future.result()
            except HostError as error:
                report(error)
    INTERRUPTS.check()  # which this thread alone may do: a script's own may have come too early
    return results

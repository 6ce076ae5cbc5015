"""One job on hosts, from its start to its end, with all that it leaves brought into a job folder here.

It may be killed at any point and called again: what runs on the hosts is left alone, and what is over is not started
again. Files in the job folder say how far it came, each made before what it stands for:

    cluster.begun    something may run on the hosts
    cluster.ended    nothing does, all is here; the exit code
"""

import contextlib
import errno
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time

from answers import TASK, endpoint_at, one_line, read_object, words_of
from hosts import UNREACHABLE, HostError, complain, find_chief, on_all
from install import Install
from interrupts import INTERRUPTS, Interrupted
from tasks import JobIsOver, end_tasks, mark_of, start_tasks, tasks_of

PAUSE = 1  # seconds between looks
LOOKS = 5  # between looks at the members
MOST_CHIEFS = 5  # that are started after the first one
LONGEST_PAUSE = 60  # before what is missing is started once more
LAST_TRIES = 3  # to end what hosts hold that do not answer
PIECE = 1 << 22  # bytes of a file in one look
NEWS = re.compile(rb"(\S+) ([0-9]+)\n")
CANCELLED = 143
MOST_NAMED = 10  # of what does not come from a host
PART = ".downpour.part"  # what a file that comes is called until it is whole
REMEDY = "copy them by hand, and give the next job a higher limit or less to write"

# How the job stands, then each file with what came since it was last looked at.
LOOK = """
alive chief && life=alive || life=dead
[ -e run/summary.json ] && end=over || end=open
echo "$life $end"
cd run 2> /dev/null || exit 0
for file in chief.json metrics.jsonl logs/*.log; do
  [ -f "$file" ] || continue
  case " $known " in *" $file="*) from=${known#*" $file="}; from=${from%% *} ;; *) from=0 ;; esac
  size=$(($(stat -c %s "$file") - from))
  [ "$size" -gt 0 ] || continue
  [ "$size" -le "$piece" ] || size=$piece
  echo "$file $size"
  tail -c "+$((from + 1))" "$file" | head -c "$size"
done
"""


# How many files and folders lie in the folder of results, and the bytes of its files.
MEASURE = """find results -mindepth 1 -printf '%y %s\\n' |
awk '$1 == "f" { bytes += $2 } END { printf "%d %.0f", NR, bytes }'"""
MEASURED = re.compile(r"([0-9]{1,18}) ([0-9]{1,18})")

# Of the job folder here: what a host does not get to write.
OURS = ("service", "keys", "keys.part", "trials", "chief.json", "cluster.begun", "cluster.ended",
        "cluster.ended.part")


def is_wanted(name):
    folder, _, file = name.rpartition("/")
    if folder == "logs":
        return file.endswith(".log") and bool(TASK.fullmatch(file.removesuffix(".log")))
    return name in ("chief.json", "metrics.jsonl")


def pieces(out):
    """(name, content) of what a host said after its first line, as far as it keeps to the form."""
    while head := NEWS.match(out):
        size = int(head[2])
        out = out[head.end():]
        if size > PIECE or len(out) < size:
            return
        yield head[1].decode(errors="replace"), out[:size]
        out = out[size:]


def is_within(member):
    """Whether it is a file or a folder below the one that its archive is of."""
    path = pathlib.PurePosixPath(member.name)
    is_path = "\0" not in member.name and not path.is_absolute() and ".." not in path.parts
    return is_path and (member.isfile() or member.isdir())


def is_result(member):
    """Whether a file or folder of the chief's job folder may come here, under its own name."""
    parts = pathlib.PurePosixPath(member.name).parts
    return is_within(member) and parts[:1] not in [(name,) for name in OURS] and parts != ("logs", "service.log")


def put(archive, member, folder):
    """Writes a member below the folder: whole or not at all, and through no link, since another host may have left one
    there. OSError where one is in the way."""
    path = pathlib.PurePosixPath(member.name)
    with contextlib.ExitStack() as stack:

        def enter(name, flags, below=None):
            found = os.open(name, os.O_RDONLY | os.O_DIRECTORY | flags, dir_fd=below)
            stack.callback(os.close, found)
            return found

        at = enter(folder, 0)
        for name in path.parts if member.isdir() else path.parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=at)
            at = enter(name, os.O_NOFOLLOW, at)
        if member.isdir():
            return
        if member.size > shutil.disk_usage(folder).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), member.name)
        with contextlib.suppress(FileNotFoundError):  # of a call that was killed
            os.unlink(PART, dir_fd=at)
        flags, mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777 if member.mode & 0o100 else 0o666
        try:
            with open(os.open(PART, flags, mode, dir_fd=at), "wb") as file:
                shutil.copyfileobj(archive.extractfile(member), file)
                file.flush()
                os.utime(file.fileno(), (member.mtime, member.mtime))
            os.replace(PART, path.name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            os.unlink(PART, dir_fd=at)
            raise


class TooMuch(HostError):
    """It stays where it is: trying again changes nothing."""


class Room:
    """What may still come into the folder of results, of all hosts together."""

    def __init__(self, options):
        self.options = options
        self.files, self.bytes = 0, 0  # that have come

    def check(self, host, files, size):
        """Whether these may come from that host, beside what has come."""
        files, size, gib = self.files + files, self.bytes + size, self.options.results_gib
        if files > self.options.results_files:
            raise TooMuch(host, f"with its results --job-dir has {files} files and folders, and --results-files allows "
                          f"{self.options.results_files}: {REMEDY}")  # fmt: skip
        if size > gib << 30:
            raise TooMuch(host, f"with its results --job-dir has {size / 2**30:.2f} GiB, and --results-gib allows "
                          f"{gib}: {REMEDY}")  # fmt: skip

    def take(self, files, size):
        self.files, self.bytes = self.files + files, self.bytes + size


def measured(host):
    """(files and folders, bytes) that a host has for the folder of results."""
    said = host.run(MEASURE)[1]
    found = MEASURED.fullmatch(said.strip())
    if not found:
        raise HostError(host, f"it does not tell how much there is in results: {one_line(said)}")
    return int(found[1]), int(found[2])


def write_whole(path, text):
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    os.replace(part, path)


class Follower:
    def __init__(self, hosts, options):
        self.hosts, self.options = hosts, options
        self.chief = find_chief(hosts)
        self.folder = options.job_dir
        self.begun = self.folder / "cluster.begun"
        self.counts = None  # of tasks, once they were started
        self.complaint = None
        self.missing = set()
        self.next_start, self.patience = 0, PAUSE

    # ---- What it takes to say a thing once, and to try until a host answers ------------------------------------------

    def report(self, error):
        if str(error) != self.complaint:
            complain(error)
        self.complaint = str(error)

    def insist(self, work):
        """What `work` returns, once the hosts that it needs answer."""
        while True:
            try:
                result = work()
                self.complaint = None
                return result
            except HostError as error:
                self.report(error)
            self.pause()

    def pause(self):
        threading.Event().wait(PAUSE)
        INTERRUPTS.check()

    @functools.cached_property
    def tool(self):
        return Install(self.options.install).files[0]

    # ---- The job ---------------------------------------------------------------------------------------------------

    def make_keys(self):
        """The job's own, unless some are given: hosts that reach each other are not all that reach them."""
        keys = self.folder / "keys"
        self.options.keys = self.options.keys or keys
        if self.options.keys != keys or keys.is_dir():
            return
        part = self.folder / "keys.part"
        shutil.rmtree(part, ignore_errors=True)
        made = subprocess.run([self.tool, "keys", "new", "--out", part], stdout=subprocess.DEVNULL)
        if made.returncode:
            sys.exit(made.returncode)
        os.replace(part, keys)

    def start(self):
        chief_at, place = start_tasks(self.hosts, self.options, {}, self.begun.touch)
        self.counts = {role: sum(task.startswith(f"{role}-") for task in place) for role in ("ps", "worker")}
        print(f"chief at {chief_at} on {self.chief.name}, {len(place) - 1} members", flush=True)

    def look(self):
        """How the job stands, as (whether its chief lives, whether it is over); what is new of its files is here."""
        known = {name: (self.folder / name).stat().st_size for name in self.names() if (self.folder / name).is_file()}
        words = " ".join(f"{name}={size}" for name, size in known.items())
        out = self.chief.run_raw(f"known=' {words}' piece={PIECE}\n{LOOK}")[1]
        first, _, rest = out.partition(b"\n")
        for name, content in pieces(rest):
            if name == "chief.json":
                self.keep_chief(content)
            elif is_wanted(name):
                path = self.folder / name
                path.parent.mkdir(exist_ok=True)
                with open(path, "ab") as file:
                    file.write(content)
        state = first.split()
        if len(state) != 2:
            words = one_line(first.decode(errors="replace"))
            raise HostError(self.chief, f"it does not tell how the job stands: {words}")
        return state[0] == b"alive", state[1] == b"over"

    def names(self):
        logs = [f"logs/{path.name}" for path in (self.folder / "logs").glob("*.log")]
        return ["metrics.jsonl", *filter(is_wanted, logs)]

    def keep_chief(self, content):
        """Where the job's status is to be had. Its host is left out, since this folder is not the chief's own."""
        try:
            said = read_object(content.decode(errors="replace"))
        except ValueError:
            return
        at = endpoint_at(self.chief.address(), words_of(said, "endpoint"))
        numbers = {key: said[key] for key in ("pid", "term") if type(said.get(key)) is int and said[key] >= 0}
        text = json.dumps({"endpoint": at, **numbers})
        file = self.folder / "chief.json"
        if at and (not file.is_file() or file.read_text() != text):
            write_whole(file, text)

    def look_at_members(self):
        """Whether some are missing now that were missing before."""
        if self.counts is None:
            return True  # this call does not know yet which there are
        answered = on_all(self.hosts, lambda host: host.run("running")[1].split(), self.report)
        running = {task for tasks in answered.values() for task in tasks}
        missing = {task for role in self.counts for task in tasks_of(role, self.counts)} - running
        again, self.missing = missing & self.missing, missing
        return bool(again)

    def start_again(self):
        """What is missing, unless that was tried a moment ago."""
        if time.monotonic() < self.next_start:
            return
        self.patience = min(2 * self.patience, LONGEST_PAUSE)
        self.next_start = time.monotonic() + self.patience
        self.missing = set()
        with contextlib.suppress(SystemExit, HostError):  # which has been told
            self.start()

    def train(self):
        """The job's exit code."""
        if self.options.end:
            return CANCELLED
        if not self.begun.exists():
            self.start()
        chiefs = looks = 0
        while True:
            lives, over = self.insist(self.look)
            if over and not lives:
                return 0
            if not lives:
                if chiefs == MOST_CHIEFS:
                    complain(f"the chief on {self.chief.name} ended {chiefs + 1} times and did not say why")
                    return 1
                chiefs += time.monotonic() >= self.next_start
                self.start_again()
            elif looks % LOOKS == 0 and not over and self.look_at_members():
                self.start_again()
            looks += 1
            self.pause()

    # ---- Its end -----------------------------------------------------------------------------------------------------

    def end(self):
        for attempt in range(LAST_TRIES):
            words, left, lost = end_tasks(self.hosts, self.report)
            if self.chief in lost:
                raise HostError(self.chief, "its chief may still run", unreachable=True)
            if words:
                print(words, end="", flush=True)
            if not left and not lost:
                return
            self.pause()
        names = ", ".join([*left, *(host.name for host in lost)])
        complain(f"what runs on {names} could not be ended: it ends by itself, once it has no chief for long enough")

    def fetch(self, host, what, options, is_wanted, into, check=lambda host, files, size: None):
        """The files of a host's folder that are wanted. Of an archive only files and folders are ever wanted. `check`
        is asked about each one before it is written. Returns how many came, and their bytes."""
        files = size = 0
        incomplete = f"its {what} did not come whole"
        command = host.command(f"tar -C {options} -cf - .")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
            try:
                with tarfile.open(fileobj=child.stdout, mode="r|") as archive:
                    for member in filter(is_wanted, archive):
                        files, size = files + 1, size + member.size
                        check(host, files, size)
                        put(archive, member, into)
            except (tarfile.TarError, OSError, ValueError, OverflowError) as error:
                child.kill()
                raise HostError(host, f"{incomplete}: {error}") from error
            except TooMuch:
                child.kill()
                raise
        if child.returncode:
            raise HostError(host, incomplete, child.returncode == UNREACHABLE)
        return files, size

    def bring_home(self):
        """All of the job folder on the chief's host."""
        if self.chief.run("test -d run", check=False)[0]:
            return
        skip = "--exclude=./keys --exclude=./chief.json --exclude='./*.lock'"
        self.fetch(self.chief, "job folder", f"run {skip}", is_result, self.folder)

    def bring_results(self):
        """What the workers' programs wrote into the folder of results. Where two hosts have the same file the newer one
        counts. A host keeps what did not come: all of it where it is more than may come."""
        room = Room(self.options)

        def is_newest(member):
            if not is_within(member):
                if member.name not in refused and len(refused) < MOST_NAMED:
                    print(f"{host.name}: {one_line(member.name)} in --job-dir is neither a file nor a folder, and does "
                          "not come here", flush=True)  # fmt: skip
                refused.add(member.name)
                return False
            there = self.options.results / member.name
            return member.isdir() or not os.path.lexists(there) or int(there.lstat().st_mtime) <= member.mtime

        def keeps(host):
            complain(f"what was written to --job-dir on {host.name} did not come to {self.options.results}: it stays "
                     f"there in {host.dir}/results")  # fmt: skip

        for host in [host for host in self.hosts if "worker" in host.slots]:
            refused = set()
            for attempt in range(LAST_TRIES):
                try:
                    if host.run("test -d results", check=False)[0] == 0:
                        if host.run("running")[1].split():
                            raise HostError(host, "something still runs there, and may write results")
                        room.check(host, *measured(host))
                        # What it sends is counted too: a host may have told less than it has.
                        came = self.fetch(host, "results", "results --hard-dereference", is_newest,
                                          self.options.results, room.check)  # fmt: skip
                        room.take(*came)
                        host.run("rm -rf results")
                    break
                except HostError as error:
                    self.report(error)
                    if isinstance(error, TooMuch):
                        keeps(host)
                        break
                self.pause()
            else:
                keeps(host)
            if len(refused) > MOST_NAMED:
                print(f"{host.name}: {len(refused) - MOST_NAMED} more in --job-dir do not come here", flush=True)
        mark_of(self.options).unlink(missing_ok=True)

    def succeeded(self):
        try:
            return read_object((self.folder / "summary.json").read_text()).get("state") == "SUCCEEDED"
        except (OSError, ValueError):
            return False

    def show_result(self):
        """As after `downpour run`; what went wrong has been told."""
        if self.succeeded():
            with contextlib.suppress(SystemExit):  # the programs are gone, which has been told
                subprocess.run([self.tool, "status", "--job-dir", self.folder], check=False)

    def clear(self):
        """The programs stay, for the next job. A host that does not answer, or whose results did not come, keeps its
        folder."""
        script = '[ -d results ] || { here=$PWD; cd ..; rm -rf "$here"; }'
        on_all(self.hosts, lambda host: host.run(script), lambda error: None)


def follow_to_end(hosts, options):
    follower = Follower(hosts, options)
    options.job_dir.mkdir(parents=True, exist_ok=True)
    ended = options.job_dir / "cluster.ended"
    if not ended.exists():
        try:
            follower.make_keys()
            code = follower.train()
        except JobIsOver:
            code = 0
        except Interrupted as interruption:
            INTERRUPTS.number = None  # a second signal ends this at once
            complain("the job is cancelled: its chief writes a last checkpoint, then all tasks end")
            code = 128 + interruption.args[0]
        except SystemExit as refusal:
            code = refusal.code or 1
        except HostError as error:
            complain(error)
            code = 1
        if INTERRUPTS.number:  # it also ended what this call was waiting for
            code, INTERRUPTS.number = 128 + INTERRUPTS.number, None
        if follower.begun.exists():
            follower.insist(follower.end)
            follower.insist(follower.bring_home)
            if options.results:
                follower.bring_results()
        write_whole(ended, str(0 if follower.succeeded() else code or 1))
    follower.clear()
    follower.show_result()
    return int(ended.read_text())

"""The virtual environment that a job's Python code runs in, where it says what it needs.

    enter(options, words, mode)    # returns if there is nothing to install

Its folder belongs to one version of the code and one interpreter, on this host and of this user. Where the code has
plain requirements alone it belongs to those, whatever else changes in the code. It holds

    lock        held by the process that installs
    made        the name of the attempt that is complete; written last, so that nothing half made is ever used
    attempt-*   the environment itself, with a copy of the code that it was built from

Environments do not move: programs in them name their place. So each attempt has a folder of its own, and a process
that still writes into one whose maker was killed does no harm.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import venv
from typing import TYPE_CHECKING, Callable, Iterator, Optional

from downpour.errors import TrainingError

if TYPE_CHECKING:
    from downpour.modes import Mode

ARCHIVES = "downpour_packages"  # beside the code: wheels, and packages that were unpacked (tools/cli/python_packages.h)
PROJECT_TABLE = re.compile(r"^\[(project|build-system|tool\.poetry)\b", re.MULTILINE)
PLAIN = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,. -]*\])?\s*([<>=!~;][^/\\]*)?", re.ASCII)  # name[extra]>=1,<2; markers
NAMES_OF_SETUP = {"name", "version", "packages", "py_modules", "description", "long_description", "author",
                  "author_email", "url", "license", "include_package_data", "zip_safe"}  # fmt: skip
COMPILED = {".c", ".cc", ".cpp", ".cxx", ".cu", ".pyx", ".rs"}
MOST_SECONDS = 1800  # that pip may take; DOWNPOUR_INSTALL_SECONDS says otherwise
KILLS = (signal.SIGKILL, signal.SIGTERM)
LINES_SHOWN = 3
LINE_BYTES = 110
# What pip says last of a package that fails is not about that package.
IDLE_WORDS = ("note:", "hint:", "[notice]", "[end of output]", "See above", "Encountered error", "WARNING:",
              "exit code:", "pip subprocess", "error: metadata-generation-failed",
              "error: subprocess-exited-with-error")  # fmt: skip

Tell = Callable[[str, str], None]  # what is done now, and what is waited for


def enter(options: argparse.Namespace, words: list[str], mode: Mode) -> None:
    """Becomes the interpreter of the environment, with `-m downpour.child` and these words."""
    needs = Needs(pathlib.Path(options.package), options.module.split(".")[0])
    if not needs.sources:
        return
    folder, requirements = pathlib.Path(options.environment), needs.plain_requirements()
    if requirements is not None:
        folder = folder.with_name("requirements")
    key = "\0".join((sys.executable, sys.prefix, sys.version, requirements or ""))
    home = pathlib.Path(f"{folder}-{hashlib.sha256(key.encode()).hexdigest()[:16]}")
    try:
        in_use = _in_use(home)
        place = _made(home, needs, mode.tell)
    except OSError as error:
        raise TrainingError(f"the packages of {needs} cannot be installed in {home}: {error.strerror}") from None
    scripts = str(place / "bin")
    os.environ.update(VIRTUAL_ENV=str(place), PATH=f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    for file in (*mode.files, in_use):
        os.set_inheritable(file, True)
    os.execv(f"{scripts}/python", [f"{scripts}/python", "-m", "downpour.child", *words])


class Needs:
    """What of the code is to be installed: `sources` as pip's arguments, relative to the folder of the code."""

    def __init__(self, package: pathlib.Path, top: str) -> None:
        self.package = package
        self.names: list[str] = []  # for people
        self.sources: list[str] = []
        for name in ("requirements.txt", f"{top}/requirements.txt"):
            if (package / name).is_file():
                self._add(name, "-r", name)
        if (name := _project_in(package)) and not _lacks_nothing(package, name):
            self._add(name, ".")
        for path in sorted((package / ARCHIVES).glob("*")):
            if path.suffix == ".whl" or _project_in(path):  # it is not imported from there
                self._add(path.name, f"./{ARCHIVES}/{path.name}")

    def _add(self, name: str, *sources: str) -> None:
        self.names.append(name)
        self.sources += sources

    def plain_requirements(self) -> Optional[str]:
        """The text of requirements that refer to nothing else of the code, if they are all there is."""
        if self.sources[::2].count("-r") * 2 != len(self.sources):
            return None
        texts = [(self.package / name).read_text(encoding="utf-8", errors="replace") for name in self.sources[1::2]]
        lines = [line.partition("#")[0].strip() for text in texts for line in text.splitlines()]
        return "\n".join(lines) if all(not line or PLAIN.fullmatch(line) for line in lines) else None

    def __str__(self) -> str:
        return ", ".join(self.names)


def _project_in(folder: pathlib.Path) -> Optional[str]:
    """The file that makes the folder a project for pip to install."""
    project, setup = folder / "pyproject.toml", folder / "setup.py"
    if project.is_file() and PROJECT_TABLE.search(project.read_text(encoding="utf-8", errors="replace")):
        return project.name
    return setup.name if setup.is_file() else None


def _lacks_nothing(folder: pathlib.Path, project: str) -> bool:
    """Of a folder that is imported from. What setuptools packed says beside its egg-info what it requires. Where there
    is none, as in what gcloud packs, setup.py itself must be seen to ask for nothing: an older setuptools leaves it out
    of PKG-INFO."""
    packed = [*folder.glob("*.egg-info/SOURCES.txt")]
    requires = any((file.parent / "requires.txt").is_file() for file in packed)
    told = folder / "PKG-INFO"
    if told.is_file():
        requires = requires or "\nRequires-Dist:" in "\n" + told.read_text(encoding="utf-8", errors="replace")
        requires = requires or not (packed or _asks_for_nothing(folder))
        packed.append(told)
    is_compiled = any(path.suffix in COMPILED for path in folder.rglob("*"))
    return project == "setup.py" and bool(packed) and not requires and not is_compiled


def _asks_for_nothing(folder: pathlib.Path) -> bool:
    """Whether setup.py imports setuptools, calls setup() with names alone, and does nothing else."""
    if (folder / "setup.cfg").is_file():
        return False
    try:
        parsed = ast.parse((folder / "setup.py").read_bytes())
    except (SyntaxError, ValueError):
        return False
    statements = [part for at in parsed.body for part in (at.body if isinstance(at, ast.If) else [at])]
    for at in statements:
        if isinstance(at, ast.ImportFrom) and at.module in ("setuptools", "distutils.core"):
            continue
        call = at.value if isinstance(at, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "setup":
            return False
        if call.args or any(given.arg not in NAMES_OF_SETUP for given in call.keywords):
            return False
    return True


def _in_use(home: pathlib.Path) -> int:
    """The folder, opened. Its lock keeps the cache (runtime/posix/code_cache.h) from removing it until it is closed:
    by this process, or by what it becomes."""
    while True:
        home.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            file = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(file, fcntl.LOCK_SH)
            os.utime(file)  # it is of use: the cache removes what was not for a month
            if os.fstat(file).st_nlink > 0:  # else it was removed a moment ago
                return file
            os.close(file)


def _made(home: pathlib.Path, needs: Needs, tell: Tell) -> pathlib.Path:
    """The environment, which may have to be made."""
    done = ("has the packages installed", "its Python code to call downpour.fit")
    with _locked(home / "lock", lambda: tell(f"waits until another process here has installed {needs}", "packages "
                                             "that another process of its host installs")) as waited:  # fmt: skip
        if place := _complete(home):
            if waited:
                tell(*done)
            return place
        for old in home.glob("attempt-*"):
            shutil.rmtree(old, ignore_errors=True)
        attempt = pathlib.Path(tempfile.mkdtemp(prefix="attempt-", dir=home))
        try:
            tell(f"installs the packages of {needs}", f"the packages of {needs} to be installed")
            place = _make(attempt, needs)
            os.sync()  # after a power failure half of it would pass for all
            (attempt / "made").write_text(attempt.name)
            os.replace(attempt / "made", home / "made")
        except BaseException:
            shutil.rmtree(attempt, ignore_errors=True)
            raise
        tell(*done)
        return place


def _complete(home: pathlib.Path) -> Optional[pathlib.Path]:
    try:
        place = home / (home / "made").read_text() / "venv"
    except OSError:
        return None
    return place if (place / "bin/python").exists() else None  # else its interpreter was removed since


@contextlib.contextmanager
def _locked(path: pathlib.Path, before_waiting: Callable[[], None]) -> Iterator[bool]:
    with open(path, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            waited = False
        except BlockingIOError:
            before_waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
            waited = True
        yield waited


def _make(attempt: pathlib.Path, needs: Needs) -> pathlib.Path:
    has_pip = importlib.util.find_spec("pip") is not None
    if not has_pip and importlib.util.find_spec("ensurepip") is None:
        raise TrainingError(f"{sys.executable} cannot install {needs}, since it has neither pip nor ensurepip: "
                            "install python3-venv, as by apt-get install python3-venv, or name another Python")
    place, source, scratch = attempt / "venv", attempt / "source", attempt / "tmp"
    venv.EnvBuilder(system_site_packages=True, with_pip=not has_pip, symlinks=True).create(place)
    python = str(place / "bin/python")
    _show_packages_of_this(place)
    shutil.copytree(needs.package, source)  # what is built writes beside its sources
    scratch.mkdir()
    pip = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *needs.sources]
    environment = {**os.environ, "TMPDIR": str(scratch), "VIRTUAL_ENV": str(place)}
    code, lines = _run(pip, source, environment)
    if -code in KILLS:  # by somebody else, which says nothing of the packages: this process ends likewise
        sys.stderr.write(f"downpour: pip was killed as it installed {needs}\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if code != 0:
        raise TrainingError(f"pip cannot install {needs}: {' | '.join(lines) or f'it ended with {code}'}")
    shutil.rmtree(scratch, ignore_errors=True)
    _check_own_version(python)
    return place


def _show_packages_of_this(place: pathlib.Path) -> None:
    """An environment made from within another one shows the packages of the system, but not of that one."""
    if sys.prefix == sys.base_prefix:
        return
    (packages,) = place.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in site.getsitepackages() if sys.prefix in folder]
    (packages / "_downpour_parent.pth").write_text("".join(lines))


def _run(command: list[str], folder: pathlib.Path, environment: dict[str, str]) -> tuple[int, list[str]]:
    """Its exit code, and the last lines that say something. All that it says goes to the error output."""
    most = _most_seconds()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", preexec_fn=_die_with_parent,
    )  # fmt: skip
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(most, end)
    timer.daemon = True
    timer.start()
    last: collections.deque[str] = collections.deque(maxlen=LINES_SHOWN)
    try:
        for line in process.stdout:
            sys.stderr.write(line)
            words = line.strip(" \t\n│╰─>×╭┌└")
            if words and not words.startswith(IDLE_WORDS):
                last.append(words[:LINE_BYTES])
        code = process.wait()
    finally:
        timer.cancel()
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    if is_late.is_set():
        return 1, [f"it took longer than {most:g} s, which DOWNPOUR_INSTALL_SECONDS may raise", *list(last)[-1:]]
    return code, list(last)


def _most_seconds() -> float:
    said = os.environ.get("DOWNPOUR_INSTALL_SECONDS", str(MOST_SECONDS))
    if not said.isascii() or not said.isdigit() or int(said) < 1:
        raise TrainingError(f"DOWNPOUR_INSTALL_SECONDS is {said!r}, but must be a whole number of 1 or more")
    return int(said)


def _die_with_parent() -> None:
    """Of pip, which has a group of its own: it ends with this process. Compilers that it has started may outlive it."""
    os.setpgid(0, 0)
    if PRCTL is not None:
        PRCTL(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _load_prctl() -> Optional[Callable[[int, int], int]]:
    try:
        import ctypes

        return ctypes.CDLL(None).prctl
    except (ImportError, AttributeError, OSError):
        return None  # pip then ends by itself


PRCTL = _load_prctl()  # before the fork: behind it nothing may be loaded


def _check_own_version(python: str) -> None:
    """A job that brings another release of this package would speak another language than its workers."""
    from downpour import __version__

    ask = [python, "-c", "import downpour; print(downpour.__version__)"]
    done = subprocess.run(ask, cwd="/", capture_output=True, text=True, errors="replace", check=False)
    found = done.stdout.strip()
    if found != __version__:
        raise TrainingError(f"with the job's packages the package downpour is of version {found or 'unknown'} and not "
                            f"{__version__}: leave it out of what the package requires")  # fmt: skip

"""What hosts are given: the programs, the keys of their roles, the job."""

import atexit
import functools
import hashlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from hosts import ROLES, HostError, complain, fail, pack

PROGRAMS = ("downpour", *(f"downpour-{role}" for role in ROLES))
# Only there where the programs were built with a CUDA toolkit, or with pyarrow; found beside them.
CUDA_MODULE = "downpour-cuda.so"
MODULES = {CUDA_MODULE: "tensor", "downpour-parquet.so": "data"}  # and where the build puts them
HAS_GPU = "test -e /proc/driver/nvidia/version"
PYTHON = pathlib.Path(__file__).resolve().parents[1] / "python"  # with the package that Python code imports
LIBRARY = re.compile(r"[A-Za-z0-9._+-]+")


class Install:
    """The programs as one archive, named by what is in it. `there`: the folder for it on a host, from the cluster's."""

    def __init__(self, folder, there=""):
        places = [folder, folder / "bin", folder / "tools", *(folder / role for role in ROLES)]
        self.files = []
        for program in PROGRAMS:
            found = next((place / program for place in places if (place / program).is_file()), None)
            if not found:
                fail(f"there is no {program} in {folder}: build it, or name another folder by --install", 2)
            self.files.append(found)
        prefix = folder.parent if folder.name == "bin" else folder
        installed = [*prefix.glob("lib*/downpour"), *prefix.glob("lib*/*/downpour")]
        for module, built in MODULES.items():
            found = [place / module for place in (folder, folder / built, *installed) if (place / module).is_file()]
            self.files += found[:1]
        content = [file.read_bytes() for file in (*self.files, *sorted(PYTHON.glob("*/*.py")))]
        self.files.append(PYTHON)
        self.digest = hashlib.sha256(b"".join(content)).hexdigest()[:16]
        self.folder = f"{there}install-{self.digest}"

    @functools.cached_property
    def archive(self):
        return pack(self.files)

    def packages_of(self, libraries):
        """The Debian packages that have these libraries on this machine."""
        command = ["dpkg-query", "-S", *(f"*/{name}" for name in libraries)]
        done = subprocess.run(command, capture_output=True, text=True)
        return sorted({line.split(":")[0] for line in done.stdout.splitlines()})

    def put_on(self, host):
        use = f"ln -sfn {self.folder} install"
        if host.run(f"test -d {self.folder} && {use}", check=False)[0]:
            part = f"{self.folder}.$$"
            move = f"mv -T {part} {self.folder} 2> /dev/null || rm -r {part}"  # another host may share the folder
            host.run(f"mkdir {part} && tar -xzf - -C {part} && {{ {move}; }} && {use}", self.archive)
        if missing := missing_libraries(host, PROGRAMS):
            packages = self.packages_of(missing)
            remedy = f"apt-get install {' '.join(packages)}" if packages else "which no package of this machine has"
            raise HostError(host, f"libraries are missing there ({', '.join(missing)}): {remedy}")
        if "worker" in host.slots and host.run(HAS_GPU, check=False)[0] == 0:
            self.say_what_keeps_from_gpus(host)

    def say_what_keeps_from_gpus(self, host):
        if CUDA_MODULE not in (file.name for file in self.files):
            lack = f"there is no {CUDA_MODULE} here: build with a CUDA toolkit"
        elif missing := missing_libraries(host, [CUDA_MODULE]):
            lack = f"there is no {', '.join(missing)} there: install the CUDA libraries of the release that built this"
        else:
            return
        complain(f"{host.name} has an NVIDIA driver, but its workers compute on the CPU, since {lack}")


def missing_libraries(host, programs):
    """Those that the host names and that have the name of one."""
    files = " ".join(f"install/{program}" for program in programs)
    said = host.run(f"ldd {files} | awk '/not found/ {{ print $1 }}' | sort -u")[1]
    return [name for name in said.split() if LIBRARY.fullmatch(name)]


def put_keys(host, folder, roles, there):
    """These roles' secrets and everybody's public keys; the chief's host may ask for the status."""
    roles = [*roles, *(["client"] if "chief" in roles else [])]
    files = [*sorted(folder.glob("*.public")), *(folder / f"{role}.secret" for role in roles)]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise HostError(host, f"there is no {', '.join(missing)}: make keys by `downpour keys new --out DIR`")
    unpack = f"tar -xzf - --no-same-owner --no-same-permissions -C {there}"
    host.run(f"umask 077; rm -rf {there}; mkdir {there} && {unpack}", pack(files))


def entries(spec, path=""):
    """(dotted key, value) of all that is no section."""
    for key, value in spec.items():
        if isinstance(value, dict):
            yield from entries(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


class Job:
    """The job as this machine reads it, with every path absolute and every override applied."""

    def __init__(self, install, options):
        tool = install.files[0]
        self.folder = None  # with the user's Python code, which is a part of the job
        words = [options.job, *(f"--set={pair}" for pair in options.set)]
        words += [f"--scale-tier={options.scale_tier}"] if options.scale_tier else []
        words += [f"--config={options.config}"] if options.config else []
        # A config may name a module. Of code without one the tool says that it has no meaning.
        if options.module_name or options.config or options.package_path or options.packages:
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="downpour-"))
            atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
            code = [f"--module-name={options.module_name}"] if options.module_name else []
            code += [f"--package-path={options.package_path}"] if options.package_path else []
            code += [f"--packages={package}" for package in options.packages]
            code += [f"--python={options.python}"] if options.python else []
            stage = [tool, "stage", *words, f"--job-dir={self.folder}", *code, "--", *options.args]
            staged = subprocess.run(stage, stdout=subprocess.PIPE, text=True)
            if staged.returncode:
                sys.exit(staged.returncode)
            words = [staged.stdout.strip()]
        said = subprocess.run([tool, "check", *words], stdout=subprocess.PIPE, text=True)
        if said.returncode:
            sys.exit(said.returncode)
        servers, workers = re.search(r": 1 chief, ([\d,]+) parameter servers?, ([\d,]+) workers?", said.stdout).groups()
        self.counts = {"ps": int(servers.replace(",", "")), "worker": int(workers.replace(",", ""))}
        self.show = [tool, "config", "show", "--cluster=none", "-o", "json"]
        self.text = subprocess.run([*self.show, *words], stdout=subprocess.PIPE, check=True).stdout
        self.spec = json.loads(self.text)
        if "variables" not in self.spec["model"]:
            self.folder = None  # no module was named
        own = self.folder and str(self.folder / "python/initial.safetensors")
        if own and self.spec["model"]["initializeFrom"] == own:  # what else is named the chief's host has by itself
            # On the chief's host it lies in the job folder, which no other task needs to see.
            self.spec["model"]["initializeFrom"] = "run/python/initial.safetensors"
            self.text = json.dumps(self.spec).encode()
            self.spec = self.read(self.text.decode())

    def read(self, text):
        """As `config show` of this release has it. ValueError, with every reason, if it cannot be read."""
        read = subprocess.run([*self.show, "/dev/stdin"], input=text, capture_output=True, text=True)
        if read.returncode:
            raise ValueError(read.stderr.strip().replace("/dev/stdin:", "").replace("\n", "; "))
        return json.loads(read.stdout)

    def differences(self, text):
        """Where another job is not this one. It is read likewise, so that what its release did not know has its
        default. ValueError as of `read`."""
        there, here = dict(entries(self.read(text))), dict(entries(self.spec))
        return [f"{key} ({json.dumps(there.get(key))} there, {json.dumps(here.get(key))} here)"
                for key in sorted({**there, **here}) if there.get(key) != here.get(key)]  # fmt: skip

    def put_on(self, host):
        if "chief" in host.slots and self.folder:
            host.run("mkdir -p run && tar -xzf - -C run", pack([self.folder / "python"]))
        if "chief" in host.slots:
            host.run("cat > job.json.part && mv job.json.part job.json", self.text)
        files = [path for pair in ("train", "eval") for path in self.spec["data"].get(pair, {}).values()]
        if "worker" not in host.slots:
            return
        missing = host.run(f'for file in {shlex.join(files)}; do [ -r "$file" ] || echo "$file"; done; true')[1]
        if missing:
            raise HostError(host, f"cannot read {', '.join(missing.splitlines())}, which its workers need")

"""A `downpour run` that is tried, and what its chief says of it meanwhile: for the programs that disturb one."""

import json
import subprocess


def draw_digits(tool, folder):
    subprocess.run([tool, "data", "digits", "--out", folder], check=True, stdout=subprocess.DEVNULL)


class TriedRun:
    def __init__(self, tool, job, job_dir, settings, *flags, args=(), **process):
        """`args`: of the user's module; `process`: as subprocess.Popen takes it."""
        self.tool, self.job_dir = tool, job_dir
        command = [tool, "run", job, "--job-dir", job_dir, *flags, *(f"--set={setting}" for setting in settings)]
        command += ["--", *args] if args else []
        self.process = subprocess.Popen(command, **process)

    def status(self):
        """As docs/STATUS.md has it; empty while nobody answers."""
        command = [self.tool, "status", "--job-dir", self.job_dir, "-o", "json"]
        said = subprocess.run(command, capture_output=True, text=True).stdout
        return json.loads(said) if said else {}

    def has_ended(self):
        return self.process.poll() is not None

    def wait(self):
        return self.process.wait()

    def end(self):
        """Leaves no cluster behind."""
        self.process.terminate()
        self.process.wait()

    def summary(self):
        return json.loads((self.job_dir / "summary.json").read_text())

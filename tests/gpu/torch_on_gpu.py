"""PyTorch models on a GPU that two workers share: one worker is killed, one loses its context; the other goes on.

    torch_on_gpu.py TOOL MODULES DIGITS RESULTS PYTHON [DEVICE]

TOOL is `downpour`, MODULES the folder that has mnist_cnn and lost_context, DIGITS the folder of `downpour data digits`,
PYTHON the interpreter that has torch, DEVICE cuda:0. On `cpu` no context can be lost, so only the kill is tried. Prints
how each job went, and exits with 1 where one did not go as it should.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

LONG = 120  # seconds; only where a hang ends


class Job:
    def __init__(self, tool, folder, name, package, python, settings, args):
        self.tool, self.folder = tool, folder / name
        file = folder / f"{name}.json"
        cluster = {"workerCount": 2, "parameterServerCount": 2}
        file.write_text(json.dumps({"name": name, "cluster": cluster, **settings}))
        self.log = (folder / f"{name}.log").open("w+")
        self.process = subprocess.Popen(
            [tool, "run", file, "--job-dir", self.folder, "--quiet", "--python", python, "--package-path", package,
             "--module-name", f"{package.name}.task", "--", *args],
            stdout=self.log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wait_until(self, holds):
        """The first status of which it holds; None where the job ended before."""
        asked = [self.tool, "watch", "--job-dir", self.folder, "-o", "json", "--interval", "0.05"]
        while self.process.poll() is None:  # until the chief has said where it is, there is nothing to watch
            with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watch:
                found = next((status for status in map(json.loads, watch.stdout) if holds(status)), None)
                watch.kill()
            if found:
                return found
        return None

    def finish(self):
        """What it left, once it is over."""
        try:
            code = self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "none: it hung"
        self.log.seek(0)
        summary = self.folder / "summary.json"
        if code != 0 or not summary.exists():
            raise SystemExit(f"{self.folder.name}: exit code {code}\n" + self.log.read()[-4000:])
        return json.loads(summary.read_text())


def pid_of(status, name):
    return next((task["pid"] for task in status.get("tasks", []) if task["name"] == name and "pid" in task), None)


def both_work(status):
    workers = [task for task in status.get("tasks", []) if task["name"].startswith("worker")]
    return sum(worker.get("step", 0) > 0 for worker in workers) == 2


def killed(tool, modules, digits, results, python, device):
    """Accuracy of a network whose worker-0 is killed in the middle."""
    job = Job(tool, results, "torch-killed", modules / "trainer", python,
              {"training": {"epochs": 5}, "checkpoint": {"every": "500ms"}},
              ["--data", str(digits), "--device", device])  # fmt: skip
    before = job.wait_until(both_work)
    if before is None:
        job.finish()
        raise SystemExit("torch-killed: ended before both workers did a step")
    os.kill(pid_of(before, "worker-0"), signal.SIGKILL)
    summary = job.finish()
    print("killed:", {key: summary[key] for key in ("state", "evalAccuracy", "examplesPerSecond", "elapsedSeconds")},
          f'{summary["workersLost"]} lost')  # fmt: skip
    for log in sorted((job.folder / "logs").glob("worker-*.log")):
        print(f"  {log.name}:", next((line for line in log.read_text().splitlines() if "torch " in line), "no device"))
    return summary["workersLost"] > 0 and summary["evalAccuracy"] >= 0.97


def lost(tool, modules, results, python):
    """What is said of a context that is lost, which must be one sentence."""
    mark = results / "context-lost"
    mark.unlink(missing_ok=True)
    job = Job(tool, results, "torch-lost", modules / "lost_context", python, {}, ["--mark", str(mark)])
    summary = job.finish()
    said = [failure["what"] for failure in summary["failures"]]
    print("lost context:", summary["state"], *said, sep="\n  ")
    return mark.exists() and len(said) == 1 and "\n" not in said[0] and "CUDA" in said[0]


def main():
    tool, modules, digits, results, python, *device = sys.argv[1:]
    device = device[0] if device else "cuda:0"
    modules, results = pathlib.Path(modules), pathlib.Path(results)
    results.mkdir(parents=True, exist_ok=True)
    well = [killed(tool, modules, digits, results, python, device)]
    if device != "cpu":
        well.append(lost(tool, modules, results, python))
    sys.exit(0 if all(well) else f"not as it should be: {well}")


if __name__ == "__main__":
    main()

"""What local steps save on slow links: a table of docs/research/slow_links.md.

    slow_link.py BUILD_DIR DATA_DIR [--workers 2] [--delay 20] [--mbps 100] [--epochs 1] [--steps 1,16] [KEY=VALUE ...]

DATA_DIR holds the four files of MNIST's names. Each worker reaches each server through a relay of its own. That holds
each piece of up to 64 KiB for so many milliseconds, and lets through so many megabits per second, each way; 0: any
number. Each line has the bytes between workers and servers for an example, both ways, and the examples/s, for so many
local steps; 0 is the job without them.
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/process"))


class Cluster(contextlib.ExitStack):
    """One run, as the process tests start theirs."""

    addCleanup = contextlib.ExitStack.callback

    def __init__(self, options, steps):
        super().__init__()
        self.options, self.relays = options, []
        self.folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory()))
        gz = "" if (options.data / "train-images-idx3-ubyte").exists() else ".gz"
        settings = {
            "cluster.workerCount": options.workers,
            "training.epochs": options.epochs,
            "training.evaluateEveryEpochs": 0,
            "training.localSteps": steps,
            "training.leaseBatches": max(16, steps),
            "checkpoint.every": "0s",
        }
        for key, name in (("train", "train"), ("eval", "t10k")):
            settings[f"data.{key}.images"] = options.data / f"{name}-images-idx3-ubyte{gz}"
            settings[f"data.{key}.labels"] = options.data / f"{name}-labels-idx1-ubyte{gz}"
        given = [f"{key}={value}" for key, value in settings.items()] + options.settings
        words = [word for setting in given for word in ("--set", setting)]
        asked = [cluster.TOOL, "check", ROOT / "deploy/jobs/mnist-mlp.yaml", "-o", "json", *words]
        code, text = cluster.Process(self, asked).finish()
        if code:
            sys.exit(text)
        self.job = json.loads(text)["job"]
        self.job_file = self.folder / "job.json"
        self.job_file.write_text(json.dumps(self.job))

    def run(self):
        """The summary of the job."""
        servers = self.job["cluster"]["parameterServerCount"]
        chief_port, *server_ports = (cluster.free_port() for _ in range(1 + servers))
        chief_at = f"127.0.0.1:{chief_port}"
        job_dir = self.folder / "run"
        chief = cluster.Process(
            self, [cluster.PROGRAMS["chief"], f"--job={self.job_file}", f"--job_dir={job_dir}", f"--listen={chief_at}"]
        )
        chief.wait_for_line("waits for its tasks at")
        for index, port in enumerate(server_ports):
            flags = [f"--chief={chief_at}", f"--index={index}", f"--listen=127.0.0.1:{port}"]
            cluster.Process(self, [cluster.PROGRAMS["ps"], *flags])
        for index in range(self.options.workers):
            command = [cluster.PROGRAMS["worker"], f"--chief={chief_at}", f"--index={index}", "--device=cpu"]
            cluster.Process(self, faults.routed({port: self.relay(port) for port in server_ports}, command))
        chief.child.wait()
        return json.loads((job_dir / "summary.json").read_text())

    def relay(self, port):
        link = links.Link(self, port)
        link.delay = self.options.delay / 1000
        if self.options.mbps:
            link.bytes_per_second = self.options.mbps * 1e6 / 8
        self.relays.append(link)
        return link.port


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("data", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--delay", type=float, default=20, metavar="MS")
    parser.add_argument("--mbps", type=float, default=100)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", default="1,16")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_intermixed_args()
    os.environ["DOWNPOUR_BUILD"] = str(options.build)
    global cluster, faults, links
    import cluster
    import faults
    import links

    print("| localSteps | bytes per example | examples/s | test accuracy, % |", "|---|---|---|---|", sep="\n")
    for steps in map(int, options.steps.split(",")):
        with Cluster(options, steps) as one:
            summary = one.run()
        moved = sum(sum(relay.moved.values()) for relay in one.relays)
        print(f"| {steps} | {moved / summary['samplesCommitted']:.0f} | {summary['examplesPerSecond']:.0f} | "
              f"{100 * summary['evalAccuracy']:.2f} |", flush=True)


if __name__ == "__main__":
    main()

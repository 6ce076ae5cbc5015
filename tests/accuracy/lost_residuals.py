"""What the residuals of `training.wire: bf16` cost when they are lost: a table of docs/research/slow_links.md.

    lost_residuals.py BUILD_DIR DATA_DIR [--workers 4] [--epochs 10] [--seeds 3] [--every 20] [KEY=VALUE ...]

DATA_DIR holds the four files of MNIST's names, gzipped or not. Each seed trains twice: undisturbed, and while a worker
drawn at random is killed whenever so many leases were committed. A killed worker loses its residuals and its work; its
work is done again, its residuals are not. The rows have the mean test accuracy, the smallest and the largest.
"""

import argparse
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/dev"))

from tried_run import TriedRun  # noqa: E402


def kill_workers(run, every, draw):
    kills = committed = 0
    while not run.has_ended():
        status = run.status()
        now = status.get("progress", {}).get("leasesCommitted", 0)
        alive = [task["pid"] for task in status.get("tasks", [])
                 if task["role"] == "worker" and task["state"] == "RUNNING"]
        if not alive or now < committed + every:
            continue
        committed = now
        try:
            os.kill(draw.choice(alive), signal.SIGKILL)
            kills += 1
        except ProcessLookupError:
            pass  # it had ended by itself
    return kills


def train(options, folder, seed, every):
    gz = "" if (options.data / "train-images-idx3-ubyte").exists() else ".gz"
    settings = [f"seed={seed}", f"cluster.workerCount={options.workers}", f"training.epochs={options.epochs}",
                "training.wire=bf16", *options.settings]
    for split, name in (("train", "train"), ("eval", "t10k")):
        for kind, dimensions in (("images", 3), ("labels", 1)):
            settings.append(f"data.{split}.{kind}={options.data}/{name}-{kind}-idx{dimensions}-ubyte{gz}")
    run = TriedRun(options.build / "tools/downpour", ROOT / "deploy/jobs/mnist-mlp.yaml",
                   folder / f"{seed}-{bool(every)}", settings, "--quiet")
    kills = kill_workers(run, every, random.Random(seed)) if every else 0
    if run.wait() != 0:
        sys.exit(f"seed {seed}: the job did not succeed")
    accuracy = 100 * run.summary()["evalAccuracy"]
    print(f"seed {seed}: {accuracy:.2f} %, {kills} kills", flush=True)
    return accuracy, kills


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every", type=int, default=20, metavar="LEASES")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_intermixed_args()
    options.build, options.data = options.build.resolve(), options.data.resolve()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, every in (("undisturbed", 0), ("workers killed", options.every)):
            runs = [train(options, pathlib.Path(folder), seed, every) for seed in range(1, options.seeds + 1)]
            accuracies = [accuracy for accuracy, _ in runs]
            rows.append(f"| {name} | {sum(kills for _, kills in runs)} | {statistics.mean(accuracies):.2f} "
                        f"[{min(accuracies):.2f}, {max(accuracies):.2f}] |")
    print("| | kills in all | test accuracy, % |", "|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()

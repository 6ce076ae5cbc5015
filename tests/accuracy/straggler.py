"""What one slow worker costs: the table "One slow worker" of docs/LEARNING.md.

    straggler.py BUILD_DIR DATA_DIR [--workers 8] [--slower 4] [--step 40] [--runs 3] [--epochs 2]

Steps take 40 ms, those of worker-0 four times that. The ideal is (W - 1 + 1/4) / W of what W workers without a slow
one train asynchronously. Each line has the speed as a share of it, median, smallest and largest, and the mean test
accuracy.
"""

import argparse
import pathlib
import statistics
import tempfile

import slow
from mnist import train

WAYS = {
    "async": [],
    "ssp, sspBound 3": ["training.consistency=ssp"],
    "sync": ["training.consistency=sync"],
    "sync, 1 backup": ["training.consistency=sync", "training.backupWorkers=1"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--slower", type=int, default=4)
    parser.add_argument("--step", type=int, default=40, metavar="MS")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    build, data = options.build.resolve(), options.data.resolve()

    def runs_of(settings, slower):
        with tempfile.TemporaryDirectory() as folder:
            where = pathlib.Path(folder)
            how = slow.workers(build, where, options.step, slower)
            more = [f"training.epochs={options.epochs}", "training.evaluateEveryEpochs=0", *settings]
            return [train(build, data, where, options.workers, seed, more, **how)
                    for seed in range(1, options.runs + 1)]

    equal = statistics.median(run["examplesPerSecond"] for run in runs_of([], 1))
    ideal = equal * (options.workers - 1 + 1 / options.slower) / options.workers
    print(f"{equal:.0f} examples/s with equal workers", flush=True)
    print("| consistency | share of the ideal speed | test accuracy, % |", "|---|---|---|", sep="\n")
    for name, settings in WAYS.items():
        runs = runs_of(settings, options.slower)
        shares = [run["examplesPerSecond"] / ideal for run in runs]
        accuracy = statistics.mean(100 * run.get("evalAccuracy", 0) for run in runs)
        print(f"| {name} | {statistics.median(shares):.2f} [{min(shares):.2f}, {max(shares):.2f}] | {accuracy:.2f} |",
              flush=True)


if __name__ == "__main__":
    main()

"""What one slow worker costs: the table "One slow worker" of docs/research/staleness.md.

    straggler.py BUILD_DIR DATA_DIR [--workers 8] [--slower 4] [--step 40] [--runs 3] [--epochs 2]
                 [--only async]...

Steps take 40 ms, those of worker-0 four times that. The ideal is (W - 1 + 1/4) / W of what W workers without a slow
one train asynchronously in the same round: each round runs every way once. Each line has the speed as a share of it,
median, smallest and largest, and the mean test accuracy.
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
    parser.add_argument("--only", action="append", choices=WAYS, help="may be given several times")
    options = parser.parse_args()
    build, data = options.build.resolve(), options.data.resolve()

    def run_of(settings, slower, seed):
        with tempfile.TemporaryDirectory() as folder:
            where = pathlib.Path(folder)
            how = slow.workers(build, where, options.step, slower)
            more = [f"training.epochs={options.epochs}", "training.evaluateEveryEpochs=0", *settings]
            return train(build, data, where, options.workers, seed, more, **how)

    ways = {name: WAYS[name] for name in options.only or WAYS}
    equal, shares, accuracies = [], {name: [] for name in ways}, {name: [] for name in ways}
    for seed in range(1, options.runs + 1):
        equal.append(run_of([], 1, seed)["examplesPerSecond"])
        ideal = equal[-1] * (options.workers - 1 + 1 / options.slower) / options.workers
        for name, settings in ways.items():
            run = run_of(settings, options.slower, seed)
            shares[name].append(run["examplesPerSecond"] / ideal)
            accuracies[name].append(100 * run.get("evalAccuracy", 0))
    print(f"{statistics.median(equal):.0f} [{min(equal):.0f}, {max(equal):.0f}] examples/s with equal workers")
    print("| consistency | share of the ideal speed | test accuracy, % |", "|---|---|---|", sep="\n")
    for name in ways:
        low, middle, high = min(shares[name]), statistics.median(shares[name]), max(shares[name])
        print(f"| {name} | {middle:.2f} [{low:.2f}, {high:.2f}] | {statistics.mean(accuracies[name]):.2f} |")


if __name__ == "__main__":
    main()

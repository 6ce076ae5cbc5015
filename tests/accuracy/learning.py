"""How the sample job learns with ever more workers: rows of docs/research/staleness.md.

    learning.py BUILD_DIR DATA_DIR [--workers 1,4,8,16] [--seeds 3] [--delay MS] [KEY=VALUE ...]

DATA_DIR holds the four files of MNIST's names, gzipped or not. Each row has the mean, the smallest and the largest test
accuracy over the seeds, and the mean and the 99th percentile of staleness. A run that failed counts as 0 %. With
--delay each step of W workers takes W times so many milliseconds, so that all of them fit on few cores.
"""

import argparse
import pathlib
import statistics
import tempfile

import slow
from mnist import train


def row(workers, runs):
    accuracies = [100 * run.get("evalAccuracy", 0) if run["state"] == "SUCCEEDED" else 0 for run in runs]
    staleness = statistics.mean(run["staleness"]["mean"] for run in runs)
    p99 = max(run["staleness"]["p99"] for run in runs)
    failed = sum(run["state"] != "SUCCEEDED" for run in runs)
    return (f"| {workers} | {statistics.mean(accuracies):.2f} [{min(accuracies):.2f}, {max(accuracies):.2f}] | "
            f"{staleness:.1f} | {p99} | {failed} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--workers", default="1,4,8,16")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--delay", type=int, default=0, metavar="MS", help="of a step, for each worker")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_intermixed_args()
    build, data = options.build.resolve(), options.data.resolve()
    rows = []
    for workers in map(int, options.workers.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            where = pathlib.Path(folder)
            how = slow.workers(build, where, options.delay * workers) if options.delay else {}
            runs = [train(build, data, where, workers, seed, options.settings, **how)
                    for seed in range(1, options.seeds + 1)]
        rows.append(row(workers, runs))
    print("| workers | test accuracy, % | mean staleness | p99 | failed |", "|---|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()

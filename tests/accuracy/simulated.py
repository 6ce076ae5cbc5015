"""How the sample job learns with more workers than there are cores: rows of docs/research/staleness.md.

    simulated.py BUILD_DIR DATA_DIR [--workers 1,16,64] [--rates 1] [--draws 1] [--jobs 1] [KEY=VALUE ...]

DATA_DIR holds the four files of MNIST's names, gzipped or not. With several --rates, which multiply the sample job's,
each number of workers is tuned: the last sixth of the training examples is left out and judges the rates, and the best
one is trained again on all of them. tests/sim/learning/learning_world.h says what is real and what is simulated.
"""

import argparse
import concurrent.futures
import gzip
import json
import pathlib
import statistics
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATE = 0.02  # of the sample job


def read_idx(data, name):
    packed = data / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (data / name).read_bytes()


def part(raw, dimensions, begin, end):
    sizes = struct.unpack(f">{dimensions}I", raw[4:4 + 4 * dimensions])
    each = 1
    for size in sizes[1:]:
        each *= size
    first = 4 + 4 * dimensions
    elements = raw[first + begin * each:first + end * each]
    return raw[:4] + struct.pack(f">{dimensions}I", end - begin, *sizes[1:]) + elements


def write_splits(data, folder):
    """train, test; and tune, validate: train in two parts."""
    for kind, dimensions in (("images", 3), ("labels", 1)):
        train, test = (read_idx(data, f"{split}-{kind}-idx{dimensions}-ubyte") for split in ("train", "t10k"))
        count = struct.unpack(">I", train[4:8])[0]
        kept = count - count // 6
        for name, raw in (("train", train), ("test", test), ("tune", part(train, dimensions, 0, kept)),
                          ("validate", part(train, dimensions, kept, count))):
            (folder / f"{name}-{kind}").write_bytes(raw)


def run(build, folder, workers, rate, draw, on, settings):
    train, judge = on
    words = [f"seed={draw}", f"cluster.workerCount={workers}", f"training.optimizer.learningRate={rate}",
             f"data.train.images={folder}/{train}-images", f"data.train.labels={folder}/{train}-labels",
             f"data.eval.images={folder}/{judge}-images", f"data.eval.labels={folder}/{judge}-labels", *settings]
    command = [build / "tests/sim/sim_learning", ROOT / "deploy/jobs/mnist-mlp.yaml", "--draw", str(draw)]
    for word in words:
        command += ["--set", word]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    summary = json.loads(done.stdout) if done.returncode == 0 else {"state": "FAILED"}
    accuracy = 100 * summary.get("evalAccuracy", 0) if summary["state"] == "SUCCEEDED" else 0
    print(f"workers {workers} rate {rate:g} draw {draw} on {train}: {summary['state']}, {accuracy:.2f} % of {judge}, "
          f"staleness {summary.get('staleness', {}).get('mean', 0):.1f} {done.stderr[-300:]}", flush=True)
    return accuracy, summary.get("staleness", {}).get("mean", 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--workers", default="1,16,64")
    parser.add_argument("--rates", default="1", help="that multiply the sample job's")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_intermixed_args()
    build = options.build.resolve()
    rates = [float(rate) * RATE for rate in options.rates.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        folder = pathlib.Path(name)
        write_splits(options.data.resolve(), folder)
        for workers in map(int, options.workers.split(",")):
            def all_of(rate, on, draws, workers=workers):
                return [pool.submit(run, build, folder, workers, rate, draw, on, options.settings)
                        for draw in range(1, draws + 1)]
            best = rates[0]
            if len(rates) > 1:
                tried = {rate: all_of(rate, ("tune", "validate"), 1) for rate in rates}
                best = max(rates, key=lambda rate: tried[rate][0].result()[0])
            ended = [future.result() for future in all_of(best, ("train", "test"), options.draws)]
            accuracies = [accuracy for accuracy, _ in ended]
            rows.append(f"| {workers} | {best:g} | {statistics.mean(accuracies):.2f} "
                        f"[{min(accuracies):.2f}, {max(accuracies):.2f}] | "
                        f"{statistics.mean(staleness for _, staleness in ended):.1f} |")
    print("| workers | rate | test accuracy, % | mean staleness |", "|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()

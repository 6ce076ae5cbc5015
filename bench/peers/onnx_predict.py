"""How many rows a second onnxruntime answers in process, of a model that `downpour export --format onnx` wrote.

    onnx_predict.py model.onnx [--runs N] [--seconds S] [--batches 1 64]

One thread, by its CPU time, on numbers from 0 to 255. Of the sample job's model it is to be held against
build/bench/bench_predict of the same minute.
"""

import argparse
import statistics
import time

import numpy
import onnxruntime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 64])
    options = parser.parse_args()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
    draw = numpy.random.default_rng(1)
    for rows in options.batches:
        batch = {
            one.name: draw.integers(0, 256, [rows, *one.shape[1:]]).astype("float32") for one in session.get_inputs()
        }
        rates = []
        for _ in range(options.runs):
            begun, calls = time.thread_time(), 0
            while time.thread_time() - begun < options.seconds:
                for _ in range(10):
                    session.run(None, batch)
                calls += 10
            rates.append(calls * rows / (time.thread_time() - begun))
        median = statistics.median(rates)
        print(f"onnxruntime {onnxruntime.__version__}, batches of {rows}: {median:.0f} rows/s "
              f"[{min(rates):.0f}, {max(rates):.0f}], {1e6 / median:.2f} us a row")  # fmt: skip


if __name__ == "__main__":
    main()

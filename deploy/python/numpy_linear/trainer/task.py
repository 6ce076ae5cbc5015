"""Linear regression in NumPy alone: the model is a dict of arrays, and the step computes its own gradients."""

import downpour
import numpy


def step(values, batch):
    inputs, targets = batch
    error = inputs @ values["weight"] + values["bias"] - targets
    gradients = {"weight": 2 * inputs.T @ error / len(error), "bias": 2 * error.mean()}
    return (error**2).mean(), gradients


def main():
    draws = numpy.random.default_rng(1)
    inputs = draws.standard_normal((5000, 10)).astype(numpy.float32)
    targets = inputs @ numpy.arange(10, dtype=numpy.float32) + 3 + 0.1 * draws.standard_normal(5000).astype("float32")
    downpour.fit(
        {"weight": numpy.zeros(10, numpy.float32), "bias": numpy.zeros((), numpy.float32)},
        train=(inputs[:4000], targets[:4000]),
        eval=(inputs[4000:], targets[4000:]),
        step=step,
        optimizer={"name": "sgd", "learningRate": 0.05},
        epochs=3,
        batch_size=32,
    )


if __name__ == "__main__":
    main()

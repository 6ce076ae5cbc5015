"""Draws a set whose labels a random network gives: the rows "teacher" of docs/research/staleness.md.

    teacher.py FOLDER [--seed 7]

Writes four files of MNIST's names and form: 60,000 and 10,000 images of 28 x 28 bytes and 10 classes. An image is a
linear picture of 16 hidden numbers with noise. A network of 64 units of tanh with random weights gives its class by the
hidden numbers, with some noise too. So no class has a shape of its own, as a digit has. Needs NumPy. One seed gives the
same bytes with the same NumPy.
"""

import argparse
import pathlib
import struct

import numpy as np

HIDDEN, UNITS, CLASSES, SIDE = 16, 64, 10, 28
SPLITS = {"train": slice(0, 60000), "t10k": slice(60000, 70000)}


def draw(seed):
    """All images as rows of bytes, and their labels."""
    rng = np.random.default_rng(seed)
    count, pixels = 70000, SIDE * SIDE
    hidden = rng.normal(size=(count, HIDDEN))
    picture = rng.normal(size=(HIDDEN, pixels)) / np.sqrt(HIDDEN)
    noise = rng.normal(size=(count, pixels))
    images = np.clip(90 + 45 * (hidden @ picture) + 20 * noise, 0, 255).astype(np.uint8)
    first = 1.3 * rng.normal(size=(HIDDEN, UNITS)) / np.sqrt(HIDDEN)
    second = rng.normal(size=(UNITS, CLASSES)) / np.sqrt(UNITS)
    scores = np.tanh(hidden @ first + 0.5 * rng.normal(size=UNITS)) @ second
    scores = (scores - scores.mean(0)) / scores.std(0)
    return images, (scores + 0.03 * rng.gumbel(size=scores.shape)).argmax(1).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    images, labels = draw(options.seed)
    for name, part in SPLITS.items():
        count = part.stop - part.start
        head = struct.pack(">IIII", 0x803, count, SIDE, SIDE)
        (options.folder / f"{name}-images-idx3-ubyte").write_bytes(head + images[part].tobytes())
        head = struct.pack(">II", 0x801, count)
        (options.folder / f"{name}-labels-idx1-ubyte").write_bytes(head + labels[part].tobytes())


if __name__ == "__main__":
    main()

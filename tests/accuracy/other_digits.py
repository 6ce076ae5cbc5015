"""Makes nine other sets of MNIST's digits, each harder in its own way: a table of docs/research/staleness.md.

    other_digits.py MNIST_DIR FOLDER [--seed 11]

MNIST_DIR holds the four files of MNIST, gzipped or not. FOLDER gets a folder for each set, with four files of the same
names: 20,000 and 5,000 images of 28 x 28 bytes. Needs NumPy. One seed gives the same bytes with the same NumPy.

    inverted      dark on bright: all inputs are far from 0
    shifted       up to 7 pixels each way, around the edges
    noisy         half as bright, beside noise
    mislabeled    three of ten labels of the training examples are drawn
    textured      before one of ten textures, shifted
    binary        each pixel is black or white
    sums          two digits side by side; the class is the last digit of their sum
    faint         a seventh of the contrast, on gray
    cloth         no digits: smooth pictures around six for each class
"""

import argparse
import gzip
import pathlib
import struct

import numpy as np

SIDE, CLASSES = 28, 10
COUNTS = {"train": 20000, "t10k": 5000}


def read(folder, split, kind, dimensions):
    path = folder / f"{split}-{kind}-idx{dimensions}-ubyte"
    raw = path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())
    sizes = struct.unpack(f">{dimensions}I", raw[4:4 + 4 * dimensions])
    return np.frombuffer(raw[4 + 4 * dimensions:], np.uint8).reshape(sizes)[:COUNTS[split]]


def write(folder, split, images, labels):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, values in (("images", images), ("labels", labels)):
        head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
        body = np.clip(values, 0, 255).astype(np.uint8).tobytes()
        (folder / f"{split}-{kind}-idx{values.ndim}-ubyte").write_bytes(head + body)


def shifted(rng, images):
    steps = rng.integers(-7, 8, (len(images), 2))
    return np.stack([np.roll(image, step, (0, 1)) for image, step in zip(images, steps)])


def textured(rng, images, textures):
    chosen = textures[rng.integers(len(textures), size=len(images))]
    behind = np.stack([np.roll(texture, rng.integers(0, SIDE, 2), (0, 1)) for texture in chosen])
    return np.where(images > 100, 255 - behind // 3, behind)


def summed(rng, images, labels):
    others = rng.permutation(len(images))
    pairs = np.concatenate([images[:, :, ::2], images[others][:, :, ::2]], axis=2)
    return pairs, (labels.astype(int) + labels[others]) % CLASSES


def smooth(rng, count):
    waves = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)[None]) * SIDE
    spectrum = np.fft.rfft2(rng.normal(size=(count, SIDE, SIDE))) / (1 + waves**2.2)
    pictures = np.fft.irfft2(spectrum, s=(SIDE, SIDE))
    return pictures / pictures.std((1, 2), keepdims=True)


def cloth(rng, count, shapes):
    labels = rng.integers(0, CLASSES, count)
    shape = shapes[labels * 6 + rng.integers(0, 6, count)]
    return 110 + 45 * (0.75 * shape + 0.9 * smooth(rng, count)) * (1 + 0.4 * smooth(rng, count)), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    textures, shapes = rng.integers(0, 256, (10, SIDE, SIDE)), smooth(rng, 6 * CLASSES)
    for split, count in COUNTS.items():
        images = read(options.mnist, split, "images", 3).astype(int)
        labels = read(options.mnist, split, "labels", 1)
        drawn = (rng.random(count) < 0.3) & (split == "train")  # the test is judged by true ones
        sets = {
            "inverted": (255 - images, labels),
            "shifted": (shifted(rng, images), labels),
            "noisy": (images * 0.5 + np.abs(rng.normal(size=images.shape)) * 90, labels),
            "mislabeled": (images, np.where(drawn, rng.integers(0, CLASSES, count), labels)),
            "textured": (textured(rng, images, textures), labels),
            "binary": ((images > 127) * 255, labels),
            "sums": summed(rng, images, labels),
            "faint": (100 + images * 0.15, labels),
            "cloth": cloth(rng, count, shapes),
        }
        for name, (pictures, classes) in sets.items():
            write(options.folder / name, split, pictures, classes)


if __name__ == "__main__":
    main()

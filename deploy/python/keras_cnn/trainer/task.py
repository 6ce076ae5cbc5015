"""The convolutional network of Keras's tutorials, on files of MNIST (IDX) or of CIFAR-10 (binary or Python version).

    python3 -m trainer.task --data FOLDER      by itself
"""

import argparse
import gzip
import pathlib
import pickle

import downpour.keras
import keras
import numpy


def read_idx(file):
    """The numbers of an IDX file, gzipped or not, in their shape."""
    data = file.read_bytes()
    data = gzip.decompress(data) if file.suffix == ".gz" else data
    shape = numpy.frombuffer(data, ">u4", data[3], offset=4)
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * data[3]).reshape(shape)


def read_cifar(file):
    """(images [N, 3, 32, 32], labels [N]) of one file of CIFAR-10.

    A pickle can run any code: open only files that you trust, or take those of the binary version.
    """
    if file.suffix == ".bin":
        rows = numpy.fromfile(file, numpy.uint8).reshape(-1, 1 + 3 * 32 * 32)
        return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]
    with file.open("rb") as opened:
        batch = pickle.load(opened, encoding="bytes")
    return numpy.asarray(batch[b"data"], numpy.uint8).reshape(-1, 3, 32, 32), numpy.asarray(batch[b"labels"])


def read(folder, part):
    """(images [N, height, width, channels] between 0 and 1, labels [N]) of the part "train" or "test"."""
    mnist = "train" if part == "train" else "t10k"
    if list(folder.glob(f"{mnist}-images-idx3-ubyte*")):
        images, labels = (read_idx(next(folder.glob(f"{mnist}-{kind}-idx*"))) for kind in ("images", "labels"))
        images = images[..., None]
    else:
        files = sorted(folder.glob("data_batch_*" if part == "train" else "test_batch*"))
        images, labels = map(numpy.concatenate, zip(*map(read_cifar, files)))
        images = images.transpose(0, 2, 3, 1)
    return images.astype("float32") / 255, labels.astype("int64")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the folder of the files")
    folder = parser.parse_args().data
    keras.utils.set_random_seed(1)
    (x, y), test = read(folder, "train"), read(folder, "test")
    model = keras.Sequential([
        keras.layers.Input(x.shape[1:]),
        keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu"), keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.001), loss, metrics=["accuracy"])
    downpour.keras.fit(model, x, y, validation_data=test, epochs=5, batch_size=64)


if __name__ == "__main__":
    main()

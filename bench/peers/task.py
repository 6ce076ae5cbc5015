"""What all peers share: the data, the settings and the marks; and, as a module of its own, Downpour's program."""

import os
import pathlib
import sys
import time
from typing import NamedTuple

import numpy

RATE, MOMENTUM = 0.01, 0.9
# Of the kernels, as torch has them.
SHAPES = {"conv0": (16, 1, 5, 5), "conv1": (32, 16, 5, 5), "dense0": (128, 512), "dense1": (10, 128)}


class Settings(NamedTuple):
    """The arguments of each program, in this order."""

    folder: pathlib.Path  # with train.npz and eval.npz, and where marks and results go
    batch: int
    epochs: int

    @staticmethod
    def read():
        folder, batch, epochs = sys.argv[1:4]
        return Settings(pathlib.Path(folder), int(batch), int(epochs))

    def data(self, part):
        """(images [N, 28, 28] of bytes, labels)"""
        with numpy.load(self.folder / f"{part}.npz") as file:
            return file["images"], file["labels"].astype(numpy.int64)


class Marks:
    """When this process has begun each batch: a line each in a file of its own."""

    def __init__(self, folder):
        (folder / "marks").mkdir(exist_ok=True)
        self.file = open(folder / "marks" / str(os.getpid()), "w", buffering=1)

    def add(self):
        self.file.write(f"{time.monotonic()}\n")


def torch_network():
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def torch_data(settings, part):
    import torch

    images, labels = settings.data(part)
    return torch.from_numpy(images).float().div_(255)[:, None], torch.from_numpy(labels)


def main():
    import downpour
    import torch

    settings = Settings.read()
    marks, model = Marks(settings.folder), torch_network()

    def loss(output, target):
        if torch.is_grad_enabled():  # else it is an evaluation
            marks.add()
        return torch.nn.functional.cross_entropy(output, target)

    downpour.fit(
        model, train=torch_data(settings, "train"), eval=torch_data(settings, "eval"), loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM),
        epochs=settings.epochs, batch_size=settings.batch,
    )  # fmt: skip


if __name__ == "__main__":
    main()

"""A convolutional network on images in IDX files, as MNIST has them: about 99 % right after 5 epochs.

    python3 -m trainer.task --data FOLDER      by itself
    downpour run --help                        as a job
"""

import argparse
import gzip
import pathlib

import downpour
import numpy
import torch
from torch import nn


def read_idx(file):
    """The numbers of an IDX file, gzipped or not, in their shape."""
    data = file.read_bytes()
    data = gzip.decompress(data) if file.suffix == ".gz" else data
    dimensions = data[3]
    shape = numpy.frombuffer(data, ">u4", dimensions, offset=4)
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


class Images(torch.utils.data.Dataset):
    """The images of a folder's pair of files that begin with `part`, and their labels."""

    def __init__(self, folder, part):
        images, labels = (next(folder.glob(f"{part}-{kind}-idx*")) for kind in ("images", "labels"))
        self.images, self.labels = read_idx(images), read_idx(labels)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index].astype("float32") / 255)[None], int(self.labels[index])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the folder of the four files")
    parser.add_argument("--device", default="cpu", help="where the network computes, such as cuda:0")
    options = parser.parse_args()
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10),
    ).to(options.device)  # fmt: skip
    downpour.fit(
        model,
        train=Images(options.data, "train"),
        eval=Images(options.data, "t10k"),
        loss=nn.CrossEntropyLoss(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        epochs=5,
        batch_size=64,
    )


if __name__ == "__main__":
    main()

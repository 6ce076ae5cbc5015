"""The model of bench/bench_clicks in PyTorch, one process: nn.Embedding(sparse=True) for each field, Adagrad.

    python clicks_torch.py FOLDER STEPS THREADS      prints examples/s and, after a whole epoch, the AUC
"""

import pathlib
import sys
import time

import numpy
import torch
from ranking import auc

BATCH, WIDTH, FIELDS = 512, 16, 26


def load(path):
    with numpy.load(path) as data:
        numbers = ((numpy.log1p(data["numbers"]) - 2)).astype(numpy.float32)
        return torch.from_numpy(numbers), torch.from_numpy(data["keys"]), torch.from_numpy(data["labels"])


class Net(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.rows = torch.nn.ModuleList(torch.nn.Embedding(size, WIDTH, sparse=True) for size in sizes)
        for table in self.rows:
            torch.nn.init.uniform_(table.weight, -0.05, 0.05)
        self.deep = torch.nn.Sequential(
            torch.nn.Linear(FIELDS * WIDTH + 13, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(),
            torch.nn.Linear(64, 2))  # fmt: skip

    def forward(self, numbers, keys):
        rows = [table(keys[:, field]) for field, table in enumerate(self.rows)]
        return self.deep(torch.cat([*rows, numbers], 1))


def main():
    folder, most, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    numbers, keys, labels = load(folder / "train.npz")
    net = Net([int(size) for size in numpy.load(folder / "sizes.npy")])
    adagrad = torch.optim.Adagrad
    optimizers = adagrad(net.rows.parameters(), lr=0.05), adagrad(net.deep.parameters(), lr=0.02)
    loss_of = torch.nn.CrossEntropyLoss()
    order = torch.randperm(len(labels))
    steps = min(most, len(labels) // BATCH)
    began = time.monotonic()
    for step in range(steps):
        batch = order[step * BATCH : (step + 1) * BATCH]
        loss = loss_of(net(numbers[batch], keys[batch]), labels[batch])
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    print(f"{steps * BATCH / (time.monotonic() - began):.0f}")
    if steps < len(labels) // BATCH:
        return
    numbers, keys, labels = load(folder / "eval.npz")
    with torch.no_grad():
        outputs = torch.cat([net(numbers[i : i + 4096], keys[i : i + 4096]) for i in range(0, len(labels), 4096)])
    print(f"{auc((outputs[:, 1] - outputs[:, 0]).numpy(), labels.numpy()):.4f}")


if __name__ == "__main__":
    main()

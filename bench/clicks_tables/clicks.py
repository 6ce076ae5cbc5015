"""The model of bench/bench_clicks in PyTorch with tables: a job's code, and the AUC of what it has trained.

    fields FOLDER [--hint]   26 layers, of a table each; with --hint their rows are there before the model is called
    once FOLDER [--hint]     one layer for all fields
    score FOLDER JOB_DIR     prints the AUC of a job of `once`
"""

import pathlib
import sys

import downpour
import numpy
import torch

BATCH, WIDTH, FIELDS, SPREAD = 512, 16, 26, 100_000_000


def load(path):
    with numpy.load(path) as data:
        numbers = (numpy.log1p(data["numbers"]) - 2).astype(numpy.float32)
        return numbers, data["keys"] + SPREAD * numpy.arange(FIELDS), data["labels"]


class Net(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        rule = {"name": "adagrad", "learningRate": 0.05}
        self.rows = torch.nn.ModuleList(downpour.Embedding(WIDTH, optimizer=rule) for _ in range(layers))
        self.deep = torch.nn.Sequential(
            torch.nn.Linear(FIELDS * WIDTH + 13, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(),
            torch.nn.Linear(64, 2))  # fmt: skip

    def forward(self, numbers, keys):
        parts = torch.chunk(keys, len(self.rows), 1)
        rows = [layer(part).flatten(1) for layer, part in zip(self.rows, parts)]
        return self.deep(torch.cat([*rows, numbers], 1))

    def keys(self, batch):
        return {f"rows.{i}": part for i, part in enumerate(torch.chunk(batch[1], len(self.rows), 1))}


def train(model, folder, has_hint):
    torch.manual_seed(1)
    downpour.fit(
        model,
        train=load(folder / "train.npz"),
        loss=torch.nn.CrossEntropyLoss(),
        optimizer=torch.optim.Adagrad(model.parameters(), lr=0.02),
        keys=model.keys if has_hint else None,
        epochs=1,
        batch_size=BATCH,
    )


def score(model, folder, job):
    sys.path.append(str(pathlib.Path(__file__).parent.parent / "peers"))
    from ranking import auc

    job.load_state_dict(model)
    model.rows[0].set_rows(*job.table("rows.0"))
    numbers, keys, labels = map(torch.from_numpy, load(folder / "eval.npz"))
    with torch.no_grad():
        outputs = torch.cat([model(numbers[i : i + 4096], keys[i : i + 4096]) for i in range(0, len(labels), 4096)])
    print(f"{auc((outputs[:, 1] - outputs[:, 0]).numpy(), labels.numpy()):.4f}")


def main():
    how, folder, *more = sys.argv[1:]
    model = Net(FIELDS if how == "fields" else 1)
    if how == "score":
        score(model, pathlib.Path(folder), downpour.Job(more[0]))
    else:
        train(model, pathlib.Path(folder), "--hint" in more)


if __name__ == "__main__":
    main()

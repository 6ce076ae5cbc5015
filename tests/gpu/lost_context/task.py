"""A linear model on a GPU whose context is lost once, in the middle of training: an index beyond the end of an array.

    downpour run ... --module-name lost_context.task -- --device cuda:0 --mark FILE
"""

import argparse
import os

import downpour
import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--mark", required=True, help="made by the process that loses its context, so that one does")
    options = parser.parse_args()
    torch.manual_seed(1)
    inputs = torch.randn(4000, 20)
    model = torch.nn.Linear(20, 2).to(options.device)
    steps = 0

    def loss(output, target):
        nonlocal steps
        steps += 1
        if steps == 20 and claim(options.mark):
            output[:, torch.full((1,), 1 << 20, device=output.device)].sum().item()
        return torch.nn.functional.cross_entropy(output, target)

    downpour.fit(
        model,
        train=(inputs, (inputs.sum(1) > 0).long()),
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        epochs=10,
        batch_size=32,
    )


def claim(mark):
    """Whether this process is the first one here."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main()

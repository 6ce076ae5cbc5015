"""A small residual network with batch norm (He et al., CVPR 2016) on coloured shapes that it draws itself."""

import downpour
import numpy
import torch
from torch import nn

SIZE = 16  # pixels, in each direction
CLASSES = 4  # of shapes: a disk, a ring, a square and a cross


class Shapes(torch.utils.data.Dataset):
    """Shapes of any colour, place and size on a noisy ground of another colour. An image follows from its number."""

    def __init__(self, first, count):
        self.first, self.count = first, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        draws = numpy.random.default_rng(self.first + index)
        kind, size = int(draws.integers(CLASSES)), draws.uniform(3, 5)
        y, x = numpy.mgrid[:SIZE, :SIZE] - draws.uniform(5, SIZE - 6, (2, 1, 1))
        far, near = numpy.maximum(abs(x), abs(y)), numpy.minimum(abs(x), abs(y))
        radius = numpy.hypot(x, y)
        mask = [radius < size, abs(radius - size) < 1, far < 0.9 * size, (far < size) & (near < 1)][kind]
        ground, colour = draws.uniform(-1, 1, (2, 3, 1, 1))
        image = numpy.where(mask, colour, ground) + 0.1 * draws.standard_normal((3, SIZE, SIZE))
        return torch.from_numpy(image.astype("float32")), kind


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.last_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        inner = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.last_norm(self.second(inner)) + self.shortcut(x))


def accuracy_of_crosses(output, target):
    """How many of the crosses are found, and of all else are told from them."""
    return ((output.argmax(1) == 3) == (target == 3)).float().mean()


def main():
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        Block(8, 8), Block(8, 16, 2), Block(16, 32, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES),
    )  # fmt: skip
    # As usual: no weight decay for biases and for batch norm.
    decayed = [value for value in model.parameters() if value.ndim > 1]
    others = [value for value in model.parameters() if value.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], lr=0.003)
    downpour.fit(
        model,
        train=Shapes(0, 4000),
        eval=Shapes(10**6, 1000),
        loss=nn.CrossEntropyLoss(),
        metrics={"crosses": accuracy_of_crosses},
        optimizer=optimizer,
        epochs=4,
        batch_size=32,
    )


if __name__ == "__main__":
    main()

"""ResNet-20 for small images (He et al., CVPR 2016, section 4.2), on gratings of 10 classes that it draws itself.

    python3 -m trainer.task --examples 2000       by itself
"""

import argparse
import math

import downpour
import torch
from torch import nn

SIZE, CLASSES = 32, 10


class Gratings(torch.utils.data.Dataset):
    """Waves on three channels in noise. A class is a direction and the channels' shifts; all else is by chance."""

    def __init__(self, first, count):
        self.first, self.count = first, count
        self.y, self.x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        draws = torch.Generator().manual_seed(self.first + index)
        label = int(torch.randint(CLASSES, (), generator=draws))
        length, begin = (2 * math.pi * value for value in torch.rand(2, generator=draws))
        angle = math.pi * (label % 5) / 5
        along = (self.x * math.cos(angle) + self.y * math.sin(angle)) * (0.5 + length / 10) + begin
        shift = math.pi / 2 if label < 5 else 0
        image = torch.stack([torch.sin(along + channel * shift) for channel in range(3)])
        return image + 0.5 * torch.randn(3, SIZE, SIZE, generator=draws), label


class Block(nn.Module):
    """Two convolutions beside a shortcut without parameters (option A): every other pixel, and zeros for new maps."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.stride, self.new_maps = outputs // inputs, outputs - inputs
        self.convolution1 = nn.Conv2d(inputs, outputs, 3, self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.convolution2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        inner = torch.relu(self.norm1(self.convolution1(x)))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        shortcut = nn.functional.pad(shortcut, (0, 0, 0, 0, self.new_maps // 2, self.new_maps // 2))
        return torch.relu(self.norm2(self.convolution2(inner)) + shortcut)


def resnet20():
    blocks = [Block(inputs, outputs) for inputs, outputs in
              ((16, 16), (16, 16), (16, 16), (16, 32), (32, 32), (32, 32), (32, 64), (64, 64), (64, 64))]  # fmt: skip
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES),
    )  # fmt: skip
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=10000, help="of training")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    model = resnet20()
    downpour.fit(
        model,
        train=Gratings(0, arguments.examples),
        eval=Gratings(10**6, 500),
        loss=nn.CrossEntropyLoss(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4),
        epochs=3,
        batch_size=32,
    )


if __name__ == "__main__":
    main()

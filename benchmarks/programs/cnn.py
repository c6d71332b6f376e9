"""A residual network as a user would write it, in plain torch.

After the networks for small images of He et al. (Deep Residual Learning, 2015, section 4.2,
arXiv:1512.03385), with group normalization (Wu and He, 2018, arXiv:1803.08494), whose statistics
are those of a sample: so the loss does not depend on how many systems share a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

COLOURS, GROUPS = 3, 32


@dataclass(frozen=True, kw_only=True)
class CnnShape:
    """Sizes of a model and of its batch.

    Attributes:
        width: Channels of the first stage; each further stage has twice as many, at half the size.
        stages: Stages.
        depth: Blocks of two convolutions in a stage.
        batch_size: Images in a step, over all systems.
        image_size: Height and width of an image in pixels.
        num_classes: Different labels.
    """

    width: int = 64
    stages: int = 3
    depth: int = 2
    batch_size: int = 16
    image_size: int = 32
    num_classes: int = 10

    @property
    def name(self) -> str:
        """A name for files and tables, as in `cnn-d64-s3-l2-b16x32-c10`."""
        batch = f"b{self.batch_size}x{self.image_size}"
        return f"cnn-d{self.width}-s{self.stages}-l{self.depth}-{batch}-c{self.num_classes}"

    @property
    def units_a_step(self) -> int:
        """What throughput counts, in a step: images."""
        return self.batch_size

    @property
    def num_parameters(self) -> int:
        """Parameters, rounded up to two square convolutions in each block."""
        by_stage = [(self.width << stage) ** 2 for stage in range(self.stages)]
        return 2 * 9 * self.depth * sum(by_stage)

    @property
    def activation_bytes(self) -> int:
        """Estimated bytes of a step's activations in float32: eight images of each block."""
        pixels = [
            (self.image_size >> stage) ** 2 * (self.width << stage) for stage in range(self.stages)
        ]
        return 4 * 8 * self.batch_size * self.depth * sum(pixels)


class Block(nn.Module):
    """Two convolutions with a residual connection.

    Args:
        given: Channels before.
        width: Channels behind.
        stride: Of the first convolution, in pixels.
    """

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(given, width, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(GROUPS, width), nn.GroupNorm(GROUPS, width)
        self.shortcut = (
            None if given == width else nn.Conv2d(given, width, 1, stride=stride, bias=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activations after this block."""
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + (x if self.shortcut is None else self.shortcut(x)))


class Cnn(nn.Module):
    """Classify images."""

    def __init__(self, shape: CnnShape) -> None:
        super().__init__()
        self.stem = nn.Conv2d(COLOURS, shape.width, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(GROUPS, shape.width)
        blocks = []
        width = shape.width
        for stage in range(shape.stages):
            for number in range(shape.depth):
                is_smaller = stage > 0 and number == 0
                given, width = width, shape.width << stage
                blocks.append(Block(given, width, 2 if is_smaller else 1))
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(width, shape.num_classes)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss in nats per image."""
        x = F.relu(self.norm(self.stem(images)))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x.mean((2, 3))), labels.long())


def batches(shape: CnnShape, count: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Return batches of random images and labels."""
    generator = torch.Generator().manual_seed(seed)
    size = (COLOURS, shape.image_size, shape.image_size)
    images = torch.randn((count, shape.batch_size, *size), generator=generator)
    drawn = (count, shape.batch_size)
    labels = torch.randint(shape.num_classes, drawn, generator=generator, dtype=torch.int32)
    return [
        {"images": x.contiguous(), "labels": y.contiguous()}
        for x, y in zip(images, labels, strict=True)
    ]

"""ResNet-18, as its paper has it but for the first layer, which suits small pictures; trained by SGD with momentum."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from stackproof.project.offers import USUAL, Offer
from stackproof.workloads import inputs
from stackproof.workloads.base import Batch, Evaluation, Job, Recipe, Units, Workload
from stackproof.workloads.training import counted

# samples, pixels, width of the first stage
SIZES = {"tiny": (8, 32, 8), "full": (64, 224, 64)}


class Block(nn.Module):
    """Two convolutions around a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(before, after, 3, stride), _convolution(after, after, 3, 1)
        self.shortcut = nn.Identity() if before == after else _convolution(before, after, 1, stride)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return (pictures, after, height, width)."""
        return functional.relu(self.second(functional.relu(self.first(given))) + self.shortcut(given))


def _convolution(before: int, after: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after))


def resnet18(width: int, classes: int) -> nn.Sequential:
    """Return the network for grey pictures."""
    widths = [width, width, 2 * width, 4 * width, 8 * width]
    stages = [
        nn.Sequential(Block(before, after, 1 + (before != after)), Block(after, after, 1))
        for before, after in pairwise(widths)
    ]
    stem = [_convolution(1, width, 3, 1), nn.ReLU()]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, classes))


class _Job(Job):
    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        """Return the logits and the mean cross-entropy."""
        logits = model(batch["images"])
        return logits, functional.cross_entropy(logits, batch["labels"])

    @property
    def units(self) -> Units:
        """Pictures and counted FLOPs."""
        images = self.batches[0]["images"]
        return Units(len(images), 0, counted(self.model, images))


class ResNet(Workload):
    """Shapes in grey; it also takes part where pictures are in channels-last order."""

    name = "resnet18"
    offer = Offer(parts=(*USUAL, "channels-last", "optimiser"), title="ResNet-18 on shapes")

    def assemble(self, recipe: Recipe) -> Job:
        """Build it on the CPU, then move and cast it."""
        samples, pixels, width = SIZES[recipe.preset]
        model = resnet18(width, len(inputs.FORMS)).to(recipe.device, recipe.dtype)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
        images, labels = inputs.classification(recipe.seed, samples * recipe.scale, pixels)
        given = torch.from_numpy(images).to(torch.float32) / 255
        batch = {"images": recipe.share(given), "labels": recipe.share(torch.from_numpy(labels))}
        return _Job(recipe, model, optimiser, [batch])


WORKLOADS = (ResNet(),)

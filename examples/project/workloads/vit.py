"""A small vision transformer that tells four shapes apart: what a model of your own looks like to stackproof."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from stackproof.workloads import inputs
from stackproof.workloads.base import Batch, Evaluation, Job, Recipe, Units, Workload
from stackproof.workloads.training import counted

CLASSES = len(inputs.FORMS)


@dataclass(frozen=True)
class Size:
    """A preset: `tiny` takes seconds on two cores and is held against float64, `full` is what you train."""

    samples: int
    pixels: int
    patch: int
    width: int
    depth: int
    heads: int


SIZES = {"tiny": Size(8, 16, 4, 32, 2, 4), "full": Size(64, 224, 16, 384, 12, 6)}


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a normalisation and around a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return (pictures, places, width) of (pictures, places, width)."""
        pictures, places, width = given.shape
        parts = self.queries_keys_values(self.before(given)).view(pictures, places, 3, self.heads, -1)
        attended = functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4).unbind(0))
        given = given + self.out(attended.transpose(1, 2).reshape(pictures, places, width))
        after: torch.Tensor = given + self.down(functional.gelu(self.up(self.between(given))))
        return after


class VisionTransformer(nn.Module):
    """Patches, learned places, blocks, and a linear layer over the mean."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, size.width, size.patch, stride=size.patch)
        self.places = nn.Parameter(0.02 * torch.randn((size.pixels // size.patch) ** 2, size.width))
        self.blocks = nn.Sequential(*(Block(size.width, size.heads) for _ in range(size.depth)))
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (pictures, classes) of (pictures, 1, pixels, pixels)."""
        places = self.patches(images).flatten(2).transpose(1, 2) + self.places
        logits: torch.Tensor = self.head(self.norm(self.blocks(places)).mean(1))
        return logits


class _Job(Job):
    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        """Return the logits and the mean cross-entropy."""
        logits = model(batch["images"])
        return logits, functional.cross_entropy(logits, batch["labels"])

    @property
    def units(self) -> Units:
        """What one step is worth: pictures, no tokens, and FLOPs that torch counts."""
        images = self.batches[0]["images"]
        return Units(len(images), 0, counted(self.model, images))


class SmallViT(Workload):
    """Squares, circles and the like, in grey."""

    name = "vit"

    def assemble(self, recipe: Recipe) -> Job:
        """Build it in float32 on the CPU, where torch's generator was seeded, and only then move and cast it."""
        size = SIZES[recipe.preset]
        model = VisionTransformer(size).to(recipe.device, recipe.dtype)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
        images, labels = inputs.classification(recipe.seed, size.samples * recipe.scale, size.pixels)
        pixels = torch.from_numpy(images).to(torch.float32) / 255
        batch = {"images": recipe.share(pixels), "labels": recipe.share(torch.from_numpy(labels))}
        return _Job(recipe, model, optimiser, [batch])


WORKLOADS = (SmallViT(),)

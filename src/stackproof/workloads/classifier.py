"""A small classifier in pure torch: the workload on which data parallelism must agree to the last bits.

No batch normalisation (its statistics are those of a rank's part, not of the global batch) and a mean over
equal parts: so the mean of the ranks' gradients *is* the gradient of the global batch.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from stackproof.workloads import inputs
from stackproof.workloads.base import Batch, Evaluation, Job, Preset, Recipe, Units, Workload
from stackproof.workloads.training import counted
from stackproof.workloads.weights import reset

_SIZE = 16  # pixels a side
_SAMPLES: dict[Preset, int] = {"tiny": 32, "full": 256}
_WIDTH: dict[Preset, int] = {"tiny": 16, "full": 64}


class _Job(Job):
    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        logits = model(batch["images"])
        return logits, functional.cross_entropy(logits, batch["labels"])

    @property
    def units(self) -> Units:
        images = self.batches[0]["images"]
        return Units(len(images), 0, counted(self.model, images))


class Classifier(Workload):
    """Four kinds of shapes, 16 x 16 grey pixels; two strided convolutions and a linear layer."""

    name = "classifier"

    def assemble(self, recipe: Recipe) -> Job:
        model = _network(_WIDTH[recipe.preset])
        reset(model, recipe.seed)
        model.to(recipe.device, recipe.dtype)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return _Job(recipe, model, optimiser, [_batch(recipe)])


def _network(width: int) -> nn.Module:
    flat = 2 * width * (_SIZE // 4) ** 2
    network = nn.Sequential(
        nn.Conv2d(1, width, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(flat, len(inputs.FORMS)),
    )
    for name, vector in network.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(vector)
    return network


def _batch(recipe: Recipe) -> Batch:
    samples = _SAMPLES[recipe.preset]
    images, labels = inputs.classification(recipe.seed, samples * recipe.scale, _SIZE)
    mine = recipe.part(samples)
    pixels = torch.from_numpy(images[mine.start : mine.stop]).to(torch.float32) / 255
    return {"images": pixels.to(recipe.dtype), "labels": torch.from_numpy(labels[mine.start : mine.stop])}


WORKLOADS = (Classifier(),)

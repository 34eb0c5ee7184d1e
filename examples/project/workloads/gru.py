"""A recurrent network: two layers of gated recurrent units that foretell the next number of noisy waves."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from stackproof.workloads.base import Batch, Evaluation, Job, Recipe, Units, Workload

# sequences, length, features, width
SIZES = {"tiny": (8, 20, 3, 24), "full": (64, 256, 16, 512)}
LAYERS = 2


class Foreteller(nn.Module):
    """Recurrent layers and a linear one."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.memory = nn.GRU(features, width, num_layers=LAYERS, batch_first=True)
        self.head = nn.Linear(width, features)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        """Return (sequences, length, features): what comes next at each place."""
        foretold: torch.Tensor = self.head(self.memory(waves)[0])
        return foretold


class _Job(Job):
    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        """Return what is foretold, and the mean square of what is off."""
        foretold = model(batch["waves"][:, :-1])
        return foretold, functional.mse_loss(foretold, batch["waves"][:, 1:].to(foretold.dtype))

    @property
    def units(self) -> Units:
        """Sequences, and FLOPs by hand: torch's counter does not look into recurrent layers."""
        waves = self.batches[0]["waves"]
        matrices = sum(one.numel() for one in self.model.parameters() if one.dim() > 1)
        return Units(len(waves), 0, 6 * matrices * len(waves) * (waves.shape[1] - 1))


class Gru(Workload):
    """Sines of drawn frequencies, with noise."""

    name = "gru"

    def assemble(self, recipe: Recipe) -> Job:
        """Build it on the CPU, then move and cast it."""
        samples, length, features, width = SIZES[recipe.preset]
        model = Foreteller(features, width).to(recipe.device, recipe.dtype)
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        generator = torch.Generator().manual_seed(recipe.seed)
        pitch = 0.1 + torch.rand(samples * recipe.scale, 1, features, generator=generator)
        waves = torch.sin(pitch * torch.arange(length).view(1, -1, 1))
        waves += 0.05 * torch.randn(waves.shape, generator=generator)
        return _Job(recipe, model, optimiser, [{"waves": recipe.share(waves)}])


WORKLOADS = (Gru(),)

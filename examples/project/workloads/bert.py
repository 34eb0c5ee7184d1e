"""A BERT-like encoder that guesses masked tokens: token and position embeddings, post-normalised layers, queries, keys and values apart."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from stackproof.workloads.base import Batch, Evaluation, Job, Recipe, Units, Workload
from stackproof.workloads.training import counted

# sequences, length, vocabulary, width, depth, heads
SIZES = {"tiny": (6, 24, 97, 32, 2, 4), "full": (32, 512, 30522, 768, 12, 12)}
MASK = 0


class Layer(nn.Module):
    """Attention, then a feed-forward layer, each followed by a normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return (sequences, length, width) of the same."""
        split = [
            one(given).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.query, self.key, self.value)
        ]
        attended = functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
        given = self.first(given + self.out(attended))
        after: torch.Tensor = self.second(given + self.down(functional.gelu(self.up(given))))
        return after


class Encoder(nn.Module):
    """The whole model; logits come from the token embedding, turned round."""

    def __init__(self, length: int, vocabulary: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits (sequences, length, vocabulary) of token numbers (sequences, length)."""
        places = self.places(torch.arange(tokens.shape[1], device=tokens.device))
        hidden = self.norm(self.tokens(tokens) + places)
        for layer in self.layers:
            hidden = layer(hidden)
        return functional.linear(hidden, self.tokens.weight, self.bias)


class _Job(Job):
    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        """Return all logits, and the mean cross-entropy where tokens were masked."""
        logits = model(batch["tokens"])
        hidden = batch["tokens"] == MASK
        return logits, functional.cross_entropy(logits[hidden], batch["labels"][hidden])

    @property
    def units(self) -> Units:
        """Sequences, tokens and counted FLOPs."""
        tokens = self.batches[0]["tokens"]
        return Units(len(tokens), tokens.numel(), counted(self.model, tokens))


class Bert(Workload):
    """Arithmetic progressions, a token of each eight masked."""

    name = "bert"

    def assemble(self, recipe: Recipe) -> Job:
        """Build it on the CPU, then move and cast it."""
        samples, length, vocabulary, width, depth, heads = SIZES[recipe.preset]
        model = Encoder(length, vocabulary, width, depth, heads).to(recipe.device, recipe.dtype)
        optimiser = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
        generator = torch.Generator().manual_seed(recipe.seed)
        start = torch.randint(1, vocabulary, (samples * recipe.scale, 1), generator=generator)
        labels = 1 + (start + torch.arange(length)) % (vocabulary - 1)
        tokens = labels.clone()
        tokens[:, 3::8] = MASK
        return _Job(recipe, model, optimiser, [{"tokens": recipe.share(tokens), "labels": recipe.share(labels)}])


WORKLOADS = (Bert(),)

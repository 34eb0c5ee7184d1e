"""Loading: seeded pictures through a `DataLoader` with worker processes, onto the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from stackproof.record.checks import require
from stackproof.workloads import inputs
from stackproof.workloads.work import Setting, Work

_DRAWN = 16
"""Different pictures that are drawn; the set repeats them, each with its number in a pixel."""
_SEED = 5


class PictureFiles(Dataset[torch.Tensor]):
    """Pictures (3, size, size) in 0..1: every second one is mirrored, as augmentation would."""

    def __init__(self, count: int, size: int) -> None:
        images, _ = inputs.classification(_SEED, min(count, _DRAWN), size)
        self._images, self._count = torch.from_numpy(images).expand(-1, 3, size, size), count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        image = self._images[index % len(self._images)]
        made = (image.flip(-1) if index % 2 else image).to(torch.float32).div_(255)
        made[0, 0, 0] = index / self._count
        return made


@dataclass(frozen=True)
class _Parameters:
    size: int
    batch: int
    workers: int
    batches: int
    pinned: bool


class Loading(Work):
    """An epoch from the loader onto the device: single batches come in bursts, whose median says nothing of the rate.

    Every epoch has an order that no epoch had; its batches are kept, and each picture is held by its bits and its place in the order.
    """

    dtype = "float32"
    most_runs = 1

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self.device = setting.device
        self._pictures = PictureFiles(row.batch * row.batches, row.size)
        options: dict[str, Any] = (
            {"multiprocessing_context": "spawn", "persistent_workers": True} if row.workers else {}
        )
        self._order = list(range(len(self._pictures)))  # of the next epoch
        self._sums = torch.cat([_sums(one[None]) for one in (self._pictures[at] for at in range(len(self._pictures)))])
        self._kept: list[torch.Tensor] = []
        self.worth = {"sample": float(len(self._pictures))}
        self.proof = f"an epoch of {len(self._pictures)} pictures arrived in order and unchanged"
        self._loader = DataLoader(
            self._pictures, row.batch, sampler=self._order, num_workers=row.workers, pin_memory=row.pinned, **options
        )

    def begin(self, runs: int) -> None:  # noqa: ARG002 - a block is one epoch
        """Draw an order."""
        self._order[:] = torch.randperm(len(self._order)).tolist()
        self._kept = []

    def run(self) -> None:
        """Wait for each batch of an epoch and queue its copy; all are kept."""
        self._kept = [batch.to(self.device.torch, non_blocking=True) for batch in self._loader]

    def verify(self, runs: int) -> None:
        """Hold every picture of the last epoch."""
        seen = sum(map(len, self._kept))
        require(bool(runs) and seen == len(self._pictures), f"an epoch gave {seen} pictures of {len(self._pictures)}")
        tensor, wanted = torch.cat([_sums(result) for result in self._kept]), self._sums[self._order]
        wrong = int((tensor != wanted).sum())
        require(not wrong, f"{wrong} pictures of an epoch are not what the data set holds at their place in its order")

    def close(self) -> None:
        """Let the workers end."""
        shutdown = getattr(self._loader._iterator, "_shutdown_workers", None)
        if shutdown is not None:
            shutdown()


def _sums(batch: torch.Tensor) -> torch.Tensor:
    """Return a checksum of each picture's bits, each by its place, modulo 2**64: exact on every device."""
    words = batch.flatten(1).contiguous().view(torch.int32).to(torch.int64)
    places = torch.arange(words.shape[1], dtype=torch.int64, device=batch.device)
    return words.mul_(places.mul_(0x1E3779B97F4A7C15).bitwise_or_(1)).sum(1).cpu()


KINDS = {"loading": Loading}

"""Data loading as training does it: workers that augment pictures, batches that are copied to the device.

The data set lives here because a worker that is spawned imports it by name.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads import inputs
from stackproof.workloads.copies import checksum
from stackproof.workloads.work import Setting, Work

_DRAWN = 16
"""Different pictures that are drawn; the set repeats them."""
_SEED = 5


class PictureFiles(Dataset[torch.Tensor]):
    """PictureFiles (3, size, size) in 0..1: every second one is mirrored, as augmentation would."""

    def __init__(self, count: int, size: int) -> None:
        images, _ = inputs.classification(_SEED, min(count, _DRAWN), size)
        self._images, self._count = torch.from_numpy(images).expand(-1, 3, size, size), count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        image = self._images[index % len(self._images)]
        return (image.flip(-1) if index % 2 else image).to(torch.float32).div_(255)


@dataclass(frozen=True)
class _Parameters:
    size: int
    batch: int
    workers: int
    batches: int
    pinned: bool


class Loading(Work):
    """An epoch from the loader onto the device: single batches come in bursts, whose median says nothing of the rate."""

    dtype = "float32"

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self._batch, workers = row.batch, row.workers
        self.device = setting.device
        self._pictures = PictureFiles(row.batch * row.batches, row.size)
        options: dict[str, Any] = {"multiprocessing_context": "spawn", "persistent_workers": True} if workers else {}
        self._chosen, self._sums = 0, dict[int, int]()
        self._loader = DataLoader(self._pictures, self._batch, num_workers=workers, pin_memory=row.pinned, **options)

    @property
    def worth(self) -> Mapping[str, float]:
        """The pictures of an epoch."""
        return {"sample": float(len(self._pictures))}

    def run(self) -> None:
        """Wait for each batch of an epoch and queue its copy; the last, and one chosen at random, are kept for the checks."""
        self._seen = 0
        for batch in self._loader:
            self._last = batch.to(self.device.torch, non_blocking=True)
            if self._seen == self._chosen:
                self._kept = self._last
            self._seen += 1

    def prove(self) -> str:
        """An epoch's batches hold the data set's pictures, in order."""
        seen = 0
        for number, batch in enumerate(self._loader):
            arrived = batch.to(self.device.torch, non_blocking=True)
            expected = torch.stack([self._pictures[seen + place] for place in range(len(arrived))])
            require(torch.equal(arrived.cpu(), expected), f"batch {number} is not what the data set holds")
            self._sums[number] = _sum(expected)
            seen += len(arrived)
        require(seen == len(self._pictures), f"an epoch gave {seen} pictures of {len(self._pictures)}")
        return f"an epoch of {seen} pictures arrived in order and unchanged"

    def verify(self) -> None:
        """The last epoch had all of its batches; the last of them, and the one that chance picked, hold what they should."""
        require(self._seen == len(self._sums), f"a timed epoch gave {self._seen} batches of {len(self._sums)}")
        self._require_batch(self._chosen, self._kept)
        self._require_batch(self._seen - 1, self._last)

    def poison_output(self) -> None:
        """Choose another batch at random to be checked."""
        self._chosen = random.randrange(len(self._sums))

    def begin_spot_check(self) -> bool:
        """Choose a batch of the next epoch at random to be checked."""
        self.poison_output()
        return True

    def end_spot_check(self) -> None:
        """Verify that batch, and the last."""
        self.verify()

    def conclude(self) -> Mapping[str, Figure]:
        """Look at the last epoch, and at every batch of one more."""
        self.verify()
        for number, batch in enumerate(self._loader):
            self._require_batch(number, batch.to(self.device.torch, non_blocking=True))
        return {}

    def _require_batch(self, number: int, arrived: torch.Tensor) -> None:
        require(_sum(arrived) == self._sums[number], f"batch {number} is not what the data set holds")

    def close(self) -> None:
        """Let the workers end."""
        shutdown = getattr(self._loader._iterator, "_shutdown_workers", None)
        if shutdown is not None:
            shutdown()


def _sum(batch: torch.Tensor) -> int:
    """Return a checksum of a batch's bits, each by its place."""
    return checksum(batch.flatten())


KINDS = {"loading": Loading}

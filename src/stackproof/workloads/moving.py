"""Data on their way: copies within the device and between it and the host, and pictures through a `DataLoader` with worker processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch.utils.data import DataLoader, Dataset

from stackproof.base.toml import OneOf
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.workloads import inputs
from stackproof.workloads.work import Setting, Work

_MIB = 1 << 20
_RING = 3
_MOST_BYTES = 4 << 30
"""For the targets of a block over the link, each of which receives one copy, and as many for its sources."""
_MOST_TARGETS = 8
_PAGE = 512
"""Numbers of 64 bits. To hold every byte of every copy on the host took 8 % of the time that the copies had."""

_PlaceName = Annotated[str, OneOf(("host", "pinned", "device"))]


@dataclass(frozen=True)
class _Parameters:
    mib: int
    source: _PlaceName
    target: _PlaceName


class Copy(Work):
    """One block copied into another; `source` and `target` are "host", "pinned" or "device".

    Within the device the bytes read and the bytes written both count (as STREAM counts, https://www.cs.virginia.edu/stream/ref.html);
    between host and device each byte crosses the link once and counts once.

    Before each block all that it will copy is written anew, a pattern under a word that no copy had: what somebody kept is never right.
    Within one place the block before is filled from the one behind, around a ring of three, where one word is the other's complement: a
    copy that is left out or cut loses one of the two for good. Over a link each copy of a block has a source and a target of its own.
    """

    dtype = "uint8"

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self._size, self.device = row.mib * _MIB, setting.device
        self._ring = row.source == row.target
        self.most_runs = Work.most_runs if self._ring else max(1, min(_MOST_TARGETS, _MOST_BYTES // self._size))
        # The period is no power of two, so that a block in the wrong place shows.
        pattern = torch.arange(251, dtype=torch.uint8).repeat(self._size // 251 + 1)[: self._size].view(torch.int64)

        def blocks(place: str, count: int) -> list[torch.Tensor]:
            return [_PLACES[place](self._size, setting.device) for _ in range(count)]

        self.sources = blocks(row.source, _RING if self._ring else self.most_runs)
        self.targets = self.sources if self._ring else blocks(row.target, self.most_runs)
        self._patterns = [pattern.to(block.device) for block in (self.sources[0], self.targets[0])]
        self._word = self._turn = 0
        self.facts = {"memory": "device" if self._ring else "link"}
        self.worth = {"GB": (2 if self._ring else 1) * self._size / 1e9}
        self.proof = f"{self._size} bytes arrived unchanged"

    def begin(self, runs: int, compared: bool = True) -> None:  # noqa: ARG002 - nothing may recur, whoever looks
        first, self._word, self._turn = self._word + 1, self._word + runs, 0
        words = [(first + number) * 0x1E3779B97F4A7C15 % (1 << 63) for number in range(runs)]
        self._words = [~words[0], words[0], ~words[0]] if self._ring else words
        for source, word in zip(self.sources, self._words, strict=False):
            torch.bitwise_xor(self._patterns[0], word, out=source.view(torch.int64))

    def run(self) -> torch.Tensor:
        turn, self._turn = self._turn, self._turn + 1
        source = self.sources[(turn + self._ring) % len(self.sources)]
        return self.targets[turn % len(self.targets)].copy_(source, non_blocking=True)

    def verify(self, runs: int) -> None:
        """Hold what was written last and, around a ring, the block that was not: they differ in every bit.

        Over a link every copy of a block is held at each page, and one that chance picks at every byte.
        """
        self.device.synchronize()
        words = list(self._words)
        for turn in range(runs if self._ring else 0):
            words[turn % _RING] = words[(turn + 1) % _RING]
        written = sorted({(runs - 1) % _RING, (runs + 1) % _RING}) if self._ring else range(runs)
        whole = random.choice(written)
        for target in written:
            step = 1 if self._ring or target == whole else _PAGE
            found = self.targets[target].view(torch.int64)[::step].bitwise_xor_(words[target])
            same = torch.equal(found, self._patterns[1][::step])
            require(same, f"a copy of {self._size} bytes changed some of them, or one of {runs} was not made")


_PLACES: Mapping[str, Callable[[int, Device], torch.Tensor]] = {
    "host": lambda size, _: torch.zeros(size, dtype=torch.uint8),
    "pinned": lambda size, _: torch.zeros(size, dtype=torch.uint8).pin_memory(),
    "device": lambda size, device: torch.zeros(size, dtype=torch.uint8, device=device.torch),
}
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
class _Epoch:
    size: int
    batch: int
    workers: int
    batches: int
    pinned: bool


class Loading(Work):
    """An epoch from the loader onto the device: single batches come in bursts, whose median says nothing of the rate.

    Every epoch has an order that no epoch had; its batches are kept, and each picture is held by the number that it bears at its place in
    the order; in epochs that are compared, by all its bits.
    """

    dtype = "float32"
    most_runs = 1

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Epoch)
        self.device = setting.device
        self._pictures = PictureFiles(row.batch * row.batches, row.size)
        options: dict[str, Any] = (
            {"multiprocessing_context": "spawn", "persistent_workers": True} if row.workers else {}
        )
        self._order = list(range(len(self._pictures)))  # of the next epoch
        self._sums = torch.cat([_sums(self._pictures[at][None]) for at in range(len(self._pictures))])
        self._kept: list[torch.Tensor] = []
        self.worth = {"sample": float(len(self._pictures))}
        self.proof = f"an epoch of {len(self._pictures)} pictures arrived in order and unchanged"
        self._loader = DataLoader(
            self._pictures, row.batch, sampler=self._order, num_workers=row.workers, pin_memory=row.pinned, **options
        )

    def begin(self, runs: int, compared: bool = True) -> None:  # noqa: ARG002 - a block is one epoch
        if self._kept:  # of an epoch that may not have been compared
            numbers = torch.cat([batch[:, 0, 0, 0] for batch in self._kept]).cpu() * len(self._pictures)
            right = torch.equal(numbers.round().long(), torch.tensor(self._order))
            require(right, "the pictures of an epoch are not those of its order")
        self._order[:] = torch.randperm(len(self._order)).tolist()
        self._kept = []

    def run(self) -> None:
        self._kept = [batch.to(self.device.torch, non_blocking=True) for batch in self._loader]

    def verify(self, runs: int) -> None:
        seen = sum(map(len, self._kept))
        require(bool(runs) and seen == len(self._pictures), f"an epoch gave {seen} pictures of {len(self._pictures)}")
        tensor, expected = torch.cat([_sums(result) for result in self._kept]), self._sums[self._order]
        wrong = int((tensor != expected).sum())
        require(not wrong, f"{wrong} pictures of an epoch are not what the data set holds at their place in its order")

    def close(self) -> None:
        shutdown = getattr(self._loader._iterator, "_shutdown_workers", None)
        if shutdown is not None:
            shutdown()


def _sums(batch: torch.Tensor) -> torch.Tensor:
    """Return a checksum of each picture's bits, each by its place, modulo 2**64: exact on every device."""
    words = batch.flatten(1).contiguous().view(torch.int32).to(torch.int64)
    places = torch.arange(words.shape[1], dtype=torch.int64, device=batch.device)
    return words.mul_(places.mul_(0x1E3779B97F4A7C15).bitwise_or_(1)).sum(1).cpu()


KINDS = {"copy": Copy, "loading": Loading}

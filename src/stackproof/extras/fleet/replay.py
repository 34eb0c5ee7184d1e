"""The replay: the same products again and again, cold and hot, each digested on the card and held against the first of its kind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from stackproof.api.device import Device
from stackproof.api.record import Check, Figure, Verdict
from stackproof.extras.fleet import kernels
from stackproof.extras.fleet.demanded import REPLAY, coverage_id
from stackproof.extras.fleet.rules import BLOCK, FIRST, ReplayRow, ReplaySize

_MOST_S = 60.0


@dataclass(frozen=True)
class ReplayKind:
    """One kernel in one dtype with one pattern of values."""

    kernel: str
    dtype: str
    pattern: str
    size: ReplaySize

    @property
    def name(self) -> str:
        """How it is called in a record."""
        return f"{self.kernel}-{self.dtype}"


@dataclass
class ReplayTold:
    """What was seen of one kind: digests of the right products, how many there were, how many were odd, cold and hot."""

    kind: ReplayKind
    first: torch.Tensor
    products: int = 0
    cold: int = 0
    hot: int = 0
    seconds: float = 0.0

    @property
    def odd(self) -> int:
        """Products that gave something else."""
        return self.cold + self.hot

    def check(self, card: int) -> Check:
        """Return it as a row of the record."""
        told = digest(self.first)
        figures: dict[str, Figure] = {
            "card": str(card), "digest": told, "products": self.products, "odd": self.odd, "odd cold": self.cold, "odd hot": self.hot,
        }  # fmt: skip
        said = f"{self.products} products, all {told}"
        if self.odd:
            said = f"{self.odd} of {self.products} equal products differ ({self.cold} cold, {self.hot} hot); the others are {told}"
        return Check(
            f"{REPLAY}/{card}::{self.kind.name}[{self.kind.pattern}]", Verdict.FAILED if self.odd else Verdict.PASSED, said, self.seconds,
            figures, group=REPLAY, subject=self.kind.name, aspect=self.kind.pattern,
        )  # fmt: skip


def kinds(rows: Sequence[ReplayRow], profile: str, precisions: Sequence[str]) -> Iterator[ReplayKind]:
    """Yield every kind that a stack can compute."""
    for row in rows:
        for dtype in row.dtypes:
            if dtype in precisions:
                for pattern in kernels.PATTERNS:
                    yield ReplayKind(row.kernel, dtype, pattern, getattr(row, profile))


@contextmanager
def deterministic() -> Iterator[None]:
    """Let torch choose kernels that give the same bits each time, and never by which was fastest."""
    before, tuned = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    try:
        with torch.no_grad():
            yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.backends.cudnn.benchmark = tuned


def cold(kind: ReplayKind, device: Device, seconds: float) -> ReplayTold:
    """Replay a kind for the first time."""
    factors = _factors(kind, device)
    compute = kernels.KERNELS[kind.kernel].compute
    one, other, third = (kernels.digests(compute(*factors)) for _ in range(FIRST))
    first = torch.where(one == other, one, third)  # one of the first may itself be the odd one
    odd = sum(int((each != first).sum()) for each in (one, other, third))
    told = ReplayTold(kind, first, FIRST * len(first))
    told.cold = odd + _replayed(told, factors, device, seconds)
    return told


def hot(told: ReplayTold, device: Device, seconds: float) -> None:
    """Replay a kind again, with factors made anew, against what it gave at first."""
    told.hot += _replayed(told, _factors(told.kind, device), device, seconds)


def _factors(kind: ReplayKind, device: Device) -> kernels.Factors:
    return kernels.factors(kind.kernel, kind.pattern, kind.size, getattr(torch, kind.dtype), device)


def _replayed(told: ReplayTold, factors: kernels.Factors, device: Device, seconds: float) -> int:
    """Run for so long, and return how many products were odd; nothing is read from the card but their count."""
    compute, began = kernels.KERNELS[told.kind.kernel].compute, time.perf_counter()
    odd = torch.zeros((), dtype=torch.int64, device=device.torch)
    while True:
        for _ in range(BLOCK):
            odd += (kernels.digests(compute(*factors)) != told.first).sum()
        told.products += BLOCK * len(told.first)
        device.synchronize()
        if time.perf_counter() - began >= min(seconds, _MOST_S):
            told.seconds += time.perf_counter() - began
            return int(odd)


def digest(first: torch.Tensor) -> str:
    """Return one digest of those of a batch, as sixteen hexadecimal digits."""
    total = 0
    for number, one in enumerate(first.tolist(), 1):
        total = (total * 0x1E3779B97F4A7C15 + number * (one % (1 << 64))) % (1 << 64)
    return f"{total:016x}"


def coverage(all_told: Sequence[ReplayTold], card: int, notes: dict[str, Figure]) -> Check:
    """Say how much was replayed of which kernels; what was not replayed is not proved."""
    products, odd = sum(one.products for one in all_told), sum(one.odd for one in all_told)
    named = sorted({one.kind.name for one in all_told})
    said = f"{products} products of {len(named)} kernels ({', '.join(named)}), {len(all_told)} kinds, cold and hot: {odd} odd"
    figures: dict[str, Figure] = {"card": str(card), "products": products, "odd": odd, "kernels": len(named), **notes}
    verdict = Verdict.FAILED if odd else Verdict.PASSED
    return Check(coverage_id(str(card)), verdict, said, sum(one.seconds for one in all_told), figures)

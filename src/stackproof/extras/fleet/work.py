"""What one card does, in a process of its own: replay cold, unlike subjects, replay hot; rows and facts go into a file.

The replay computes the same products again and again, each digested on the card and held against the first of its kind. Kernels use
unlike parts of a card, patterns of values set its wires unlike; values are made of whole numbers, so that every host has the same bits.
A card that hangs or crashes takes this process with it, and the host still leaves a record that says so.
"""

from __future__ import annotations

import faulthandler
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import conv2d, scaled_dot_product_attention

from stackproof.api.base import files
from stackproof.api.device import Device, Telemetry, devices, try_measure
from stackproof.api.record import Check, Figure, Record, Verdict, writer
from stackproof.api.runs import bench_subjects
from stackproof.api.stack import stacks
from stackproof.extras.fleet import plan
from stackproof.extras.fleet.card import CardTurns
from stackproof.extras.fleet.plan import BLOCK, FIRST, REPLAY, CardProfile, ReplayRow, ReplaySize

Factors = tuple[torch.Tensor, ...]
_WIDTH = 32
"""Channels of a convolution, and the width of a head of attention."""
_STEPS = 1 << 11


@dataclass(frozen=True)
class ReplayKernel:
    """One kernel: the shapes of its factors for a size, and what it computes; the result's first dimension counts products."""

    shapes: Callable[[ReplaySize], tuple[tuple[int, ...], ...]]
    compute: Callable[..., torch.Tensor]


KERNELS = {
    "product": ReplayKernel(lambda chosen: ((chosen.batch, chosen.size, chosen.size),) * 2, torch.bmm),
    "convolution": ReplayKernel(
        lambda chosen: ((chosen.batch, _WIDTH, chosen.size, chosen.size), (_WIDTH, _WIDTH, 3, 3)),
        lambda pictures, weights: conv2d(pictures, weights, padding=1),
    ),
    "attention": ReplayKernel(
        lambda chosen: ((chosen.batch, 2, chosen.size, _WIDTH),) * 3,
        lambda query, key, value: scaled_dot_product_attention(query, key, value, is_causal=True),
    ),
    "exponential": ReplayKernel(lambda chosen: ((chosen.batch, chosen.size, chosen.size),), torch.exp),
}


def _normal(shape: tuple[int, ...], dice: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Sums of four even numbers, which are nearly normal."""
    return torch.stack([torch.randint(-_STEPS, _STEPS, shape, generator=dice) for _ in range(4)]).sum(0) / _STEPS


def _powers(shape: tuple[int, ...], dice: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Powers of two of both signs: one bit of each significand, and many exponents."""
    return _signs(shape, dice) * 2.0 ** torch.randint(-4, 4, shape, generator=dice)


def _ones(shape: tuple[int, ...], dice: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """The numbers next below two and one: every bit of the significand is set."""
    return _signs(shape, dice) * (2 - torch.finfo(dtype).eps) / 2.0 ** torch.randint(0, 2, shape, generator=dice)


def _cancelling(shape: tuple[int, ...], dice: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Neighbours of opposite signs: sums that are nearly nothing, of large terms."""
    half = _normal((*shape[:-1], -(-shape[-1] // 2)), dice, dtype)
    return torch.stack((half, -half), dim=-1).flatten(-2)[..., : shape[-1]]


def _signs(shape: tuple[int, ...], dice: torch.Generator) -> torch.Tensor:
    return (2 * torch.randint(0, 2, shape, generator=dice) - 1).to(torch.float64)


PATTERNS: dict[str, Callable[[tuple[int, ...], torch.Generator, torch.dtype], torch.Tensor]] = {
    "normal": _normal, "powers": _powers, "ones": _ones, "cancelling": _cancelling,
}  # fmt: skip


def factors(kind: ReplayKind, device: Device) -> Factors:
    """Return a kernel's factors on the device, from a seed that its name gives."""
    dice, dtype = (
        torch.Generator().manual_seed(zlib.crc32(f"{kind.kernel} {kind.pattern}".encode())),
        getattr(torch, kind.dtype),
    )
    made = (PATTERNS[kind.pattern](shape, dice, dtype) for shape in KERNELS[kind.kernel].shapes(kind.size))
    return tuple(factor.to(torch.float64).to(dtype).to(device.torch) for factor in made)


def digests(result: torch.Tensor) -> torch.Tensor:
    """Return 64 bits for each product, on its own device: the sum of its eight-byte words times odd weights, modulo 2**64.

    A product that differs in one word always has another digest; integers are summed exactly in any order.
    """
    words = result.contiguous().flatten(1).view(torch.int64)
    places = torch.arange(1, words.shape[1] + 1, dtype=torch.int64, device=result.device)
    return (words * places.mul_(0x1E3779B97F4A7C15).bitwise_or_(1)).sum(1)


@dataclass(frozen=True)
class ReplayKind:
    kernel: str
    dtype: str
    pattern: str
    size: ReplaySize

    @property
    def name(self) -> str:
        return f"{self.kernel}-{self.dtype}"


@dataclass
class ReplayedKind:
    """What was seen of one kind: digests of the right products, how many there were, and how many gave something else."""

    kind: ReplayKind
    first: torch.Tensor
    products: int = 0
    odd: int = 0
    seconds: float = 0.0

    def check(self, card: int) -> Check:
        seen = digest(self.first)
        figures: dict[str, Figure] = {"card": str(card), "digest": seen, "products": self.products, "odd": self.odd}
        sentence = f"{self.products} products, all {seen}"
        if self.odd:
            sentence = f"{self.odd} of {self.products} equal products differ; the others are {seen}"
        name, verdict = f"{self.kind.name}[{self.kind.pattern}]", Verdict.FAILED if self.odd else Verdict.PASSED
        return Check(
            f"{REPLAY}/{card}::{name}", verdict, sentence, self.seconds, figures,
            group=REPLAY, subject=self.kind.name, aspect=self.kind.pattern,
        )  # fmt: skip


def kinds(rows: Sequence[ReplayRow], profile: str, precisions: Sequence[str]) -> Iterator[ReplayKind]:
    for row in rows:
        for dtype in row.dtypes:
            if dtype in precisions:
                for pattern in PATTERNS:
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


def cold(kind: ReplayKind, device: Device, seconds: float) -> ReplayedKind:
    inputs, compute = factors(kind, device), KERNELS[kind.kernel].compute
    run, other, third = (digests(compute(*inputs)) for _ in range(FIRST))
    first = torch.where(run == other, run, third)  # one of the first may itself be the odd one
    odd = sum(int((each != first).sum()) for each in (run, other, third))
    seen = ReplayedKind(kind, first, FIRST * len(first), odd)
    _replay(seen, inputs, device, seconds)
    return seen


def hot(seen: ReplayedKind, device: Device, seconds: float) -> None:
    """Replay a kind again, with factors made anew, against what it gave at first."""
    _replay(seen, factors(seen.kind, device), device, seconds)


def _replay(seen: ReplayedKind, inputs: Factors, device: Device, seconds: float) -> None:
    """Run for so long; nothing is read from the card but how many products were odd."""
    compute, began = KERNELS[seen.kind.kernel].compute, time.perf_counter()
    odd = torch.zeros((), dtype=torch.int64, device=device.torch)
    while True:
        for _ in range(BLOCK):
            odd += (digests(compute(*inputs)) != seen.first).sum()
        seen.products += BLOCK * len(seen.first)
        device.synchronize()
        if time.perf_counter() - began >= seconds:
            seen.seconds += time.perf_counter() - began
            seen.odd += int(odd)
            return


def digest(first: torch.Tensor) -> str:
    """Return one digest of those of a batch, as sixteen hexadecimal digits."""
    total = 0
    for number, word in enumerate(first.tolist(), 1):
        total = (total * 0x1E3779B97F4A7C15 + number * (word % (1 << 64))) % (1 << 64)
    return f"{total:016x}"


_PATIENCE = 1 / 6
"""Of a card's deadline: so long it waits for the others."""
_LASTING = 3
"""Rows of the replay that keep the card busy while the vendor's tool is asked."""


@dataclass
class CardWork:
    """One card of a host, and the record of what it did."""

    stack: stacks.Stack
    card: int
    profile: CardProfile
    record: Record
    without: Sequence[str] = ()
    """What the plan leaves out."""

    @property
    def device(self) -> Device:
        return devices.visible(self.stack.device)[self.card]

    def take(self, folder: Path) -> None:
        """Replay, measure, replay; `folder`: where the cards of this host meet."""
        began = time.monotonic()
        turns = CardTurns(folder, self.card, devices.count(self.stack.device), _PATIENCE * 60 * self.profile.deadline)
        if self.card == 0:
            turns.announce()
        self.record.provenance |= {"cards": devices.count(self.stack.device), **devices.torch_facts(self.stack)}
        device = self.device
        telemetry = Telemetry(device, self.stack)
        with device.current():
            replayed = list(self._cold(device))
            self._read(telemetry, replayed)
            self._measure(device, turns)
            with deterministic():
                for row in replayed:
                    hot(row, device, self.profile.replay)
            self._read(telemetry, replayed)
        self.record.checks += [row.check(self.card) for row in replayed]
        sentence = f"replayed {sum(row.products for row in replayed)} products, cold and hot"
        figures: dict[str, Figure] = {"card": str(self.card), **telemetry.facts()}
        self.record.checks.append(
            Check(f"card/{self.card}", Verdict.PASSED, sentence, time.monotonic() - began, figures)
        )
        self.record.provenance |= _limits(telemetry)

    def _measure(self, device: Device, turns: CardTurns) -> None:
        known = {subject.name: subject for subject in bench_subjects.subjects(self.profile.benchmarks, self.stack)}
        own, profile = [name for name in self.profile.subjects if name not in self.profile.turns], self.profile
        turns.meet("replayed")
        for name in self._kept_names(profile.turns):
            with turns.turn():
                self._subject(known[name], device)
        turns.meet("shared")
        for name in self._kept_names(profile.together) if self.card == 0 else ():
            self._subject(known[name], device)
        turns.meet("together")
        for name in self._kept_names(own):
            self._subject(known[name], device)

    def _kept_names(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.without]

    def _cold(self, device: Device) -> Iterator[ReplayedKind]:
        with deterministic():
            for kind in kinds(plan.table().replay, self.profile.name, self.stack.precisions):
                if not {kind.kernel, kind.name} & set(self.without):
                    yield cold(kind, device, self.profile.replay)

    def _read(self, telemetry: Telemetry, replayed: list[ReplayedKind]) -> None:
        """Ask the vendor's tool for clocks and temperature while the card works."""

        def busy() -> None:
            for row in replayed[:_LASTING]:
                hot(row, telemetry.device, 0.0)

        with deterministic():
            telemetry.read(busy)

    def _subject(self, subject: bench_subjects.Subject, device: Device) -> None:
        chosen, began = self.profile, time.monotonic()
        budget = bench_subjects.Budget(chosen.noise, chosen.seconds, chosen.least, chosen.most)
        verdict, reason, rows = try_measure(subject, device, chosen.name, budget)
        for row in rows[:1]:
            row.figures["card"] = str(self.card)
            self.record.measurements.append(row)
        name, figures = f"subject/{self.card}::{subject.name}", dict[str, Figure]({"card": str(self.card)})
        self.record.checks.append(Check(name, verdict, reason, time.monotonic() - began, figures, subject=subject.name))


def _limits(telemetry: Telemetry) -> dict[str, Figure]:
    """Return what was set for the card and does not move by itself, such as its power limit."""
    seen = telemetry.readings[-1] if telemetry.readings else {}
    return {f"set.{name}": seen[name] for name in plan.table().state.telemetry if name in seen}


def main(words: list[str]) -> int:
    """Work on one card and write what it did; the argument is a JSON object (`card.CardOrder.child`)."""
    faulthandler.enable()
    asked = files.parse_json(words[0], "the command of a card")
    stack = stacks.load(asked["stack"])
    for name in stack.imports:
        __import__(name)
    record = writer.begin(plan.VERB, stack.name)
    CardWork(stack, asked["card"], plan.profile(asked["profile"]), record, asked["without"]).take(Path(asked["turns"]))
    record.verdict = record.overall
    writer.keep(record, Path(asked["out"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

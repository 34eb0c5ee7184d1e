"""What a night does, how much of it, and when it is left out: `data/night.toml`, read strictly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from stackproof.api.base import places, text, toml
from stackproof.api.gate import interleave, plan

FILE = places.DATA / "night.toml"


@dataclass(frozen=True)
class _Measure:
    launches: Mapping[str, int]

    def __post_init__(self) -> None:
        plan.require_other("launches", self.launches)


@dataclass(frozen=True)
class _Verify:
    minutes: plan.ByDevice
    deadline: float

    def __post_init__(self) -> None:
        plan.require_other("minutes", self.minutes)


@dataclass(frozen=True)
class AdmissionRules:
    """What makes a night disturbed."""

    load: plan.ByDevice
    throttled: tuple[str, ...]
    others: bool
    pause: float

    def __post_init__(self) -> None:
        plan.require_other("load", self.load)


@dataclass(frozen=True)
class _Confirm:
    most: int
    minutes: float


@dataclass(frozen=True)
class NightPlan:
    """The whole table."""

    measure: _Measure
    verify: _Verify
    admission: AdmissionRules
    confirm: _Confirm


@cache
def load() -> NightPlan:
    """Return the plan of the file; a slip in it is refused by key."""
    return toml.Table.load(FILE).row(NightPlan)


def disturbances(seen: interleave.Conditions, rules: AdmissionRules, kind: str) -> list[str]:
    """Return a sentence for each thing that disturbed a night on this type of device; none where it is admitted."""
    return [*_load(seen, plan.of(rules.load, kind)), *_card(seen, rules)]


def _load(seen: interleave.Conditions, limit: float) -> Iterator[str]:
    busy = [load for load in seen.loads if load > limit]
    if busy:
        yield (
            f"others used {max(busy):.0%} of the host's cores in {len(busy)} of {len(seen.loads)} launches ({limit:.0%} are allowed)"
        )


def _card(seen: interleave.Conditions, rules: AdmissionRules) -> Iterator[str]:
    launches = len(seen.loads)
    for reason, count in seen.throttled.items():
        if text.matches(reason, rules.throttled):
            yield f"the card was slowed in {count} of {launches} launches: {reason}"
    if rules.others:
        yield from (f"{other} used the card in {count} of {launches} launches" for other, count in seen.others.items())

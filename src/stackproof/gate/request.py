"""What the verbs that compare are asked: a frozen request each, which the command line fills in once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stackproof.gate.variants import Variant
from stackproof.jobs.metrics import Metric
from stackproof.record.writer import Outputs


@dataclass(frozen=True)
class CompareRequest:
    """What gate, sweep and bisect have in common: where, what, and for how long."""

    stack: str = ""
    rehearsed: bool = False
    unpinned: Path | None = None
    """The interpreter of both sides, where it is in an environment that is not ours."""
    profile: str = ""
    """Empty for the one that suits the device."""
    only: tuple[str, ...] = ()
    device: str = ""
    minutes: float = 10.0
    deadline_scale: float = 1.0
    unlike: bool = False
    outputs: Outputs = field(default_factory=Outputs)


@dataclass(frozen=True)
class GateRequest(CompareRequest):
    """Two variants of a stack; `same`: equal ones are meant."""

    base: Variant = field(default_factory=lambda: Variant("base"))
    head: Variant = field(default_factory=lambda: Variant("head"))
    same: bool = False
    accept_changed: bool = False
    go_on: bool = False
    """Whether times are asked on where something exact is worse already."""
    allow_inconclusive: bool = False


@dataclass(frozen=True)
class SweepRequest(CompareRequest):
    """The grid: `NAME=V1,V2` words, and names of backends with commas between them."""

    variables: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandGateRequest(GateRequest):
    """A command of the user's own; of its sides commit, folder and variables count."""

    words: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    figures: tuple[Metric, ...] = ()
    within: float = 0.0
    """Relative difference that figures may have."""
    effect: float | None = None
    """Relative difference of a metric that counts; none for the one that suits the device."""
    deadline: float = 3600.0
    """Seconds that the first launch of a side may take."""
    exact: bool = False
    counters: bool = True

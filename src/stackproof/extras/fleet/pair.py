"""What two hosts do together: an all-reduce between them, verified and then timed; a program for `stackproof ranks`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stackproof.bench.ranks import collective
from stackproof.bench.subjects import Budget
from stackproof.extras.fleet import rules
from stackproof.ranks.rank import Rank


def tiny(rank: Rank) -> dict[str, Any]:
    """Measure as the profile `tiny` has it."""
    return _measured(rank, "tiny")


def full(rank: Rank) -> dict[str, Any]:
    """Measure as the profile `full` has it."""
    return _measured(rank, "full")


def _measured(rank: Rank, profile: str) -> dict[str, Any]:
    chosen = rules.load().pairs
    rank.arguments.update(
        parameters={"call": "all-reduce", "mib": chosen.mib[profile], "dtype": chosen.dtype}, preset=profile,
        budget=asdict(Budget(chosen.noise, chosen.seconds, most=200)),
    )  # fmt: skip
    found = collective(rank)
    return {"seconds": found["seconds"], "reason": found["reason"], "backend": found["backend"]}

"""What the checks of convergence share: how many ranks, which workloads, and how a launch's evidence is read and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from stackproof.device import devices
from stackproof.device.numerics import Judgement, judge, require_all
from stackproof.ranks.launch import Arrangement, arrange
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.catalogue import get
from suites.common import offered
from suites.ranks import Cases, Launches

DEADLINE_S = 170.0
MOST_RANKS = 8
SHARDING = ("fully-shard", "sharded-mean")


def arrangement(stack: Stack) -> Arrangement:
    """Take the largest power of two of ranks that have cards of their own, and two at least."""
    cards = devices.visible(stack.device)
    world = 2
    while world * 2 <= min(len(cards), MOST_RANKS):
        world *= 2
    return arrange(stack, cards, world)


def require_sharding(stack: Stack) -> None:
    """End the check with the rule that says why nothing can be sharded here."""
    for capability in SHARDING:
        capabilities.require(stack, capability)
    if arrangement(stack).note:
        capabilities.withhold("sharding-over-a-shared-card")


def shards(stack: Stack) -> bool:
    """Whether sharding is tried here: a crash in it takes down all cases of the launch."""
    return offered(stack, *SHARDING) and not arrangement(stack).note


def launched(launches: Launches, stack: Stack, program: str, arguments: dict[str, Any]) -> Cases:
    """Return the cases of a program of the ranks, which are run once, when the first is asked for."""
    return launches.cases(program, arrangement(stack), arguments, DEADLINE_S)


def world(group: Cases) -> int:
    """Return the number of ranks."""
    return len(group.arrangement.cards)


def installed(names: list[str]) -> list[str]:
    """Return the workloads that this environment can build."""
    return [name for name in names if not get(name).missing()]


def evidence(group: Cases, case: str) -> list[dict[str, Any]]:
    """Return what each rank says of a case; fail with what all of them raised."""
    reports = group.runner.outcome(case)
    require("error" not in reports[0], f"every rank raised: {reports[0].get('error')}")
    return reports


def tensors(group: Cases, case: str, rank: int) -> dict[str, torch.Tensor]:
    """Return the tensors that a rank kept of a case."""
    kept: dict[str, torch.Tensor] = torch.load(group.folder / f"{case}.rank{rank}.pt", weights_only=True)
    return kept


def require_equal_bits(reports: list[dict[str, Any]], what: str) -> None:
    """Fail unless all ranks hold the same bits."""
    digests = [rank[what] for rank in reports]
    require(len(set(digests)) == 1, f"the ranks' {what} differ: {', '.join(digest[:12] for digest in digests)}")


def agree(
    group: Cases,
    case: str,
    exact: Mapping[str, torch.Tensor],
    anchor: Mapping[str, torch.Tensor],
    figures: dict[str, Figure],
    dtype: torch.dtype = torch.float32,
    lift: Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]] = dict,
) -> Judgement:
    """Judge every tensor that each rank kept against float64, anchored by one process on the CPU; return the worst.

    `lift`: what is done to all three first, where zero is a gradient's true value.
    """
    judgements: dict[str, Judgement] = {}
    exact, anchor = lift(exact), lift(anchor)
    for rank in range(world(group)):
        own = lift(tensors(group, case, rank))
        odd = sorted(own.keys() ^ exact.keys())
        require(not odd, f"rank {rank} has other tensors than one process: {', '.join(odd[:3])}")
        judgements |= {f"rank {rank}, {name}": judge(own[name], exact[name], anchor[name], dtype) for name in own}
    worst = require_all(judgements, case)
    figures |= {
        "world size": world(group),
        "compared": len(judgements),
        "worst error": worst.error,
        "its bound": worst.bound,
    }
    figures["summary"] = (
        f"{len(judgements)} tensors of {world(group)} ranks, worst error {worst.error:.1e} of {worst.bound:.1e} allowed{group.note}"
    )
    return worst

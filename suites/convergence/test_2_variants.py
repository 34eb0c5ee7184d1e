"""However DDP is set up, the gradients are the same; and a sharded step is DDP's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from stackproof.ddp.course import outcome, plan, shard, synchronised
from stackproof.device.devices import HOST
from stackproof.device.numerics import relative_error, rule
from stackproof.project.offers import playing
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.catalogue import get, taking_part
from suites.common import SEED, offered, possible
from suites.convergence import common, stepwise
from suites.convergence.variants import (
    BROADCAST,
    NAMES,
    ODD,
    UNEVEN_STEPS,
    VARIANTS,
    odd,
    odd_tensors,
    of_name,
    trained_odd,
)
from suites.ranks import Cases, Launches

NEEDS = {"synchronised-norm": "synchronised-batch-norm"}
PLAIN, SHARDED = playing("plain"), taking_part("sharded")
_CPU = HOST.torch


@pytest.fixture
def group(stack: Stack, launches: Launches) -> Cases:
    """All variants that this environment can run, in one launch."""
    variants = [row.name for row in VARIANTS if row.name not in NEEDS or offered(stack, NEEDS[row.name])]
    sharded = common.installed(list(SHARDED)) if common.shards(stack) else []
    arguments = {
        "seed": SEED,
        "variants": [name for name in variants if not get(of_name(name).workload).missing()],
        "sharded": sharded,
    }
    return common.launched(launches, stack, "suites.convergence.variants:run", arguments)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "synchronised-norm"])
@pytest.mark.deadline(240)
def test_variant(name: str, request: pytest.FixtureRequest, figures: dict[str, Figure]) -> None:
    """The gradients are those of one process with the global batch, bit-equal on all ranks, in as many exchanges as meant."""
    variant = of_name(name)
    possible(variant.workload)
    group: Cases = request.getfixturevalue("group")
    reports = common.evidence(group, name)
    course, ranks = plan().course(variant.workload), common.world(group)
    exact, anchor = (outcome(course, dtype, SEED, ranks).gradients for dtype in (torch.float64, torch.float32))
    common.agree(group, name, exact, anchor, figures)
    common.require_equal_bits(reports, "gradients")
    _require_exchanges(name, reports[0]["exchanged"], reports[0]["micro_batches"], exact)
    figures["exchanges"] = len(reports[0]["exchanged"])


def _require_exchanges(
    name: str, buckets: list[int], micro_batches: int, gradients: Mapping[str, torch.Tensor]
) -> None:
    """Require that the buckets that travelled hold each parameter once, and are cut as the variant asks."""
    total, spare = sum(gradient.numel() for gradient in gradients.values()), 12 if of_name(name).unused else 0
    require(
        sum(buckets) == total + spare,
        f"{sum(buckets)} elements travelled in {len(buckets)} exchanges for {micro_batches} micro-batches; "
        f"the gradients have {total + spare}",
    )
    if name == "one-bucket":
        require(len(buckets) == 1, f"one bucket of 100 MB was asked for, and {len(buckets)} travelled")
    if name == "small-buckets":
        require(len(buckets) > 2, f"buckets of 4 KiB were asked for, and {len(buckets)} travelled")


@pytest.mark.deadline(240)
def test_synchronised_norm(stack: Stack, request: pytest.FixtureRequest, figures: dict[str, Figure]) -> None:
    """Under SyncBatchNorm the detector's gradients are those of one process whose normalisation sees the global batch."""
    name = "synchronised-norm"
    possible(of_name(name).workload)
    capabilities.require(stack, NEEDS[name])
    group: Cases = request.getfixturevalue("group")
    reports, ranks = common.evidence(group, name), common.world(group)
    course = plan().course(of_name(name).workload)
    exact, anchor = (synchronised(course, dtype, SEED, ranks) for dtype in (torch.float64, torch.float32))
    common.agree(group, name, exact, anchor, figures)
    common.require_equal_bits(reports, "gradients")
    alone = outcome(course, torch.float64, SEED, ranks).gradients
    figures["apart from unsynchronised"] = max(relative_error(exact[what], alone[what]) for what in exact)


@pytest.mark.deadline(240)
def test_uneven(group: Cases, figures: dict[str, Figure]) -> None:
    """With a last batch that only rank 0 has, `join` ends, divides by all ranks, and leaves the same bits everywhere."""
    reports, ranks = common.evidence(group, "uneven"), common.world(group)
    exact, anchor = (_one_process_uneven(dtype, ranks) for dtype in (torch.float64, torch.float32))
    common.agree(group, "uneven", exact, anchor, figures)
    common.require_equal_bits(reports, "parameters")


def _one_process_uneven(dtype: torch.dtype, ranks: int) -> dict[str, torch.Tensor]:
    """Return what the training changes in one process: in the last step the other ranks' parts count as zero."""
    jobs = [shard(PLAIN, _CPU, dtype, SEED, rank, ranks) for rank in range(ranks)]
    job, parts = jobs[0], [job.batches for job in jobs]
    before = {name: parameter.detach().clone() for name, parameter in job.model.named_parameters()}
    for number in range(UNEVEN_STEPS):
        job.optimiser.zero_grad()
        for job.batches in parts[: 1 if number == UNEVEN_STEPS - 1 else ranks]:
            job.differentiate(job.forward()[1] / ranks)
        job.optimiser.step()
    return {name: parameter.detach() - before[name] for name, parameter in job.model.named_parameters()}


@pytest.mark.deadline(240)
def test_broadcast(group: Cases, figures: dict[str, Figure]) -> None:
    """Parameters, frozen ones too, and buffers of any dtype are rank 0's once they are wrapped, its buffers again before each forward.

    Some are not saved; forwards are in training, evaluation, and without gradients.
    """
    states = common.evidence(group, BROADCAST)
    for rank, state in enumerate(states):
        require(state["wrapped"] == state["own"], f"rank {rank} does not start from rank 0's parameters and buffers")
        apart = [way for way, buffers in state["buffers"].items() if buffers != state["own buffers"]]
        ways = f" ({', '.join(apart)})"
        require(not apart, f"after a forward{ways} rank {rank} does not hold rank 0's buffers")
    figures["world size"] = len(states)
    require(
        len({state["alone"] for state in states}) == len(states),
        "buffers of the ranks are equal even where DDP was told to leave them alone: the check cannot see a broadcast",
    )
    figures["summary"] = f"{len(states)} ranks start from rank 0's state, and take its buffers at a forward{group.note}"


@pytest.mark.deadline(240)
def test_every_step(group: Cases, figures: dict[str, Figure]) -> None:
    """At each of many steps every gradient is the mean of the ranks' own, and the buffers are rank 0's before each forward."""
    common.evidence(group, stepwise.CASE)
    kept = [common.tensors(group, stepwise.CASE, rank) for rank in range(common.world(group))]
    worst = stepwise.require_exchanged(kept)
    stepwise.require_buffers(kept)
    figures |= {"world size": len(kept), "steps": stepwise.STEPS, "worst error of its bound": worst}
    figures["summary"] = (
        f"{stepwise.STEPS} steps of {len(kept)} ranks: each gradient is the mean of the ranks' own, worst {worst:.0%} of its bound, "
        f"and buffers are rank 0's{group.note}"
    )


@pytest.mark.parametrize("name", SHARDED)
@pytest.mark.deadline(240)
def test_sharded(name: str, stack: Stack, request: pytest.FixtureRequest, figures: dict[str, Figure]) -> None:
    """A step under `fully_shard` has the gradients of one process and leaves DDP's parameters; each rank keeps its part of them."""
    possible(name)
    common.require_sharding(stack)
    group: Cases = request.getfixturevalue("group")
    reports, ranks = common.evidence(group, f"sharded-{name}"), common.world(group)
    course = plan().course(name)
    exact, anchor = (outcome(course, dtype, SEED, ranks).gradients for dtype in (torch.float64, torch.float32))
    common.agree(group, f"sharded-{name}", exact, anchor, figures)
    _require_parts([rank["share"] for rank in reports])
    figures["apart from DDP"] = _require_near(group, name)


@pytest.mark.deadline(240)
def test_sharded_odd(stack: Stack, request: pytest.FixtureRequest, figures: dict[str, Figure]) -> None:
    """A step under `fully_shard` is that of one process where no size divides by the ranks, and some ranks keep nothing."""
    common.require_sharding(stack)
    group: Cases = request.getfixturevalue("group")
    common.evidence(group, ODD)
    exact, anchor = (_one_process_odd(dtype) for dtype in (torch.float64, torch.float32))
    common.agree(group, ODD, exact, anchor, figures)


def _one_process_odd(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return gradients and parameters after the step; numbers are drawn in float32 for every dtype."""
    model, batch = odd(_CPU, dtype, SEED)
    trained_odd(model, batch)
    tensors: dict[str, torch.Tensor] = odd_tensors(model)
    return tensors


def _require_parts(shares: list[float]) -> None:
    """Fail unless every rank keeps its part of the parameters; what does not divide evenly is padded, not copied."""
    percentages = ", ".join(f"{share:.0%}" for share in shares)
    whole = abs(sum(shares) - 1) < 1e-9 and max(shares) < 1.5 / len(shares)
    require(whole, f"the ranks keep {percentages} of the parameters; each its own part was expected")


def _require_near(group: Cases, name: str) -> float:
    """Fail if a parameter after the step is further from DDP's than the last bits; return the largest distance."""
    replicated, sharded = (common.tensors(group, f"{case}-{name}", 0) for case in ("ddp-step", "sharded-step"))
    apart = {what: relative_error(after, replicated[what]) for what, after in sharded.items()}
    worst, limit = max(apart, key=lambda what: apart[what]), rule().bound(0.0, torch.float32)
    require(
        apart[worst] <= limit,
        f"after one step '{worst}' is {apart[worst]:.2g} from that under DDP, more than {limit:.2g}",
    )
    return apart[worst]

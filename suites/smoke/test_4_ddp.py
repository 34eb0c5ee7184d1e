"""Two ranks through torch's elastic launcher: they agree with one process that has the whole batch, and with each other."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest
import torch

from stackproof.ddp.course import judge_curve, plan
from stackproof.device import devices
from stackproof.device.numerics import Judgement, judge, require_all
from stackproof.project.offers import playing
from stackproof.ranks.launch import Arrangement, arrange
from stackproof.record.checks import require
from stackproof.record.records import Figure, Measurement
from stackproof.stack.stacks import Stack
from stackproof.workloads.collectives import bus_factor
from suites.common import SEED, anchor, reference
from suites.ranks import Group, Launches

WORKLOAD = playing("plain")
WORLD = 2
_STEPS = plan().course(WORKLOAD).steps
_MIB = 4
_DEADLINE_S = 90.0


def _run(launches: Launches, arrangement: Arrangement) -> Group:
    arguments = {"workload": WORKLOAD, "seed": SEED, "all_reduce_mib": _MIB}
    return launches("stackproof.ddp.course:run_smoke", arrangement, arguments, _DEADLINE_S)


@pytest.fixture(scope="module")
def group(stack: Stack, launches: Launches) -> Group:
    """Two ranks, over the stack's own backend if there are cards enough."""
    return _run(launches, arrange(stack, devices.visible(stack.device), WORLD))


@pytest.mark.deadline(120)
def test_bring_up(stack: Stack, launches: Launches, figures: dict[str, Figure]) -> None:
    """The stack's own backend forms a group of as many ranks as it can, each on its device, and sums exactly."""
    cards = devices.visible(stack.device)
    own = arrange(stack, cards, WORLD)
    if own.backend != stack.backend:
        own = arrange(stack, cards, len(cards))
    ranks = _run(launches, own).ranks
    for rank in ranks:
        require(
            rank["backend"] == stack.backend,
            f"rank {rank['rank']} has backend {rank['backend']}, the stack's is {stack.backend}",
        )
        figures |= {f"rank {rank['rank']}.{what}": rank[what] for what in ("backend", "device", "name", "formed_s")}
    slowest = max(rank["formed_s"] for rank in ranks)
    figures["world size"] = len(ranks)
    alone = "; one rank: the backend loads, and no collective is verified" if len(ranks) == 1 else ""
    figures["summary"] = (
        f"{stack.backend}: "
        + ", ".join(f"rank {rank['rank']} on {rank['device']}" for rank in ranks)
        + f"; formed in {slowest:.2f} s{alone}"
    )


@pytest.mark.deadline(120)
def test_gradients(group: Group, figures: dict[str, Figure]) -> None:
    """After one backward, every rank's gradients equal those of one process with the global batch."""
    exact, expected = reference(WORKLOAD, "tiny"), anchor(WORKLOAD, "tiny", None)
    judgements: dict[str, Judgement] = {}
    for rank in range(WORLD):
        own = torch.load(group.folder / f"{WORKLOAD}.rank{rank}.pt", weights_only=True)
        require(own.keys() == exact.gradients.keys(), f"rank {rank} has other gradients than the single process")
        judgements |= {
            f"rank {rank}, {name}": judge(own[name], exact.gradients[name], expected.gradients[name], torch.float32)
            for name in own
        }
    worst = require_all(judgements, "gradient")
    figures |= {"worst error": worst.error, "its bound": worst.bound}
    figures["summary"] = (
        f"{len(judgements)} gradients of {WORLD} ranks, worst error {worst.error:.1e} of {worst.bound:.1e} allowed{group.note}"
    )


@pytest.mark.deadline(120)
def test_ranks_equal(group: Group, figures: dict[str, Figure]) -> None:
    """After the last step all ranks hold the same bits."""
    digests = {rank["parameters"] for rank in group.ranks}
    require(
        len(digests) == 1,
        f"after {_STEPS} steps the ranks' parameters differ: {', '.join(rank['parameters'][:12] for rank in group.ranks)}",
    )
    figures["summary"] = (
        f"parameters of {WORLD} ranks are bit-equal after {_STEPS} steps ({digests.pop()[:12]}){group.note}"
    )


@pytest.mark.deadline(120)
def test_loss_falls(group: Group, figures: dict[str, Figure]) -> None:
    """The losses of the global batch are at every step those of one process, and fall by a quarter."""
    losses = group.ranks[0]["losses"]
    figures |= {"first loss": losses[0], "last loss": losses[-1]}
    require(
        losses[-1] < 0.75 * losses[0],
        f"the loss went from {losses[0]:.4f} to {losses[-1]:.4f} in {_STEPS} steps, below {0.75 * losses[0]:.4f} was expected",
    )
    apart = judge_curve(plan().course(WORKLOAD), losses, SEED, WORLD)
    figures |= {"worst error": apart.error, "its bound": apart.bound}
    require(apart.ok, apart.sentence(f"the loss curve of {_STEPS} steps"))
    figures["summary"] = (
        f"loss {losses[0]:.3f} -> {losses[-1]:.3f} in {_STEPS} steps, as one process's to {apart.error:.1e}{group.note}"
    )


@pytest.mark.needs("smoke/ddp::bring_up")
@pytest.mark.deadline(120)
def test_all_reduce_rate(
    group: Group, preset: str, measured: Callable[[Measurement], None], figures: dict[str, Figure]
) -> None:
    """Indicative only: bus bandwidth of one all-reduce size, the slowest rank of each call; `bench` measures the others."""
    spans = [rank["all_reduce"] for rank in group.ranks]
    wrong = [span["wrong"] for span in spans if span["wrong"]]
    require(not wrong, f"an all-reduce that was timed: {wrong[:1]}")
    samples = [seconds / (spans[0]["gb"] * bus_factor("all-reduce", WORLD)) for seconds in spans[0]["seconds"]]
    value = median(samples)
    require(value > 0, "an all-reduce took no time: the device's clock or its synchronisation does nothing")
    metric = f"busbw {_MIB} MiB {group.arrangement.backend}"
    measured(
        Measurement("all-reduce", preset, "float32", WORLD, metric, "s/GB", value, samples, f"indicative{group.note}")
    )
    figures["summary"] = (
        f"{1 / value:.2f} GB/s busbw at {_MIB} MiB over {group.arrangement.backend}, indicative{group.note}"
    )

"""Over many seeds the ranks' trainings end where one process's do: an equivalence test, and the sampler that deals the data."""

from __future__ import annotations

import statistics

import pytest
import torch

from stackproof.base.statistics import tost
from stackproof.ddp.course import EPOCHS, EXCHANGES, deals, documented, plan, single
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.convergence import common
from suites.ranks import Cases, Launches

TRIAL = plan().trial
_HOOK_REFUSED = "communication hook required"
SEEDS = list(range(1, TRIAL.seeds + 1))


@pytest.fixture
def group(stack: Stack, launches: Launches) -> Cases:
    """All seeds and both ways of exchange, in one launch."""
    return common.launched(launches, stack, "stackproof.ddp.course:run_seeds", {"seeds": SEEDS})


@pytest.fixture(scope="module")
def alone() -> dict[int, list[float]]:
    """Final losses of one process by the number of ranks that it stands for."""
    return {}


@pytest.mark.deadline(240)
def test_sampler(group: Cases, figures: dict[str, Figure]) -> None:
    """Torch's sampler deals as it documents: shuffled by seed and epoch or not, the rest repeated or dropped."""
    reports, ranks = common.evidence(group, "sampler"), common.world(group)
    for number, (seed, deal) in enumerate(deals(ranks)):
        drawn = [index for rank in reports for index in rank["dealt"][number][0]]
        for rank, report in enumerate(reports):
            epochs = documented(rank, ranks, seed, **deal)
            wrong = [epoch for epoch, order in enumerate(epochs) if report["dealt"][number][epoch] != order]
            options = f"size {deal['size']}, shuffle {deal['shuffle']}, drop_last {deal['drop_last']}, seed {seed}"
            require(
                not wrong,
                f"{options}: in epoch {(wrong or [0])[0]} rank {rank} draws other pictures than documented; in epoch 0 "
                f"the ranks drew {len(set(drawn))} different pictures of {deal['size']}, in {len(drawn)} draws",
            )
    figures["summary"] = (
        f"{len(deals(ranks))} ways of dealing to {ranks} ranks are as documented, in {EPOCHS} epochs each"
    )


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.deadline(240)
def test_final_loss(
    exchange: str, group: Cases, device: Device, alone: dict[int, list[float]], figures: dict[str, Figure]
) -> None:
    """The final loss of ranks is equivalent to that of one process: TOST over seeds, with the margin of the table."""
    refused = group.runner.outcome(exchange)[0].get("error", "")
    if _HOOK_REFUSED in refused:  # by torch itself, for what it was built without
        capabilities.withhold("bfloat16-exchange-by-torch", f"torch {torch.__version__} said: {refused}")
    reports, ranks = common.evidence(group, exchange), common.world(group)
    common.require_equal_bits([{"parameters": " ".join(rank["parameters"])} for rank in reports], "parameters")
    if ranks not in alone:
        alone[ranks] = [single(device, seed, ranks) for seed in SEEDS]
    verdict = tost(reports[0]["losses"], alone[ranks], TRIAL.margin, TRIAL.alpha)
    figures |= {"mean difference": verdict.mean, "low": verdict.low, "high": verdict.high}
    figures |= {"margin": TRIAL.margin, "deviation over seeds": statistics.stdev(alone[ranks])}
    sentence = verdict.sentence(f"the final loss, gradients exchanged as {exchange}")
    require(verdict.holds, sentence)
    figures["summary"] = sentence + group.note

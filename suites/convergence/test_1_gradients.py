"""One step of N ranks is one step of one process: gradients, bits, and the losses of a short training."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from stackproof.ddp.course import Course, judge_curve, others, outcome, plan
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.gradients import on_top
from suites.common import SEED, possible
from suites.convergence import common
from suites.ranks import Cases, Launches

COURSES = plan().courses
ALL = (*COURSES, *others())
of_the_table = pytest.mark.parametrize("course", COURSES, ids=[course.workload for course in COURSES])
by_workload = pytest.mark.parametrize("course", ALL, ids=[course.workload for course in ALL])


@pytest.fixture
def group(stack: Stack, launches: Launches, course: Course) -> Cases:
    """All workloads that are installed, in one launch."""
    possible(course.workload)
    names = common.installed([course.workload for course in ALL])
    arguments = {"workloads": names, "seed": SEED}
    return common.launched(launches, stack, "stackproof.ddp.course:run", arguments)


@by_workload
@pytest.mark.deadline(240)
def test_gradients(course: Course, group: Cases, figures: dict[str, Figure]) -> None:
    """After one backward every rank's gradients equal those of one process with the global batch; the ranks' bits are equal."""
    reports = common.evidence(group, course.workload)
    ranks = common.world(group)
    exact, anchor = (outcome(course, dtype, SEED, ranks) for dtype in (torch.float64, torch.float32))
    lift = partial(
        on_top, exact=exact
    )  # a bias of attention's keys moves nothing, and its gradient is rounding everywhere
    common.agree(group, course.workload, exact.gradients, anchor.gradients, figures, lift=lift)
    common.require_equal_bits(reports, "gradients")


@by_workload
@pytest.mark.deadline(240)
def test_ranks_equal(course: Course, group: Cases, figures: dict[str, Figure]) -> None:
    """After the last step all ranks hold the same bits."""
    reports = common.evidence(group, course.workload)
    common.require_equal_bits(reports, "parameters")
    figures["summary"] = (
        f"parameters of {len(reports)} ranks are bit-equal after {course.steps} steps ({reports[0]['parameters'][:12]}){group.note}"
    )


@of_the_table
@pytest.mark.deadline(240)
def test_curve(course: Course, group: Cases, figures: dict[str, Figure]) -> None:
    """The losses are those of one process with the global batch, and fall."""
    losses = common.evidence(group, course.workload)[0]["losses"]
    verdict = judge_curve(course, losses, SEED, common.world(group))
    require(verdict.ok, verdict.sentence(f"the loss curve of {course.steps} steps"))
    limit = course.falls_to * losses[0]
    require(
        losses[-1] < limit, f"the loss went from {losses[0]:.4f} to {losses[-1]:.4f}, below {limit:.4f} was expected"
    )
    figures |= {"first loss": losses[0], "last loss": losses[-1], "error": verdict.error, "its bound": verdict.bound}
    figures["summary"] = (
        f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {course.steps} steps, error {verdict.error:.1e} of {verdict.bound:.1e} "
        f"allowed{group.note}"
    )

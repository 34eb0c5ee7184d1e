"""Options that users set, over some steps: the gradients of each step are those of one process.

Not seen: options without a row, and a step after the 128th that is wrong by its number.
"""

from __future__ import annotations

import pytest
import torch

from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import SEED
from suites.convergence import common
from suites.convergence.options import OPTIONS, STEPS, Option, one_process
from suites.ranks import Launches


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
@pytest.mark.deadline(240)
def test_agrees(option: Option, stack: Stack, launches: Launches, figures: dict[str, Figure]) -> None:
    """At each of some steps the gradients are the mean over the ranks that take part; the parameters follow."""
    shards = common.shards(stack)
    if option.shards:
        common.require_sharding(stack)
    names = [row.name for row in OPTIONS if shards or not row.shards]
    group = common.launched(launches, stack, "suites.convergence.options:run", {"seed": SEED, "options": names})
    common.evidence(group, option.name)
    exact, anchor = (one_process(option, dtype, SEED, common.world(group)) for dtype in (torch.float64, torch.float32))
    common.agree(group, option.name, exact, anchor, figures, option.exchanged)
    figures["steps"] = STEPS

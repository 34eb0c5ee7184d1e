"""Options that users set, over some steps: the gradients of each step are those of one process.

Not seen: options without a row, and a step after the 128th that is wrong by its number.
"""

from __future__ import annotations

import pytest
import torch

from stackproof.record.checks import CapabilityMissing
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.common import SEED
from suites.convergence import common
from suites.convergence.options import NAMES, STEPS, of_name, one_process
from suites.ranks import Launches

SHARDING = ("fully-shard", "sharded-mean")


def _possible(name: str, stack: Stack) -> None:
    """Raise where the stack cannot do what the option takes."""
    option = of_name(name)
    if not (option.sharded or option.functional or option.tensor):
        return
    for capability in SHARDING:
        capabilities.require(stack, capability)
    if common.arrangement(stack).note:
        capabilities.withhold("sharding-over-a-shared-card")


def _offered(stack: Stack) -> list[str]:
    def can(name: str) -> bool:
        try:
            _possible(name, stack)
        except CapabilityMissing:
            return False
        return True

    return [name for name in NAMES if can(name)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.deadline(240)
def test_agrees(name: str, stack: Stack, launches: Launches, figures: dict[str, Figure]) -> None:
    """At each of some steps the gradients are the mean over the ranks that take part; the parameters follow."""
    _possible(name, stack)
    option = of_name(name)
    group = common.launched(
        launches, stack, "suites.convergence.options:run", {"seed": SEED, "options": _offered(stack)}
    )
    common.evidence(group, name)
    exact, anchor = (one_process(option, dtype, SEED, common.world(group)) for dtype in (torch.float64, torch.float32))
    common.agree(group, name, exact, anchor, figures, option.exchanged)
    figures["steps"] = STEPS

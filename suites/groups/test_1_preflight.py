"""Before any rank starts: this host, its variables and its cards suit the groups that the stack forms."""

from __future__ import annotations

import pytest

from stackproof.device import devices
from stackproof.ranks import preflight
from stackproof.ranks.launch import arrange_over
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.groups.sharing import WORLD, refused_by_preflight

_DEADLINE_S = 90.0


@pytest.mark.deadline(60)
def test_suits(stack: Stack, backend: str, figures: dict[str, Figure]) -> None:
    """The preflight finds nothing to refuse in the group that answers for this backend."""
    chosen = arrange_over(stack, backend, devices.visible(stack.device), WORLD)
    group = preflight.local_group(stack, chosen.backend, chosen.cards, _DEADLINE_S, chosen.on_host)
    refusals = preflight.refusals(group)
    require(not refusals, " | ".join(refusals))
    figures |= {f"rank {seat.rank}": f"{seat.card} ({seat.identity})" for seat in group.seats}
    figures["interfaces"] = ", ".join(group.nodes[0].interfaces)
    where = ", ".join(dict.fromkeys(f"{seat.card} ({seat.identity})" for seat in group.seats))
    figures["summary"] = (
        f"{len(group.seats)} rank(s) of {backend} on {where}, over {figures['interfaces'] or 'no network'}"
    )


@pytest.mark.deadline(60)
def test_duplicate(stack: Stack, figures: dict[str, Figure]) -> None:
    """Two ranks on one card over the stack's own backend are refused, in the words that its library would die with."""
    figures["summary"] = refused_by_preflight(stack)

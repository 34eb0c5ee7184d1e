"""Fifty clean launches in a row: none of them may be called a failure, a crash or a hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.device import devices
from stackproof.ranks.blame import Traces
from stackproof.ranks.launch import arrange, launch
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.runner.request import Request
from stackproof.stack.stacks import Stack

LAUNCHES = 50
WORLD = 2
_DEADLINE_S = 120.0


@pytest.mark.parametrize("number", range(1, LAUNCHES + 1))
@pytest.mark.deadline(150)
def test_clean(number: int, stack: Stack, run_request: Request, figures: dict[str, Figure]) -> None:
    """A group forms, sums, splits and ends; every rank answers, and no process is left."""
    folder = Path(run_request.folder) / f"launch-{number}"
    pair = arrange(stack, devices.visible(stack.device), WORLD)
    deadline_s = _DEADLINE_S * run_request.deadline_scale
    ranks = launch("stackproof.ranks.joined:report", stack, pair, {}, folder, deadline_s, checked=run_request.preflight)
    require([rank["rank"] for rank in ranks] == list(range(WORLD)), f"{len(ranks)} of {WORLD} ranks answered")
    left = Traces(folder, WORLD).left()
    require(not left, f"processes {left} are left")
    figures |= {"formed_s": max(rank["formed_s"] for rank in ranks), "split_s": max(rank["split_s"] for rank in ranks)}
    figures["summary"] = f"{pair.backend}: {WORLD} ranks formed in {figures['formed_s']:.2f} s and ended"

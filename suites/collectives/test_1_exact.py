"""Every collective, operator and form in every dtype, bit by bit against plain arithmetic on the CPU, on every rank.

Not seen: tensors above four million elements, dtypes and operators without a row, sizes between those tried,
tags of messages and receiving from anybody.
"""

from __future__ import annotations

import pytest
import torch

from stackproof.collectives.table import FLOATS, Row, World, applicable, judge, repeatable, repro
from stackproof.ranks.rows import RowRunner
from stackproof.record.checks import CapabilityMissing, CheckFailed, require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.common import supported
from suites.ranks import require_group

from .conftest import Trials


@pytest.mark.deadline(900)
def test_agrees(backend: str, row: Row, stack: Stack, trials: Trials, figures: dict[str, Figure]) -> None:
    """Each rank gets the exact result of all ranks' known data, and nothing beside it is written."""
    if row.dtype in FLOATS:
        supported(stack, getattr(torch, row.dtype))
    suited = [(world, runner) for world, runner in trials(backend) if applicable(row, world.size)]
    if not suited:
        capabilities.withhold("a-card-each", f"{row.collective} needs two ranks, and {backend} has one card")
    sentences = {world.size: _verdict(row, world, runner, stack, figures) for world, runner in suited}
    if not any(sentences.values()):
        lack = suited[0][0].lack(row)
        assert lack is not None
        raise CapabilityMissing(lack.sentence)
    require_group(stack, max(world for world, sentence in sentences.items() if sentence), backend, figures)
    figures["summary"] = "; ".join(filter(None, sentences.values()))


def _verdict(row: Row, world: World, runner: RowRunner, stack: Stack, figures: dict[str, Figure]) -> str:
    """Judge one world size, unless a row of data keeps it from being tried; the figures hold the code that repeats a wrong case."""
    if not world.tries(row):
        return ""
    ranks = runner.outcome(row.name)
    for key in ("right", "refused", "wrong"):
        figures[f"{key}, {world.label}"] = sum(outcome[key] for outcome in ranks)
    try:
        return judge(row, world, ranks, world.lack(row))
    except CheckFailed as failure:
        if repeatable(row, ranks):
            figures["repro"] = repro(str(failure), world, stack.imports, ranks, subgroup=row.form == "subgroup")
        raise


@pytest.mark.deadline(900)
def test_backend(backend: str, stack: Stack, trials: Trials, figures: dict[str, Figure]) -> None:
    """Every rank's group is of the backend that was asked for, and of the class that bears its name."""
    for world, runner in trials(backend):
        runner.outcome(runner.rows[0])
        for rank, report in enumerate(runner.ranks):
            name, implementation = report["backend"], report["implementation"]
            require(name == backend, f"{world.label}: rank {rank} has backend {name}, {backend} was asked for")
            served = implementation.casefold().endswith(backend)
            require(served, f"{world.label}: {backend} is served by {implementation} on rank {rank}")
            figures[f"rank {rank}, {world.label}"] = implementation
        require(len(runner.ranks) == world.size, f"{world.label}: {len(runner.ranks)} ranks named their backend")
    summary = ", ".join(f"{what}: {who}" for what, who in figures.items())
    require_group(stack, max(world.size for world, _ in trials(backend)), backend, figures)
    figures["summary"] = summary

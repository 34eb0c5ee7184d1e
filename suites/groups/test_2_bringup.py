"""Each backend of the stack comes up: every rank says who it is, what forming and splitting cost, and what is in effect."""

from __future__ import annotations

import os

import pytest

from stackproof.device import devices
from stackproof.ranks import libraries
from stackproof.ranks.launch import arrange_over
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.groups.sharing import WORLD
from suites.ranks import Group, Launches, require_group

_DEADLINE_S = 120.0


def bring_up(stack: Stack, launches: Launches, backend: str) -> Group:
    """Return the group that answers for a backend, its library told to say what it does."""
    talk = dict(libraries.serving(backend).talk)
    program = "stackproof.ranks.joined:report"
    arrangement = arrange_over(stack, backend, devices.visible(stack.device), WORLD)
    return launches(program, arrangement, {}, _DEADLINE_S, environment=talk)


@pytest.mark.deadline(180)
def test_forms(stack: Stack, launches: Launches, backend: str, figures: dict[str, Figure]) -> None:
    """Every rank is in the group that was asked for, on the card that was asked for, and sums exactly."""
    group = bring_up(stack, launches, backend)
    world = len(group.arrangement.cards)
    require(len(group.ranks) == world, f"{len(group.ranks)} of {world} ranks answered")
    for rank, report in enumerate(group.ranks):
        require(report["backend"] == backend, f"rank {rank} has backend {report['backend']}, {backend} was asked for")
        require(
            report["world_size"] == world, f"rank {rank} is in a group of {report['world_size']}, {world} was asked for"
        )
        fields = ("host", "pid", "device", "device of the group", "name", "bus id", "formed_s")
        figures |= {f"rank {rank}.{name}": report[name] for name in fields}
    cards = {(rank["host"], rank["bus id"] or rank["device"]) for rank in group.ranks}
    asked = len(set(group.arrangement.cards))
    require(
        group.arrangement.on_host or len(cards) == asked,
        f"{world} ranks are on {len(cards)} cards, {asked} were asked for",
    )
    require_group(stack, world, backend, figures)
    slowest = max(rank["formed_s"] for rank in group.ranks)
    who = ", ".join(f"rank {rank['rank']} on {rank['device']} {rank['bus id']}".rstrip() for rank in group.ranks)
    figures["summary"] = f"{backend}: {who}; formed in {slowest:.2f} s{group.note}"


@pytest.mark.deadline(180)
def test_splits(stack: Stack, launches: Launches, backend: str, figures: dict[str, Figure]) -> None:
    """A second group over the same ranks forms and sums exactly; what it costs is a figure (24 s were seen once)."""
    group = bring_up(stack, launches, backend)
    figures |= {f"rank {rank['rank']}.split_s": rank["split_s"] for rank in group.ranks}
    slowest = max(rank["split_s"] for rank in group.ranks)
    require_group(stack, len(group.ranks), backend, figures)
    require(slowest > 0, "a second group took no time: it was not formed, or the clock stands still")
    figures["summary"] = (
        f"{backend}: a second group of {len(group.ranks)} rank(s) formed in {slowest:.2f} s{group.note}"
    )


@pytest.mark.deadline(180)
def test_effect(stack: Stack, launches: Launches, backend: str, figures: dict[str, Figure]) -> None:
    """The settings in the library's own log do not contradict the environment variables."""
    group, library = bring_up(stack, launches, backend), libraries.serving(backend)
    if library.silent:
        figures["summary"] = library.silent
        return
    asked = {**stack.environment, **os.environ}
    effects = {rank: library.read(group.traces.library_said(rank), asked) for rank in range(len(group.ranks))}
    facts = libraries.common_facts(effects)
    talk = " ".join(f"{name}={value}" for name, value in library.talk.items())
    require("version" in facts, f"{library.name} left no log that says its version, although {talk} asks for one")
    denied = [sentence for effect in effects.values() for sentence in effect.contradictions]
    require(not denied, " | ".join(dict.fromkeys(denied)))
    warned = dict.fromkeys(sentence for effect in effects.values() for sentence in effect.warnings)
    figures |= {**facts, **{f"warning {number}": sentence for number, sentence in enumerate(warned, 1)}}
    summary = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "bus id")
    figures["summary"] = "; ".join([f"{library.name}: {summary}", *warned])

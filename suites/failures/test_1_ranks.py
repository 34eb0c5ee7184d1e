"""Ranks that fail on purpose: each failure ends in time, the right rank is named for the right reason, and no process is left.

The rank that hung is the one that entered fewest collectives and does not wait in one itself.
Not seen: a card that hangs in an earlier kernel while its rank waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stackproof.device import devices
from stackproof.ranks.blame import Traces, late
from stackproof.ranks.launch import Arrangement, arrange, launch
from stackproof.record.checks import CheckCrashed, CheckEnded, CheckFailed, CheckHung, require
from stackproof.record.records import Figure
from stackproof.runner.request import Request
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack

WORLD = 2
_START_S = 120.0
# A hang is waited for to the end of this; what fails by itself may be slow in it on a busy host; the last is seen either way.
_HUNG_S, _FAILED_S, _EITHER_S = 5.0, 30.0, 10.0
# What the launcher may take to notice, to let ranks dump their stacks, and to end them.
_GRACE_S = 15.0
# The timeout of a group that gives up, long enough to form in; a watchdog may look a little early.
_PATIENCE_S, _EARLY = 10.0, 0.8


@dataclass(frozen=True)
class Fault:
    """A program whose rank 1 fails, how that may end, and words that the message must hold."""

    program: str
    ends: tuple[type[CheckEnded], ...]
    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def within_s(self) -> float:
        if CheckHung not in self.ends:
            return _FAILED_S
        return _HUNG_S if len(self.ends) == 1 else _EITHER_S


FAULTS = {
    "killed": Fault("programs:killed", (CheckCrashed,), ("rank 1", "signal SIGKILL", "'sums without end'")),
    "hangs": Fault("programs:hangs", (CheckHung,), ("rank 1 hung in 'a step that does not end'", "in hangs")),
    "hangs around a collective": Fault(
        "programs:around",
        (CheckHung,),
        ("rank 1 hung in 'a sum that somebody wrapped'", "in _wrapped", "rank 1 did not call number", "rank 0 was in"),
    ),
    "stopped": Fault("programs:stopped", (CheckHung,), ("rank 1 hung in 'the last step'", "it left no stack")),
    "raises": Fault(
        "programs:raises",
        (CheckFailed,),
        ("rank 1 failed in 'the step that raises': ValueError: this sample is broken",),
    ),
    "crashes at import": Fault("crashing:healthy", (CheckCrashed,), ("rank 1", "signal SIGSEGV", "crashing.py")),
    # A library may notice that the peer is gone, or wait for it.
    "a collective too few": Fault(
        "programs:too_few",
        (CheckFailed, CheckCrashed, CheckHung),
        ("rank 1 did not call number 3 of the world, all_reduce", "rank 0", "'sum 3'"),
    ),
    # c10d compares what the ranks call; without that, gloo aborts, and NCCL may sum what is not there.
    "mismatched shapes": Fault(
        "programs:shapes",
        (CheckFailed, CheckCrashed),
        ("'a sum of mismatched shapes'", "called different collectives, or with different shapes"),
        environment=(("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),),
        needs=("collectives-compared",),
    ),
}

Provoke = Callable[[Fault], tuple[str, float]]


@pytest.fixture
def provoke(stack: Stack, run_request: Request) -> Provoke:
    """Launch a fault in a folder of its own; return how it was named and the seconds, with nothing left running."""

    def run(fault: Fault) -> tuple[str, float]:
        folder = Path(run_request.folder) / f"fault-{fault.program.replace(':', '-')}"
        within_s, began = fault.within_s * run_request.deadline_scale, time.monotonic()
        sentence = _outcome(stack, run_request, fault, folder, within_s)
        seconds, traces = time.monotonic() - began, Traces(folder, WORLD)
        limit = (_START_S + _FAILED_S) * run_request.deadline_scale + _GRACE_S
        require(seconds < limit, f"it took {seconds:.0f} s to end, {limit:.0f} s are allowed: {sentence}")
        require(not traces.left(), f"processes {traces.left()} are left after: {sentence}")
        return sentence, seconds

    return run


def _outcome(stack: Stack, request: Request, fault: Fault, folder: Path, within_s: float) -> str:
    try:
        _launched(fault.program, stack, request, folder, within_s=within_s, environment=dict(fault.environment))
    except CheckEnded as ended:
        require(isinstance(ended, fault.ends), f"it ended as {ended.verdict.value}: {ended}")
        return str(ended)
    require(False, f"two ranks ended well, although rank 1 of {fault.program} fails on purpose")
    return ""


def _launched(program: str, stack: Stack, request: Request, folder: Path, **options: Any) -> list[dict[str, Any]]:
    """Run a program of this suite on two ranks, in a folder of its own; `options` are those of `launch`."""
    limit = _START_S * request.deadline_scale
    name = f"suites.failures.{program}"
    return launch(name, stack, pair(stack), {}, folder, limit, checked=request.preflight, **options)


def pair(stack: Stack) -> Arrangement:
    """Return two ranks over the stack's own backend if there are cards enough, else over the one that lets them share."""
    return arrange(stack, devices.visible(stack.device), WORLD)


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.deadline(180)
def test_named(name: str, stack: Stack, provoke: Provoke, figures: dict[str, Figure]) -> None:
    """The failure is named: which rank, where, by which signal or in which words."""
    fault = FAULTS[name]
    for capability in fault.needs:
        capabilities.require(stack, capability)
    sentence, seconds = provoke(fault)
    missing = [word for word in fault.words if word not in sentence]
    require(not missing, f"{missing} is not in: {sentence}")
    figures |= {"named": sentence, "seconds": seconds}
    figures["summary"] = sentence


@pytest.mark.deadline(180)
def test_timeout(stack: Stack, run_request: Request, figures: dict[str, Figure]) -> None:
    """A group waits as long as `init_process_group(timeout=...)` says: not for ever, and not less."""
    capabilities.require(stack, "group-time-out")
    asked, scale = _PATIENCE_S * run_request.deadline_scale, run_request.deadline_scale
    ranks = _launched(
        "programs:gives_up",
        stack,
        run_request,
        Path(run_request.folder) / "fault-timeout",
        within_s=asked + _FAILED_S * scale,
        environment={"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_XCCL_BLOCKING_WAIT": "1"},
        patience_s=asked,
    )
    message, seconds = ranks[0]["message"], ranks[0]["seconds"]
    require(bool(message), f"a sum that rank 1 never called ended well after {seconds:.1f} s")
    figures |= {"seconds": seconds, "asked for, s": asked, "world size": len(ranks)}
    require(
        asked * _EARLY <= seconds <= asked + _GRACE_S * scale,
        f"a group formed with a timeout of {asked:g} s gave up after {seconds:.1f} s: {message}",
    )
    figures["summary"] = f"a sum that rank 1 never called was given up after {seconds:.1f} of {asked:g} s"


@pytest.mark.deadline(180)
def test_straggler(stack: Stack, run_request: Request, figures: dict[str, Figure]) -> None:
    """A slow rank slows all down alike; the one that the others wait for is named, with the seconds."""
    folder = Path(run_request.folder) / "fault-slow"
    _launched("programs:slow", stack, run_request, folder)
    sentence = late(Traces(folder, WORLD).journals())
    require(bool(sentence), "no straggler was found, although rank 1 takes 0.1 s longer for every step")
    who = sentence.partition(" is ")[0]
    require(who == "rank 1", f"{who} was named as the straggler, rank 1 is")
    require(not Traces(folder, WORLD).left(), "processes are left after ranks that ended well")
    figures["summary"] = sentence

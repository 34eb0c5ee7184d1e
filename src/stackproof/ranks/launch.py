"""Launches ranks, and says which rank failed, crashed or hung, and where.

A hang must be ended from outside: a peer that was stopped can hang a process group for ever, whatever its own time-out says.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch._C._distributed_c10d import TCPStore

from stackproof.base import files, processes
from stackproof.device.kinds import Device
from stackproof.ranks import libraries, preflight
from stackproof.ranks.blame import FORMED, Traces, who_failed, who_hung
from stackproof.ranks.launchers import LONGEST_S, SHOW_STACKS, Spec, note_failure
from stackproof.record.checks import CheckHung
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.triage import explain, rules

_GRACE_S = 3.0
_TELL_S = 5.0
_OTHERS_S = 1.0
"""How long the others have, once a rank has failed, to fail of themselves and say why."""


@dataclass(frozen=True)
class Arrangement:
    """Which rank runs on which card, over which backend; `note` says what such a group does not prove."""

    backend: str
    cards: tuple[int, ...]
    note: str = ""
    on_host: bool = False
    """Whether the tensors are the host's: some backends take no others."""


def arrange(stack: Stack, cards: Sequence[Device], world_size: int) -> Arrangement:
    """Give each rank a card of its own; where there are fewer cards than ranks, share the first over another backend.

    NCCL, RCCL and oneCCL refuse two ranks on one card ("Duplicate GPU detected"), so a shared card says nothing about them.
    """
    if len(cards) >= world_size:
        return Arrangement(stack.backend, tuple(card.index for card in cards[:world_size]))
    if cards[0].shareable:
        return Arrangement(stack.backend, (cards[0].index,) * world_size)
    if not stack.shared_card_backend:
        capabilities.withhold(
            "a-card-each",
            f"{stack.definition}: shared_card_backend is empty: no backend of this stack lets "
            f"{world_size} ranks share one card, and {len(cards)} is visible",
        )
    note = f"{world_size} ranks share {cards[0]} over {stack.shared_card_backend}; {stack.backend} is not verified at this world size"
    return Arrangement(stack.shared_card_backend, (cards[0].index,) * world_size, note)


def arrange_over(stack: Stack, backend: str, cards: Sequence[Device], world_size: int) -> Arrangement:
    """Let one backend answer for itself: each rank has a card of its own where its library wants that, though there be fewer cards."""
    library = libraries.serving(backend)
    if stack.device not in library.devices:
        note = f"{library.name} takes no tensors of {stack.device}, so they are the host's"
        return Arrangement(backend, (0,) * world_size, note, on_host=True)
    if len(cards) >= world_size or (library.own_cards and not cards[0].shareable):
        note = "" if len(cards) >= world_size else f"one rank: there is one card, and {backend} wants one for each rank"
        return Arrangement(backend, tuple(card.index for card in cards[:world_size]), note)
    note = "" if cards[0].shareable else f"the ranks share {cards[0]}"
    return Arrangement(backend, (cards[0].index,) * world_size, note)


def launch(
    program: str,
    stack: Stack,
    arrangement: Arrangement,
    arguments: dict[str, Any],
    folder: Path,
    deadline_s: float,
    *,
    within_s: float = 0.0,
    environment: Mapping[str, str] | None = None,
    checked: bool = True,
    patience_s: float = 0.0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Run `module:function` on every rank and return what each rank gave back, in order of rank.

    A deadline is for silence: it begins anew with each phase that a rank notes, and is longer where the host is crowded.

    `deadline_s`: how long all ranks may be silent.
    `within_s`: the same once the group has formed (0: as before): a busy host starts slowly, which is not a hang.
    `progress`: who is told now and then how far the ranks are.
    `environment`: variables that each rank sets before its group forms; `{file}` stands for a log of its own.
    `checked`: hold the preflight first, so that what cannot work is refused before any rank starts.
    `patience_s`: the timeout that the group is formed with, where that is what is looked at.

    Raises:
        PreflightRefusal: nothing was started.
        CheckFailed: a rank raised; the message names it and what it said.
        CheckCrashed: a rank died by a signal.
        CheckHung: the ranks were silent for longer than they may be; the message names the one that got least far.
    """
    if checked:
        preflight.require(
            preflight.local_group(stack, arrangement.backend, arrangement.cards, deadline_s, arrangement.on_host)
        )
    crowding = processes.crowding()  # the preflight refuses what somebody chose too long, not a crowded host
    deadline_s, within_s = deadline_s * crowding, (within_s or deadline_s) * crowding
    folder.mkdir(parents=True, exist_ok=True)
    spec = Spec(
        program, stack.name, stack.rehearsed, arrangement.backend, arrangement.cards, arguments, folder, deadline_s,
        time.time() + deadline_s, within_s, arrangement.on_host, dict(environment or {}), patience_s,
    )  # fmt: skip
    traces = Traces(folder, len(spec.cards))
    if _run(spec, traces, progress):
        patience = within_s if traces.formed() else deadline_s
        raise _explained(CheckHung(who_hung(traces, patience)), traces)
    if traces.raised() or traces.failures():
        raise _explained(who_failed(traces), traces)
    return [files.read_json(folder / f"rank{rank}.json") for rank in range(traces.world_size)]


def _explained(ended: Exception, traces: Traces) -> Exception:
    text = explain.explain([traces.log(rank) for rank in range(traces.world_size)])
    return type(ended)(f"{ended}; triage: {text}") if text and rules.UNKNOWN not in text else ended


def _run(spec: Spec, traces: Traces, progress: Callable[[str], None]) -> bool:
    """Hold the ranks' store, run them as torchrun does, and return whether they hung; nothing that they started is left.

    On a busy host a rank that raised may not have ended yet. The store's port is one that the kernel chose as it was bound.
    """
    mark, path = processes.new_mark(), spec.save()
    store, size = TCPStore("localhost", 0, is_master=True, wait_for_workers=False), str(traces.world_size)
    # Each rank taking all cores is slower for everybody; the user may have decided.
    threads = str(max(1, processes.cores() // traces.world_size))
    shared = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
    # What torch reads when it is imported (TORCH_DISTRIBUTED_DEBUG) has to be there when a rank starts.
    shared |= {name: value for name, value in spec.environment.items() if "{file}" not in value}
    shared |= {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "ranks"}
    shared |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port)}
    (traces.folder / "mark").write_text(mark, encoding="ascii")
    command = [sys.executable, "-m", "stackproof.ranks.joined", str(path)]
    living = dict[int, processes.Process]()
    try:
        for rank in range(traces.world_size):
            with (traces.folder / f"rank{rank}.log").open("wb") as output:
                own = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                living[rank] = processes.start(command, output, own, mark)
        return _wait(dict(living), spec, traces, progress) and not traces.raised()
    finally:
        for child in living.values():
            processes.end_tree(mark, child)


def _wait(living: dict[int, processes.Process], spec: Spec, traces: Traces, progress: Callable[[str], None]) -> bool:
    """Wait for the ranks, and return whether they were silent for longer than they may be, or took an hour; note who failed.

    A rank that ends with 0 and leaves no result has not ended well: something in it called `exit`.
    """
    noted = reported = time.monotonic()
    last, until, seen, formed = noted + LONGEST_S * processes.crowding(), math.inf, 0, False
    while living and time.monotonic() < until:
        for rank, child in list(living.items()):
            if child.poll() is not None:
                del living[rank]
                if child.returncode or not (traces.folder / f"rank{rank}.json").exists():
                    note_failure(traces.folder, rank, child.returncode)
                    until = min(until, time.monotonic() + _OTHERS_S)
        now, moved = time.monotonic(), traces.size()
        formed = formed or traces.formed()
        if moved != seen:
            seen, noted = moved, now
            if now > reported + _TELL_S:
                reported = now
                progress(", ".join(f"rank {rank} in '{traces.place(rank)}'" for rank in range(traces.world_size)))
        if now > min(last, noted + (spec.within_s if formed else spec.deadline_s) + _GRACE_S):
            return until == math.inf and bool(living)
        time.sleep(0.03)
    for rank in (rank for rank in living if FORMED in traces.phases(rank)):
        living[rank].send_signal(SHOW_STACKS)
    time.sleep(0.3 if living else 0)
    return False

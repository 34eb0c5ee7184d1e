"""What the outcomes of a row mean: right, not offered by a row of data, or wrong, with code that repeats the first wrong case."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stackproof.base import places
from stackproof.collectives import calls
from stackproof.collectives.calls import COLLECTIVES, MOST_RANKS
from stackproof.collectives.table import COUNTS, SHORT, Lack, Row, lacking
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.ranks import libraries
from stackproof.ranks.launch import Arrangement, arrange_over
from stackproof.ranks.rows import Outcome
from stackproof.record.checks import CheckFailed, require
from stackproof.stack.stacks import Stack

PROGRAM = "stackproof.collectives.rank:check"
SIZES = (2, 3)


@dataclass(frozen=True)
class World:
    """A group to try, the element counts to try in it, and the torch device type of its tensors."""

    arrangement: Arrangement
    counts: tuple[int, ...]
    device: str

    @property
    def size(self) -> int:
        """The world size."""
        return len(self.arrangement.cards)

    @property
    def label(self) -> str:
        """How sentences name it, with what it does not prove."""
        note = f"; {self.arrangement.note}" if self.arrangement.note else ""
        return f"{self.arrangement.backend}, {self.size} rank{'s' if self.size > 1 else ''}{note}"

    def lack(self, row: Row) -> Lack | None:
        """Return the row of data that says that the backend does not offer this, or None."""
        return lacking(row, self.arrangement.backend, self.device)

    def tries(self, row: Row) -> bool:
        """Whether the row is given to the ranks; the others would end them."""
        lack = self.lack(row)
        return lack is None or lack.tried


def worlds(stack: Stack, backend: str, cards: Sequence[Device]) -> list[World]:
    """Return the groups that answer for a backend of the stack: two ranks with all counts, then an odd number and all cards.

    Odd world sizes find what powers of two hide. Where the library wants a card for each rank and there is one, it is tried alone:
    that has bugs of its own (https://github.com/NVIDIA/nccl/issues/1950).
    """
    library = libraries.serving(backend)
    shared = cards[0].shareable or not library.own_cards
    alike = stack.device not in library.devices or (len(cards) == 1 and shared)
    sizes = SIZES if alike else sorted({min(size, len(cards), MOST_RANKS) for size in (*SIZES, len(cards))})
    arrangements = [arrange_over(stack, backend, cards, size) for size in sizes]
    device = HOST.kind if arrangements[0].on_host else stack.device
    return [World(arrangement, SHORT if number else COUNTS, device) for number, arrangement in enumerate(arrangements)]


def judge(row: Row, world: World, ranks: Sequence[Outcome], lack: Lack | None) -> str:
    """Return how many cases were right over all ranks, or nothing if the row of data holds that the backend does not offer it.

    Raises:
        CheckFailed: a rank has a wrong number, ranks differ, a refusal has no row, or a row is out of date.
    """
    what = f"{row.collective} {row.form} {row.dtype} ({world.label})"
    _require_right(what, ranks)
    right, refused = (sum(outcome[key] for outcome in ranks) for key in ("right", "refused"))
    require(right + refused > 0, f"{what}: no case was tried")
    if lack is not None:
        _require_lack(what, lack, ranks, right)
        return ""
    for rank, outcome in enumerate(ranks):
        if outcome["refusal"]:
            raise CheckFailed(f"{what}: rank {rank} got {_refusal(outcome)}")
    return f"{right} cases over {world.label}{_notes(ranks)}"


def _require_right(what: str, ranks: Sequence[Outcome]) -> None:
    for rank, outcome in enumerate(ranks):
        require(not outcome["sentence"], f"{what}: rank {rank}: {outcome['sentence']}")
    if (first := first_wrong(ranks)) is not None:
        raise CheckFailed(_wrong(what, first, ranks[first]))
    digests = {outcome["digest"] for outcome in ranks if outcome["digest"]}
    require(len(digests) <= 1, f"{what}: the ranks hold different bits of the same result")


def _refusal(outcome: Outcome) -> str:
    case = outcome["refusal"]["case"]
    place = f" for {case_words(case)}, {outcome['refused']} cases in all" if case else ""
    return f"{outcome['refusal']['said']!r}{place}; what a backend does not offer needs a row of {places.table('collectives.toml')}"


def _notes(ranks: Sequence[Outcome]) -> str:
    worst = max(
        (outcome for outcome in ranks if "bound" in outcome), key=lambda one: one["error"] / one["bound"], default=None
    )
    error = f", error {worst['error']:.1e} of {worst['bound']:.1e} allowed" if worst else ""
    return error + (", the call blocks until all have come" if any(outcome.get("blocks") for outcome in ranks) else "")


def first_wrong(ranks: Sequence[Outcome]) -> int | None:
    """Return the rank whose first wrong case came first; None if no rank has one."""
    wrong = [rank for rank, outcome in enumerate(ranks) if outcome["fault"]]
    return min(wrong, key=lambda rank: int(ranks[rank]["fault"]["case"]["number"]), default=None)


def _wrong(what: str, rank: int, outcome: Outcome) -> str:
    fault, cases = outcome["fault"], outcome["right"] + outcome["wrong"] + outcome["refused"]
    value = f"rank {rank} has {fault['got']} instead of {fault['expected']} at element {fault['at']} of {fault['of']}"
    where = {"result": "", "input": " in what it passed in"}.get(fault["what"], f" in the {fault['what']}")
    if fault.get("outside"):
        where += f", and {fault['outside']} numbers before or behind the tensors are overwritten"
    return (
        f"{what}: {value}{where}, {fault['wrong']} wrong, {case_words(fault['case'])}; "
        f"{outcome['wrong']} of this rank's {cases} cases"
    )


def _require_lack(what: str, lack: Lack, ranks: Sequence[Outcome], right: int) -> None:
    """The row still holds: every rank refused every case in the words of the row."""
    require(
        right == 0,
        f"{what}: {right} cases work, though {lack.place} says it is not offered ({lack.reason}): delete or narrow the row",
    )
    for rank, outcome in enumerate(ranks):
        refusal = outcome["refusal"]
        require(
            refusal is None or lack.says in refusal["said"],
            f"{what}: rank {rank} got {refusal and refusal['said']!r}; {lack.place} expects {lack.says!r}",
        )


def case_words(case: dict[str, Any]) -> str:
    """Return a case in words."""
    count = "a tensor without dimensions" if case["count"] < 0 else f"{case['count']} elements"
    return f"{count}, layout {case['layout']}, ranks {', '.join(map(str, case['peers']))}, root {case['peers'][case['root']]}"


_HEAD = """# {title}
# torchrun --nproc-per-node {size} THIS_FILE
"""

_TAIL = """

import os
{imports}

rank = int(os.environ["RANK"])
device = torch.device({devices}[rank])
if device.index is not None:
    torch.get_device_module(device).set_device(device)
dist.init_process_group({backend!r}{bound})
case, wrong = Case(**{case}), None
collective, group = COLLECTIVES[case.collective], {group}
if rank in case.peers:
    turn = prepare(case, collective, case.peers.index(rank), device, group)
    print(f"rank {{rank}} passes in {{[tensor.reshape(-1)[:8].tolist() for tensor in turn.given]}} ...")
    play(turn, collective)
    if device.index is not None:
        torch.get_device_module(device).synchronize()
    wrong = fault(turn, collective)
    print(f"rank {{rank}}: {{wrong or 'right'}}", flush=True)
dist.barrier()
os._exit(wrong is not None)
"""


def repeatable(row: Row, ranks: Sequence[Outcome]) -> bool:
    """Whether one call alone can show what is wrong: not where it depends on who comes late or on other groups."""
    return first_wrong(ranks) is not None and row.form != "late" and row.collective in COLLECTIVES


def repro(title: str, world: World, imports: Sequence[str], ranks: Sequence[Outcome], *, subgroup: bool = False) -> str:
    """Return a program for torchrun that repeats the first wrong case and ends with 1 if it is still wrong; it needs torch alone."""
    case, devices = ranks[first_wrong(ranks) or 0]["fault"]["case"], [outcome["device"] for outcome in ranks]
    everyone = list(case["peers"]) == list(range(world.size))
    bound = ":" in devices[0] and libraries.serving(world.arrangement.backend).device_id
    facts = {
        "title": " ".join(title.split()),
        "size": world.size,
        "imports": "\n".join(f"import {name}" for name in imports),
        "devices": devices,
        "backend": world.arrangement.backend,
        "bound": ", device_id=device" if bound else "",
        "case": case,
        "group": "None" if everyone and not subgroup else "dist.new_group(list(case.peers))",
    }
    return _HEAD.format(**facts) + inspect.getsource(calls) + _TAIL.format(**facts)

"""Which checks of collectives there are, with which cases, what backends do not offer (`data/collectives.toml`), and what outcomes mean.

What is not offered is tried too, and fails once it works; what ends the ranks instead of refusing is left out, up to a version of torch.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from packaging.version import Version

from stackproof import DATA
from stackproof.base import places
from stackproof.base.text import matches
from stackproof.base.toml import Table, Wrong
from stackproof.collectives import calls
from stackproof.collectives.calls import COLLECTIVES, LARGEST, LONG, MOST_RANKS, Case, Collective, lesser
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.ranks import libraries
from stackproof.ranks.launch import Arrangement, arrange_over
from stackproof.record.checks import CheckFailed, require
from stackproof.record.outcomes import Outcome
from stackproof.stack.known_issues import ANY_VERSION, Versions
from stackproof.stack.stacks import Stack

OPERATORS = ("sum", "avg", "min", "max", "prod")
FLOATS = ("float32", "float64", "bfloat16", "float16")
DTYPES = (*FLOATS, "int32", "int64", "bool")
FEW = ("float32", "bfloat16", "int64")
"""One dtype of each size: enough where all have been tried in another form."""
# Sizes at which libraries change their algorithm: https://github.com/intel/torch-xpu-ops/issues/3020 has AVG wrong for tensors without
# dimensions (-1) and of 1, 2, 4, 28, 30, 31 and 33 elements.
_SMALL = (-1, 0, 1, 2, 3, 4, 7, 8, 12, 19, 28, 30, 31, 32, 33, 48, 64, 90, 127, 128, 129)
# Between those, each 1.7 times the one before at most, and no power of two.
_BETWEEN_SIZES = (
    200, 333, 555, 777, 1025, 1601, 2500, 4097, 6007, 9999, 16411, 26001, 42013, 65537, 110017, 180001, 300007, 500009, 800011
)  # fmt: skip
COUNTS = (*_SMALL, *_BETWEEN_SIZES, LONG)
LARGE = ((1 << 20) * 3 // 2 + 1, (1 << 21) + 5, 3_000_017, LARGEST)
SHORT = (-1, 0, 1, 3, 7, 33, 129)
EVEN = (8, 28, 48, 64, 128, 2502, 65538, 300008)
FORMED = (2500, 65537, 300007)
"""Sizes that every form has besides small ones: a message of some pages, and one that is cut or goes another way."""
LATE = 129
REAL = (33, 65537)

# Calls that the backend makes one operation of, and single functions for several tensors.
COALESCING = ("coalescing_all_reduce", "coalescing_all_gather", "coalescing_reduce_scatter")
BLOCKS = (*COALESCING, "batch_isend_irecv")
"""What torch wraps in a block of calls, which stays open if one of them is refused."""
_COALESCED = ("all_reduce_coalesced", "all_gather_coalesced")
_BETWEEN = ("send_recv", "isend_irecv", "batch_isend_irecv")
_SCALAR = ("all_gather_into_tensor", "reduce_scatter_tensor")
_LARGE = {
    "all_reduce": ("sum", "avg"),
    "reduce_scatter_tensor": ("sum", "avg"),
    "all_gather_into_tensor": ("copy",),
    "broadcast": ("copy",),
}
OBJECTS = ("all_gather", "gather", "broadcast", "scatter")
"""Ways of exchanging Python objects."""


@dataclass(frozen=True)
class Row:
    """One check: the collective, the operator (`copy` where nothing is reduced) or form, and the dtype."""

    collective: str
    form: str
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.collective}-{self.form}-{self.dtype}"

    @classmethod
    def of(cls, name: str) -> Row:
        return cls(*name.split("-"))


def rows() -> list[Row]:
    """Return all rows; those that are known to kill a rank on some backend come last."""
    everything = list(COLLECTIVES.values())
    result = [row for collective in everything for row in _plain(collective)]
    for form, suits in _FORMS.items():
        result += [Row(collective.name, form, dtype) for collective in everything if suits(collective) for dtype in FEW]
    result += [Row(collective.name, "late", "float32") for collective in everything if _asynchronous(collective)]
    for name, operator in itertools.product(("all_reduce", "reduce_scatter_tensor"), ("sum", "avg", "prod")):
        result += [Row(name, f"real_{operator}", dtype) for dtype in FLOATS]
    result += [
        Row(name, f"large_{operator}", dtype) for name, asked in _LARGE.items() for operator in asked for dtype in FEW
    ]
    result += [Row("objects", form, "none") for form in OBJECTS]
    result += [Row("groups", form, "float32") for form in ("interleaved", "overlapping")]
    result += [Row("barrier", form, "none") for form in ("world", "async", "subgroup")]
    return [*result, *(Row(name, "scalar", "float32") for name in _SCALAR)]


def _plain(collective: Collective) -> Iterator[Row]:
    """Yield every operator in every dtype; a mean of truth values has no meaning."""
    single = collective.name not in (*_COALESCED, *COALESCING)
    operators = (OPERATORS if single else ("sum",)) if collective.reduces else ("copy",)
    for operator, dtype in itertools.product(operators, FEW if collective.name in COALESCING else DTYPES):
        if (operator, dtype) != ("avg", "bool"):
            yield Row(collective.name, operator, dtype)


def _asynchronous(collective: Collective) -> bool:
    return collective.name not in (*COALESCING, *_BETWEEN)


def _strided(collective: Collective) -> bool:
    return collective.name not in (*COALESCING, *_COALESCED, "send_recv", "isend_irecv")


def _transposed(collective: Collective) -> bool:
    return _strided(collective) and "joined" not in (collective.gives, collective.takes)


_FORMS: dict[str, Callable[[Collective], bool]] = {
    "async": _asynchronous,
    "strided": _strided,
    "transposed": _transposed,
    "subgroup": lambda collective: collective.name not in (*COALESCING, *_COALESCED),
    "uneven": lambda collective: collective.name in ("all_to_all", "all_to_all_single"),
}


def applicable(row: Row, world: int) -> bool:
    """Whether there is anybody to send to, to wait for, or to differ from; gaps and order in memory show in what is sent."""
    alone = row.form in ("late", "uneven", "strided", "transposed") or row.collective in _BETWEEN
    return world > 1 or not alone


def cases(row: Row, world: int, counts: tuple[int, ...]) -> list[Case]:
    """Return the cases of a row among so many ranks, small ones first."""
    collective = COLLECTIVES[row.collective]
    variants = _variants(row, collective, counts, tuple(range(world)))
    return [_case(row, collective, number, *variant) for number, variant in enumerate(variants)]


def _case(row: Row, kind: Collective, number: int, count: int, peers: tuple[int, ...], more: dict[str, Any]) -> Case:
    operator = row.form.removeprefix("real_").removeprefix("large_")
    if operator not in (*OPERATORS, "copy"):
        operator = "sum" if kind.reduces else "copy"
    turn, root = divmod(number, len(peers))  # each root has both layouts
    options = {"layout": ("own", "offset")[turn % 2], "root": root, **more}
    return Case(row.collective, operator, row.dtype, count, number, peers, **options)


Variant = tuple[int, tuple[int, ...], dict[str, Any]]


def _variants(row: Row, kind: Collective, counts: tuple[int, ...], everyone: tuple[int, ...]) -> Iterator[Variant]:
    few = tuple(count for count in counts if 0 < count <= LATE)
    long = tuple(count for count in FORMED if count in counts)
    if row.form == "scalar":
        yield -1, everyone, {}
    elif row.form in ("strided", "transposed"):
        yield from ((count, everyone, {"layout": row.form}) for count in EVEN if count <= LATE or long)
    elif row.form == "subgroup":
        groups = [peers for peers in subgroups(len(everyone)) if len(peers) > kind.between]
        yield from ((count, peers, {}) for peers in groups for count in (*few[-3:], *(long or FORMED[:2])))
    elif row.form == "uneven":
        yield from ((count, everyone, {"uneven": True}) for count in (0, *few[-4:], *long))
    elif row.form == "async":
        yield from (
            (count, everyone, {"later": True}) for count in (-1, *few[-4:], *long) if count > 0 or _shapeless(kind)
        )
    elif row.form == "late":
        yield LATE, everyone, {"later": True}
    elif row.form.startswith("large_"):
        yield from ((count, everyone, {}) for count in LARGE)
    elif row.form.startswith("real_"):
        yield from ((count, everyone, {"data": "real"}) for count in REAL)
    else:
        plain = [count for count in counts if count >= 0 or _shapeless(kind)]
        yield from ((count, everyone, {}) for count in plain)
        if kind.rooted:
            yield from _rooted(plain, everyone)


def _rooted(counts: Sequence[int], everyone: tuple[int, ...]) -> Iterator[Variant]:
    """Yield small counts once more, with the roots that they had not yet."""
    for number, count in enumerate(counts):
        if count <= LATE:
            others = [root for root in everyone if root != number % len(everyone)]
            yield from ((count, everyone, {"root": root}) for root in others)


def _shapeless(collective: Collective) -> bool:
    """Whether a tensor without dimensions goes in and comes out as such; where tensors are joined, `scalar` tries it."""
    return "joined" not in (collective.gives, collective.takes) and collective.name not in COALESCING


def subgroups(world: int) -> list[tuple[int, ...]]:
    """Return groups of some ranks: all but the first, all but the last, every other, and all in a group of their own."""
    groups = [tuple(range(1, world)), tuple(range(world - 1)), tuple(range(0, world, 2)), tuple(range(world))]
    return [peers for peers in dict.fromkeys(groups) if peers]


RULES = DATA / "collectives.toml"


@dataclass(frozen=True, kw_only=True)
class Lack:
    """One row: what is refused by which backends of which versions of torch, for tensors of which devices, in which words, and why."""

    number: int
    backends: tuple[str, ...]
    devices: tuple[str, ...] = ("*",)
    torch: Versions = ANY_VERSION
    collectives: tuple[str, ...]
    forms: tuple[str, ...] = ("*",)
    dtypes: tuple[str, ...] = ("*",)
    says: str
    reason: str
    link: str = ""
    tried: bool = True

    def __post_init__(self) -> None:
        if not self.tried and not any(version.operator in ("<", "<=", "==") for version in self.torch):
            raise Wrong(
                "torch",
                f"is '{self.torch}'; a row that is not tried needs an end such as '<2.12', so that a newer torch is tried",
            )

    @property
    def place(self) -> str:
        return f"{places.table('collectives.toml')}, lacks[{self.number}]"

    @property
    def sentence(self) -> str:
        """Why a check is skipped, and whether that was seen in this run."""
        outcome = f"it says {self.says!r}" if self.tried else f"not tried, because it ended so: {self.says}"
        return f"{self.place}: {self.reason}; {outcome}"

    def covers(self, row: Row, backend: str, device: str, version: str) -> bool:
        """Whether the row is about this check on this backend, with tensors of this torch device type."""
        pairs = ((row.collective, self.collectives), (row.form, self.forms), (row.dtype, self.dtypes))
        return (
            backend in self.backends
            and matches(device, self.devices)
            and self.torch.contains(Version(version).base_version, prereleases=True)
            and all(matches(word, patterns) for word, patterns in pairs)
        )


@cache
def lacks() -> tuple[Lack, ...]:
    """Load the rows.

    Raises:
        Refusal: the file is broken; the sentence names the key and what is allowed.
    """
    with Table.load(RULES) as table:
        return tuple(row.row(Lack, number=number) for number, row in enumerate(table.tables("lacks")))


def lacking(row: Row, backend: str, device: str, version: str = torch.__version__) -> Lack | None:
    """Return the row of data that says that the backend does not offer this for tensors of the torch device type, or None."""
    return next((lack for lack in lacks() if lack.covers(row, backend, device, version)), None)


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
        return len(self.arrangement.cards)

    @property
    def label(self) -> str:
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
    alone = len(cards) == 1 and (cards[0].shareable or not library.own_cards)
    alike = alone or stack.device not in library.devices
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
    return f"{outcome['refusal']['message']!r}{place}; what a backend does not offer needs a row of {places.table('collectives.toml')}"


def _notes(ranks: Sequence[Outcome]) -> str:
    worst = max(
        (outcome for outcome in ranks if "bound" in outcome), key=lambda row: row["error"] / row["bound"], default=None
    )
    error = f", error {worst['error']:.1e} of {worst['bound']:.1e} allowed" if worst else ""
    return error + (", the call blocks until all have come" if any(outcome.get("blocks") for outcome in ranks) else "")


def first_wrong(ranks: Sequence[Outcome]) -> int | None:
    """Return the rank whose first wrong case came first; None if no rank has one."""
    wrong = [rank for rank, outcome in enumerate(ranks) if outcome["fault"]]
    faults = {rank: ranks[rank]["fault"] for rank in wrong}
    return min(wrong, key=lambda rank: (lesser(faults[rank]), int(faults[rank]["case"]["number"])), default=None)


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
            refusal is None or lack.says in refusal["message"],
            f"{what}: rank {rank} got {refusal and refusal['message']!r}; {lack.place} expects {lack.says!r}",
        )


def case_words(case: dict[str, Any]) -> str:
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
    print(f"rank {{rank}} passes in {{[tensor.reshape(-1)[:8].tolist() for tensor in turn.inputs]}} ...")
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

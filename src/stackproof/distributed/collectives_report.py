"""What the outcomes of a row mean: right, not offered by a row of data, or wrong, with code that repeats the first wrong case."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..checks import CheckFailed, require
from . import collectives_data, collectives_turn
from .collectives_calls import COLLECTIVES
from .collectives_rows import Row
from .collectives_rules import Lack
from .collectives_trial import Outcome, World


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
    """No rank has a wrong number or sentence, and where ranks must hold the same bits, they do."""
    for rank, outcome in enumerate(ranks):
        require(not outcome["sentence"], f"{what}: rank {rank}: {outcome['sentence']}")
    if (first := first_wrong(ranks)) is not None:
        raise CheckFailed(_wrong(what, first, ranks[first]))
    digests = {outcome["digest"] for outcome in ranks if outcome["digest"]}
    require(len(digests) <= 1, f"{what}: the ranks hold different bits of the same result")


def _refusal(outcome: Outcome) -> str:
    case = outcome["refusal"]["case"]
    place = f" for {case_words(case)}, {outcome['refused']} cases in all" if case else ""
    return (
        f"{outcome['refusal']['said']!r}{place}; what a backend does not offer needs a row of fixtures/collectives.toml"
    )


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


_HEAD = '''"""{title}

torchrun --nproc-per-node {size} THIS_FILE
"""
import functools, os, sys
from types import SimpleNamespace

{imports}
import torch.distributed as dist

LARGEST, SPREAD, GUARD = {constants}


'''

_TAIL = """
rank = int(os.environ["RANK"])
device = torch.device({devices}[rank])
if device.index is not None:
    torch.get_device_module(device).set_device(device)
dist.init_process_group({backend!r}{bound})
case = SimpleNamespace(**{case})
collective = SimpleNamespace(call={call}, expected={expected}, gives={gives!r}, takes={takes!r}, ragged={ragged})
group, found = {group}, None
if rank in case.peers:
    turn = prepare(case, collective, case.peers.index(rank), device, group)
    print(f"rank {{rank}} passes in {{[tensor.reshape(-1)[:8].tolist() for tensor in turn.given]}} ...")
    play(turn, collective)
    if device.index is not None:
        torch.get_device_module(device).synchronize()
    found = fault(turn, collective)
    print(f"rank {{rank}}: {{found or 'right'}}", flush=True)
dist.barrier()
os._exit(found is not None)
"""

_SOURCES: tuple[Callable[..., Any], ...] = (
    collectives_data.noise,
    collectives_data.values,
    collectives_data.stream,
    collectives_data.floats,
    collectives_data.integers,
    collectives_data.divisible,
    collectives_data.fold,
    collectives_data.place,
    collectives_turn.sent,
    collectives_turn.joined,
    collectives_turn.prepare,
    collectives_turn.lay_out,
    collectives_turn.play,
    collectives_turn.flat,
    collectives_turn.bits,
    collectives_turn.around,
    collectives_turn.fault,
)


def repeatable(row: Row, ranks: Sequence[Outcome]) -> bool:
    """Whether one call alone can show what is wrong: not where it depends on who comes late or on other groups."""
    return first_wrong(ranks) is not None and row.form != "late" and row.collective in COLLECTIVES


def repro(title: str, world: World, imports: Sequence[str], ranks: Sequence[Outcome]) -> str:
    """Return a program for torchrun that repeats the first wrong case and ends with 1 if it is still wrong; it needs torch alone."""
    case = ranks[first_wrong(ranks) or 0]["fault"]["case"]
    one, devices = COLLECTIVES[case["collective"]], [outcome["device"] for outcome in ranks]
    everyone = list(case["peers"]) == list(range(world.size))
    facts = {
        "title": title.replace("\\", "/").replace('"', "'"),
        "size": world.size,
        "imports": "\n".join(f"import {name}" for name in imports),
        "constants": f"{collectives_data.LARGEST}, {collectives_data.SPREAD}, {collectives_data.GUARD}",
        "devices": devices,
        "backend": world.arrangement.backend,
        "bound": ", device_id=device" if ":" in devices[0] else "",
        "case": case,
        "group": "None" if everyone else "dist.new_group(list(case.peers))",
        "call": one.call.__name__,
        "expected": one.expected.__name__,
        "gives": one.gives,
        "takes": one.takes,
        "ragged": one.ragged,
    }
    functions = "\n\n\n".join(plain(function) for function in (*_SOURCES, one.call, one.expected))
    return _HEAD.format(**facts) + functions + "\n\n" + _TAIL.format(**facts)


def plain(function: Callable[..., Any]) -> str:
    """Return the source of a function without its docstring and annotations, so that it stands alone."""
    tree = ast.parse(inspect.getsource(inspect.unwrap(function)))
    return ast.unparse(ast.fix_missing_locations(_Bare().visit(tree)))


class _Bare(ast.NodeTransformer):
    """Takes away what needs imports of types, and docstrings."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Drop the docstring and the type that is returned."""
        node.returns = None
        if ast.get_docstring(node) is not None:
            del node.body[0]
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Drop an argument's type."""
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        """Drop a variable's type."""
        assert node.value is not None
        return ast.Assign([node.target], node.value)

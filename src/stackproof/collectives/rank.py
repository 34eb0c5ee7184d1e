"""What every rank does to prove collectives exact: it tries each row, compares, and leaves the outcome.

The outcome of a row is on disk before the next begins, so that a rank that dies takes one row with it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist

from stackproof.base import rpc
from stackproof.base.text import error_line
from stackproof.collectives.calls import COLLECTIVES, Case, bits, fault, fold, lesser, play, prepare, sent
from stackproof.collectives.table import BLOCKS, LATE, Row, cases, subgroups
from stackproof.device.numerics import judge
from stackproof.ranks.rank import AFTER_DEADLINE_S, Board, Rank

# A rank that others wait for is late by so much more than a call takes.
_LATE_S = 0.1
# So long it waits for the others to have called; a backend whose asynchronous call blocks never lets it see that.
_PATIENCE_S = 3.0
# So long it waits for them to have judged whether their work was complete; those whose queue waits for this rank cannot.
_JUDGING_S = 1.0

Fields = dict[str, Any]


def late(rank: Rank, row: Row) -> Fields:
    """Call asynchronously while one rank is late: nothing that needs its data may be done before it has called, and waiting waits."""
    collective, world, board = COLLECTIVES[row.collective], rank.world_size, Board(row.name)
    last = world - 1
    root = last if row.collective in ("broadcast", "scatter") else 0
    operator = "sum" if collective.reduces else "copy"
    case = Case(row.collective, operator, row.dtype, LATE, 0, tuple(range(world)), root, later=True)
    turn = prepare(case, collective, rank.rank, rank.device.torch, None)
    if rank.rank == last:
        blocked = not board.wait(*(f"called {peer}" for peer in range(last)), seconds=_PATIENCE_S)
        board.wait(*(f"judged {peer}" for peer in range(last)), seconds=_JUDGING_S)
        time.sleep(_LATE_S)
        board.put("coming")
        work, early = collective.call(turn), False
    else:
        work, blocked = collective.call(turn), False
        needs_last = not collective.rooted or root == last or rank.rank == root
        early = _early(rank, work, board) and needs_last
    work.wait()
    rank.device.synchronize()
    if early:
        return {"sentence": f"{row.collective} was complete on rank {rank.rank} before rank {last} had called it"}
    fields = fault(turn, collective)
    return {"blocks": blocked, "fault": fields and {"case": asdict(case), **fields}}


def _early(rank: Rank, work: Any, board: Board) -> bool:
    """Whether the work was complete before the last rank came.

    The coalesced functions return a future, which for work on a card is done once the work is in a queue: the queue has to end too.
    """
    done = bool(work.is_completed() if hasattr(work, "is_completed") else work.done())
    early = done and not board.has("coming")
    board.put(f"called {rank.rank}")
    if early:
        rank.device.synchronize()
        early = not board.has("coming")
    board.put(f"judged {rank.rank}")
    return early


def barrier(rank: Rank, row: Row) -> Fields:
    """Enter a barrier one after another: when it lets a rank go, everybody has come."""
    board = Board(row.name)
    for peers in subgroups(rank.world_size) if row.form == "subgroup" else [tuple(range(rank.world_size))]:
        group = dist.new_group(list(peers)) if row.form == "subgroup" else None
        if rank.rank in peers and (sentence := _barrier(rank, row, board, peers, group)):
            return {"sentence": sentence}
    return {}


def _barrier(rank: Rank, row: Row, board: Board, peers: tuple[int, ...], group: Any) -> str:
    for tardy in peers:
        notes = [f"{peers} {tardy}: {peer}" for peer in peers]
        if rank.rank == tardy:
            time.sleep(_LATE_S)
        board.put(notes[peers.index(rank.rank)])
        work = dist.barrier(group, async_op=row.form == "async")
        if work is not None:
            work.wait()
        if not board.has(*notes):
            return f"the barrier of ranks {', '.join(map(str, peers))} let rank {rank.rank} go before rank {tardy} had come"
    return ""


def groups(rank: Rank, row: Row) -> Fields:
    """Call on several groups in turn without waiting, then wait in the opposite order: every result is its own group's."""
    everyone = tuple(range(rank.world_size))
    shapes = [everyone, everyone] if row.form == "interleaved" else subgroups(rank.world_size)
    members = [(peers, dist.new_group(list(peers))) for peers in shapes]
    begun = []
    for number, name in enumerate(("all_reduce", "broadcast", "all_gather", "all_reduce")):
        for which, (peers, group) in enumerate(members):
            if rank.rank in peers:
                collective, operator = COLLECTIVES[name], "sum" if COLLECTIVES[name].reduces else "copy"
                case = Case(name, operator, row.dtype, 33 + number, 10 * which + number, peers, 0, later=True)
                turn = prepare(case, collective, peers.index(rank.rank), rank.device.torch, group)
                begun.append((case, collective, turn, collective.call(turn)))
    for _, _, _, work in reversed(begun):
        work.wait()
    rank.device.synchronize()
    for case, collective, turn, _ in begun:
        if details := fault(turn, collective):
            return {"fault": {"case": asdict(case), **details}}
    return {}


def real(rank: Rank, case: Case) -> Fields:
    """Reduce ordinary numbers: as near to float64 as the CPU in that dtype, three times over, and the same bits on all ranks."""
    collective = COLLECTIVES[case.collective]
    turn = prepare(case, collective, rank.rank, rank.device.torch, None)
    play(turn, collective)
    rank.device.synchronize()
    wide = SimpleNamespace(
        sent=lambda source, part: sent(case, collective.ragged, source, part).double(),
        fold=functools.partial(fold, case.operator),
        index=rank.rank,
        root=case.root,
        peers=rank.world_size,
    )
    actual, anchor = turn.results[0][1], turn.expected[0]
    judged = judge(actual, collective.expected(wide)[0], anchor, anchor.dtype)
    digest = hashlib.sha256(bits(actual).numpy().tobytes()).hexdigest() if collective.takes == "in place" else ""
    sentence = "" if judged.ok else judged.sentence(f"{case.operator} of {case.count} ordinary numbers")
    return {"sentence": sentence, "error": judged.error, "bound": judged.bound, "digest": digest}


# Python objects between ranks: torch pickles them, tells their sizes, and cuts them out of what arrived. Checkpoints, samplers and
# evaluation use these calls; a size or an order that is wrong mixes up what belongs to whom.
_LENGTHS = (0, 1, 70_001, 300_007)
"""Characters of the text in an object, before each rank adds its own: from nothing to more than 64 and 256 KiB."""


def known(rank: int, part: int, length: int) -> dict[str, Any]:
    """Return what a rank has for a part: nested, of another pickled size on each, and never equal to another."""
    return {
        "from": (rank, part, length),
        "text": chr(97 + rank % 26) * (length + 257 * rank + 31 * part),
        "nested": [None, -1.5, b"\x00\xff" * (rank + 1), {rank: [part] * rank}],
    }


_FORMED = (0, 70_001)
"""Characters in groups of their own, which translate ranks."""


def objects(rank: Rank, row: Row) -> dict[str, Any]:
    """Exchange objects in the way of the row's form, among all and in groups; the sentence says what arrived first instead.

    A rank that has something wrong goes on to the end: the others wait for it.
    """
    formed = [peers for peers in subgroups(rank.world_size) if len(peers) > 1]
    among = [(tuple(range(rank.world_size)), None, _LENGTHS)]
    lines = [
        f"{apart}, with a text of {length} characters{'' if group is None else f', in a group of ranks {peers}'}"
        for peers, group, lengths in (*among, *((peers, dist.new_group(list(peers)), _FORMED) for peers in formed))
        if rank.rank in peers
        for length in lengths
        for what, values, expected in _exchanged(row.form, rank.rank, peers, group, length)
        if (apart := _apart(what, values, expected))
    ]
    return {"sentence": lines[0]} if lines else {}


def _exchanged(
    form: str, rank: int, peers: tuple[int, ...], group: Any, length: int
) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield what was called, what this rank then holds, and what it must hold: with each peer as the root, where there is one."""
    place, size = peers.index(rank), len(peers)
    for root in peers if form != "all_gather" else ():
        at_root = rank == root
        if form == "gather":
            gathered: list[Any] | None = [None] * size if at_root else None
            dist.gather_object(known(rank, root, length), gathered, dst=root, group=group)
            if gathered:
                yield f"gather_object to rank {root}", gathered, [known(peer, root, length) for peer in peers]
        elif form == "broadcast":
            expected = [known(root, part, length) for part in range(3)]
            values: list[Any] = list(expected) if at_root else [None] * 3
            dist.broadcast_object_list(values, src=root, group=group)
            yield f"broadcast_object_list from rank {root}", values, expected
        else:
            parts = [known(root, part, length) for part in range(size)] if at_root else None
            mine: list[Any] = [None]
            dist.scatter_object_list(mine, parts, src=root, group=group)
            yield f"scatter_object_list from rank {root}", mine, [known(root, place, length)]
    if form == "all_gather":
        everything: list[Any] = [None] * size
        dist.all_gather_object(everything, known(rank, 0, length), group=group)
        yield "all_gather_object", everything, [known(peer, 0, length) for peer in peers]


def _apart(what: str, values: list[Any], expected: list[Any]) -> str:
    """Return where the first object is not the one that was sent there; nothing if all are."""
    place = next((n for n, pair in enumerate(zip(values, expected, strict=True)) if pair[0] != pair[1]), None)
    if place is None:
        return ""
    origin = values[place].get("from") if isinstance(values[place], dict) else None
    came = f"that of rank {origin[0]} for part {origin[1]}" if origin else f"a {type(values[place]).__name__}"
    return f"{what} has {came} at place {place} instead of that of rank {expected[place]['from'][0]}"


Groups = dict[tuple[tuple[int, ...], bool, bool], Any]
Attempt = tuple[Case | None, Callable[[], Fields]]

# Rows that are more than a call and a comparison.
_ORDER: dict[str, Callable[[Rank, Row], Fields]] = {
    "barrier": barrier,
    "groups": groups,
    "late": late,
    "objects": objects,
}


def check(rank: Rank) -> dict[str, Any]:
    """Try every row; each rank leaves its outcomes in `rankN.outcomes`, one JSON object a line.

    Arguments (of the specification): rows (names), counts, outcomes (a folder).
    """
    groups: Groups = {(tuple(range(rank.world_size)), False, False): None}
    with (Path(rank.arguments["outcomes"]) / f"rank{rank.rank}.outcomes").open("a", encoding="utf-8") as stream:
        rpc.write(stream, {"row": "", "backend": rank.backend, "implementation": implementation(rank)})
        for name in rank.arguments["rows"]:
            rank.phase(name)
            rpc.write(stream, {"row": name, **examine(rank, Row.of(name), groups)})
            if not Board(name).gather(rank, "done", rank.silence_s + AFTER_DEADLINE_S):
                raise dist.DistStoreError(f"not all ranks came to the end of {name}")
    return {"rank": rank.rank}


def examine(rank: Rank, row: Row, groups: Groups) -> dict[str, Any]:
    """Return how many cases of a row were right, wrong and refused on this rank, with the first of the latter two."""
    outcome: dict[str, Any] = {"device": str(rank.device.torch), "right": 0, "wrong": 0, "refused": 0}
    outcome |= {"fault": None, "refusal": None, "sentence": "", "digest": ""}
    special = _ORDER.get(row.collective) or _ORDER.get(row.form)
    attempts: Iterable[Attempt] = [(None, partial(special, rank, row))] if special else _attempts(rank, row, groups)
    for case, attempt in attempts:
        try:
            fields = attempt()
        except Exception as error:
            outcome["refused"] += 1
            outcome["refusal"] = outcome["refusal"] or {"case": case and asdict(case), "message": error_line(error)}
            continue
        wrong = bool(fields.get("fault") or fields.get("sentence"))
        outcome["wrong" if wrong else "right"] += 1
        _add(outcome, fields)
    return outcome


def _add(outcome: dict[str, Any], fields: Fields) -> None:
    outcome["digest"] += fields.get("digest", "")
    if "bound" in fields and fields["error"] * outcome.get("bound", 0.0) >= outcome.get("error", 0.0) * fields["bound"]:
        outcome |= {"error": fields["error"], "bound": fields["bound"]}
    if fields.get("fault") and outcome["fault"] and lesser(outcome["fault"]) > lesser(fields["fault"]):
        outcome["fault"] = None
    outcome |= {key: fields[key] for key in ("fault", "sentence", "blocks") if fields.get(key) and not outcome.get(key)}


def _attempts(rank: Rank, row: Row, groups: Groups) -> Iterator[Attempt]:
    for case in cases(row, rank.world_size, tuple(rank.arguments["counts"])):
        own = row.form == "subgroup"  # of all ranks, too
        key = case.peers, row.collective in BLOCKS, own  # what may be left half open gets a group of its own
        if key not in groups:  # every rank must create every group
            groups[key] = formed(case.peers)
        if case.data:
            yield case, partial(real, rank, case)
        elif rank.rank in case.peers:
            yield case, partial(compared, rank, case, groups[key])


def formed(peers: tuple[int, ...]) -> Any:
    """Return a new group of these ranks, or the error in its place: each row that needs the group is then refused, and the others go on."""
    try:
        return dist.new_group(list(peers))
    except Exception as error:
        return error


def compared(rank: Rank, case: Case, group: Any) -> Fields:
    if isinstance(group, Exception):
        raise group
    collective = COLLECTIVES[case.collective]
    turn = prepare(case, collective, case.peers.index(rank.rank), rank.device.torch, group)
    try:
        play(turn, collective)
    except Exception:
        if case.collective in BLOCKS:
            close(rank, group)
        raise
    rank.device.synchronize()
    fields = fault(turn, collective)
    return {"fault": {"case": asdict(case), **fields}} if fields else {}


def close(rank: Rank, group: Any) -> None:
    """End the block of calls that a refusal left open, if one is.

    Until then torch only collects what is called on the group, and NCCL, whose blocks are the thread's, does nothing on any group.
    """
    group = group or dist.group.WORLD
    open_blocks: dict[Any, Any] = dist.distributed_c10d._world.pg_coalesce_state
    if open_blocks.pop(group, None) is not None:
        with contextlib.suppress(RuntimeError):
            group._end_coalescing(rank.device.torch)


def implementation(rank: Rank) -> str:
    """Return the class that serves the rank's device: a name that was asked for may hide another backend."""
    group: Any = dist.group.WORLD
    backend = group._get_backend(rank.device.torch)
    return type(getattr(backend, "wrapped_pg", backend)).__name__  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it

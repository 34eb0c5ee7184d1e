"""What cannot be seen from one result: whether calls wait for those who are late, and whether groups keep out of each other's way.

That a rank is late is arranged through the store, without the backend and without clocks.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist

from ..numerics import judge
from .collectives_calls import COLLECTIVES
from .collectives_data import fold
from .collectives_rows import LATE, Row, subgroups
from .collectives_turn import Case, bits, fault, play, prepare, sent
from .rank import Rank

# A rank that others wait for is late by so much more than a call takes.
_LATE_S = 0.1
# So long it waits for the others to have called; a backend whose asynchronous call blocks never lets it see that.
_PATIENCE_S = 3.0
# So long it waits for them to have judged whether their work was complete; those whose queue waits for this rank cannot.
_JUDGING_S = 1.0

Found = dict[str, Any]


@dataclass(frozen=True)
class Board:
    """Notes between the ranks of one row, in the group's store."""

    row: str

    def put(self, note: str) -> None:
        """Leave a note."""
        _store().set(f"{self.row}/{note}", "here")

    def has(self, *notes: str) -> bool:
        """Whether all the notes are there."""
        return bool(_store().check([f"{self.row}/{note}" for note in notes]))

    def tell(self, text: str) -> None:
        """Leave a text for the other ranks."""
        _store().set(f"{self.row}/text", text)

    def told(self) -> str:
        """Wait for the text and return it."""
        return str(_store().get(f"{self.row}/text").decode())

    def wait(self, *notes: str, seconds: float) -> bool:
        """Wait for all the notes; whether they came."""
        with contextlib.suppress(dist.DistStoreError, RuntimeError):
            _store().wait([f"{self.row}/{note}" for note in notes], timedelta(seconds=seconds))
            return True
        return False


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


def late(rank: Rank, row: Row) -> Found:
    """Call asynchronously while one rank is late: nothing that needs its data may be done before it has called, and waiting waits."""
    one, world, board = COLLECTIVES[row.collective], rank.world_size, Board(row.name)
    last = world - 1
    root = last if row.collective in ("broadcast", "scatter") else 0
    operator = "sum" if one.reduces else "copy"
    case = Case(row.collective, operator, row.dtype, LATE, 0, tuple(range(world)), root, later=True)
    turn = prepare(case, one, rank.rank, rank.device.torch, None)
    if rank.rank == last:
        blocked = not board.wait(*(f"called {peer}" for peer in range(last)), seconds=_PATIENCE_S)
        board.wait(*(f"judged {peer}" for peer in range(last)), seconds=_JUDGING_S)
        time.sleep(_LATE_S)
        board.put("coming")
        work, early = one.call(turn), False
    else:
        work, blocked = one.call(turn), False
        needs_last = not one.rooted or root == last or rank.rank == root
        early = _early(rank, work, board) and needs_last
    work.wait()
    rank.device.synchronize()
    if early:
        return {"sentence": f"{row.collective} was complete on rank {rank.rank} before rank {last} had called it"}
    found = fault(turn, one)
    return {"blocks": blocked, "fault": found and {"case": asdict(case), **found}}


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


def barrier(rank: Rank, row: Row) -> Found:
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


def groups(rank: Rank, row: Row) -> Found:
    """Call on several groups in turn without waiting, then wait in the opposite order: every result is its own group's."""
    everyone = tuple(range(rank.world_size))
    shapes = [everyone, everyone] if row.form == "interleaved" else subgroups(rank.world_size)
    members = [(peers, dist.new_group(list(peers))) for peers in shapes]
    begun = []
    for number, name in enumerate(("all_reduce", "broadcast", "all_gather", "all_reduce")):
        for which, (peers, group) in enumerate(members):
            if rank.rank in peers:
                one, operator = COLLECTIVES[name], "sum" if COLLECTIVES[name].reduces else "copy"
                case = Case(name, operator, row.dtype, 33 + number, 10 * which + number, peers, 0, later=True)
                turn = prepare(case, one, peers.index(rank.rank), rank.device.torch, group)
                begun.append((case, one, turn, one.call(turn)))
    for _, _, _, work in reversed(begun):
        work.wait()
    rank.device.synchronize()
    for case, one, turn, _ in begun:
        if found := fault(turn, one):
            return {"fault": {"case": asdict(case), **found}}
    return {}


def real(rank: Rank, case: Case) -> Found:
    """Reduce ordinary numbers: as near to float64 as the CPU in that dtype, three times over, and the same bits on all ranks."""
    one = COLLECTIVES[case.collective]
    turn = prepare(case, one, rank.rank, rank.device.torch, None)
    play(turn, one)
    rank.device.synchronize()
    wide = SimpleNamespace(
        sent=lambda source, part: sent(case, one.ragged, source, part).double(),
        fold=functools.partial(fold, case.operator),
        index=rank.rank,
        root=case.root,
        peers=rank.world_size,
    )
    actual, anchor = turn.results[0][1], turn.expected[0]
    judged = judge(actual, one.expected(wide)[0], anchor, anchor.dtype)
    digest = hashlib.sha256(bits(actual).numpy().tobytes()).hexdigest() if one.takes == "in place" else ""
    sentence = "" if judged.ok else judged.sentence(f"{case.operator} of {case.count} ordinary numbers")
    return {"sentence": sentence, "error": judged.error, "bound": judged.bound, "digest": digest}

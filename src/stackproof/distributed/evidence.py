"""What the evidence of ranks that somebody else's launcher started amounts to, and which rank lags. Needs no torch."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ..records import Check, Figure, Verdict

# Of the first loss; a learning rate of 0, or gradients that cancel, leave it where it was.
_FALL = 0.9


def judge(ranks: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Return what the ranks' evidence amounts to, a check each for bring-up, collectives and training."""
    who = ", ".join(
        f"rank {said['rank']} on {said['device']} {said['bus id']}".rstrip() + f" of {said['host']}" for said in ranks
    )
    formed, split = (max(said[name] for said in ranks) for name in ("formed_s", "split_s"))
    figures: dict[str, Figure] = {f"rank {said['rank']}.formed_s": said["formed_s"] for said in ranks}
    figures |= {
        f"rank {said['rank']}.{name}": said[name] for said in ranks for name in ("host", "device", "name", "bus id")
    }
    came_up = f"{ranks[0]['backend']}: {who}; formed in {formed:.2f} s, split in {split:.2f} s"
    names = ", ".join(["all-reduce", *ranks[0]["collectives"]])
    return [
        Check("bring_up", Verdict.PASSED, came_up, formed, figures),
        Check("collectives", Verdict.PASSED, f"{names} are exact over {len(ranks)} ranks{_lag(ranks)}", 0.0),
        _training([said["training"] for said in ranks]),
    ]


def _training(ranks: Sequence[Mapping[str, Any]]) -> Check:
    digests, losses = {said["digest"] for said in ranks}, ranks[0]["losses"]
    if len(digests) > 1:
        differ = ", ".join(f"rank {rank} {said['digest'][:12]}" for rank, said in enumerate(ranks))
        return Check(
            "training", Verdict.FAILED, f"after {len(losses)} steps the ranks' parameters differ: {differ}", 0.0
        )
    if not losses[-1] < _FALL * losses[0]:
        reason = f"the loss went from {losses[0]:.4f} to {losses[-1]:.4f} in {len(losses)} steps, a fall by a tenth was expected"
        return Check("training", Verdict.FAILED, reason, 0.0)
    reason = (
        f"loss {losses[0]:.3f} -> {losses[-1]:.3f} in {len(losses)} steps, parameters of {len(ranks)} ranks bit-equal"
    )
    return Check("training", Verdict.PASSED, reason, 0.0, {"first loss": losses[0], "last loss": losses[-1]})


def _lag(ranks: Sequence[Mapping[str, Any]]) -> str:
    found = straggler({said["rank"]: said["own_s"] for said in ranks})
    return f"; rank {found[0]} is the straggler, {found[1]:.1f} times slower than the others" if found else ""


def straggler(seconds: Mapping[int, Sequence[float]], times: float = 2.0) -> tuple[int, float] | None:
    """Return the rank whose own steps (without the waiting in collectives) take `times` the median of the others', and the ratio.

    `seconds`: of each rank, its steps in seconds; medians are compared, so that one step with a bad neighbour accuses nobody.
    """
    middle = {rank: statistics.median(steps) for rank, steps in seconds.items()}
    slowest = max(middle, key=lambda rank: middle[rank])
    others = [value for rank, value in middle.items() if rank != slowest]
    if not others:
        return None
    ratio = middle[slowest] / max(statistics.median(others), 1e-9)
    return (slowest, ratio) if ratio > times else None

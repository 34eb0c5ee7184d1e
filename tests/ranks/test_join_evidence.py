"""What the evidence of ranks amounts to: drift, a loss that stands still, and a slow rank show."""

from __future__ import annotations

from typing import Any

import pytest

from stackproof.ranks.join import judge, straggler
from stackproof.record.records import Verdict


def said(number: int, **changed: Any) -> dict[str, Any]:
    """Return what a healthy rank says, with changes."""
    return {
        "rank": number,
        "host": f"node{number}",
        "device": "cuda:0",
        "name": "Some Card",
        "bus id": "0000:18:00.0",
        "backend": "nccl",
        "formed_s": 1.0 + number,
        "split_s": 0.25,
        "collectives": ["all-gather", "barrier"],
        "own_s": [0.1, 0.1, 0.1],
        "training": {"losses": [2.0, 1.5], "digest": "abc"},
        **changed,
    }


def test_healthy_ranks_pass_with_their_places() -> None:
    checks = {check.id: check for check in judge([said(0), said(1)])}
    assert [Verdict.PASSED] * 3 == [check.verdict for check in checks.values()]
    assert checks["bring_up"].reason == (
        "nccl: rank 0 on cuda:0 0000:18:00.0 of node0, rank 1 on cuda:0 0000:18:00.0 of node1; formed in 2.00 s, split in 0.25 s"
    )
    assert checks["bring_up"].figures["rank 1.host"] == "node1"
    assert checks["collectives"].reason == "all-reduce, all-gather, barrier are exact over 2 ranks"


@pytest.mark.parametrize(
    ("losses", "digests", "words"),
    [
        ([2.0, 1.5], ("abc", "other"), "after 2 steps the ranks' parameters differ: rank 0 abc, rank 1 other"),
        ([2.0, 1.9], ("abc", "abc"), "the loss went from 2.0000 to 1.9000 in 2 steps"),
        ([2.0, float("nan")], ("abc", "abc"), "the loss went from 2.0000 to nan in 2 steps"),
    ],
)
def test_training_that_drifts_or_stands_still_fails(losses: list[float], digests: tuple[str, str], words: str) -> None:
    ranks = [said(rank, training={"losses": losses, "digest": digest}) for rank, digest in enumerate(digests)]
    check = judge(ranks)[-1]
    assert check.verdict is Verdict.FAILED
    assert words in check.reason


def test_a_straggler_is_named_in_the_record() -> None:
    assert "rank 1 is the straggler, 3.0 times slower" in judge([said(0), said(1, own_s=[0.3, 0.3, 0.3])])[1].reason


def test_one_slow_step_accuses_nobody() -> None:
    assert straggler({0: [0.1, 0.1, 0.1], 1: [0.1, 5.0, 0.1]}) is None
    assert straggler({0: [0.1, 0.1, 0.1], 1: [0.19, 0.19, 0.19]}) is None
    assert straggler({0: [0.1]}) is None
    rank, ratio = straggler({0: [0.1], 1: [0.4], 2: [0.1]}) or (-1, 0.0)
    assert (rank, round(ratio)) == (1, 4)

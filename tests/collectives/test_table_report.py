"""Verdicts of a row: right, not offered, out of date, or wrong, with code that repeats it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stackproof.collectives.table import COUNTS, SHORT, Lack, Row, World, judge, repeatable, repro, worlds
from stackproof.device.kinds import Accelerator, Host
from stackproof.ranks.launch import Arrangement
from stackproof.record.checks import CheckFailed
from stackproof.stack import stacks

ROW = Row("broadcast", "copy", "float32")
WORLD = World(Arrangement("gloo", (0, 0)), (8,), "cpu")
CASE = {"collective": "broadcast", "operator": "copy", "dtype": "float32", "count": 8, "number": 0, "peers": [0, 1]}
CASE |= {"root": 0, "layout": "own", "later": False, "uneven": False, "data": ""}
FAULT = {"case": CASE, "what": "result", "at": 4, "got": 1.5, "expected": 2.0, "wrong": 3, "of": 8}
LACK = Lack(number=7, backends=("gloo",), collectives=("broadcast",), says="no way", reason="gloo cannot do that")


def outcome(**values: Any) -> dict[str, Any]:
    """Return a rank's outcome of nineteen right cases, with these changes."""
    plain = {"device": "cpu", "right": 19, "wrong": 0, "refused": 0, "fault": None, "refusal": None}
    plain |= {"sentence": "", "digest": ""}
    return {**plain, **values}


def refused(said: str = "RuntimeError: no way", right: int = 0) -> dict[str, Any]:
    return outcome(right=right, refused=19 - right, refusal={"case": CASE, "message": said})


def test_right_cases_are_counted_over_all_ranks() -> None:
    assert judge(ROW, WORLD, [outcome(), outcome()], None) == "38 cases over gloo, 2 ranks"


def test_errors_of_ordinary_numbers_and_calls_that_block_are_told() -> None:
    ranks = [outcome(error=1e-7, bound=1e-6), outcome(error=5e-7, bound=1e-6, blocks=True)]
    said = judge(ROW, WORLD, ranks, None)
    assert "error 5.0e-07 of 1.0e-06 allowed" in said and "blocks until all have come" in said


FAILING = [
    (
        [outcome(), outcome(wrong=2, right=17, fault=FAULT)],
        None,
        "broadcast copy float32 (gloo, 2 ranks): rank 1 has 1.5 instead of 2.0 at element 4 of 8, 3 wrong, 8 elements, layout own, "
        "ranks 0, 1, root 0; 2 of this rank's 19 cases",
    ),
    ([outcome(fault={**FAULT, "what": "input"})], None, "at element 4 of 8 in what it passed in, 3 wrong"),
    ([outcome(fault={**FAULT, "what": "memory beside it"})], None, "in the memory beside it, 3 wrong"),
    (
        [outcome(fault={**FAULT, "outside": 2})],
        None,
        "of 8, and 2 numbers before or behind the tensors are overwritten, 3 w",
    ),
    ([outcome(), outcome(sentence="let rank 1 go")], None, "rank 1: let rank 1 go"),
    ([outcome(digest="a" * 64), outcome(digest="b" * 64)], None, "the ranks hold different bits of the same result"),
    ([outcome(right=0), outcome(right=0)], None, "no case was tried"),
    ([outcome(), refused()], None, "rank 1 got 'RuntimeError: no way' for 8 elements, layout own"),
    ([refused(), refused("RuntimeError: another reason")], LACK, "expects 'no way'"),
    ([outcome(), outcome()], LACK, "lacks[7] says it is not offered (gloo cannot do that): delete or narrow the row"),
    ([refused(right=3), refused()], LACK, "3 cases work, though"),
    ([outcome(fault=FAULT), refused()], LACK, "rank 0 has 1.5 instead of 2.0"),
]


@pytest.mark.parametrize(("ranks", "lack", "words"), FAILING, ids=[words[:40] for _, _, words in FAILING])
def test_what_is_wrong_is_said(ranks: list[dict[str, Any]], lack: Lack | None, words: str) -> None:
    with pytest.raises(CheckFailed) as failure:
        judge(ROW, WORLD, ranks, lack)
    assert words in str(failure.value)


def test_a_row_that_holds_is_no_verdict() -> None:
    assert judge(ROW, WORLD, [refused(), refused()], LACK) == ""


def test_the_case_that_came_first_is_told_whichever_rank_saw_it() -> None:
    later = {**FAULT, "case": {**CASE, "number": 3, "count": 64}}
    with pytest.raises(CheckFailed, match="rank 1 has .* 8 elements"):
        judge(ROW, WORLD, [outcome(fault=later), outcome(fault=FAULT)], None)


def test_a_plainly_wrong_truth_value_is_told_before_one_that_is_a_larger_byte() -> None:
    case = {**CASE, "dtype": "bool"}
    two = {**FAULT, "case": case, "got": 2, "expected": 1}
    false = {**FAULT, "case": {**case, "number": 9}, "got": 0, "expected": 1}
    with pytest.raises(CheckFailed, match="rank 1 has 0 instead of 1"):
        judge(ROW, WORLD, [outcome(fault=two), outcome(fault=false)], None)
    with pytest.raises(CheckFailed, match="rank 0 has 2 instead of 1"):
        judge(ROW, WORLD, [outcome(fault=two), outcome()], None)


def test_what_one_call_cannot_show_has_no_code() -> None:
    wrong = [outcome(fault=FAULT)]
    assert repeatable(ROW, wrong) and not repeatable(ROW, [outcome()])
    assert not repeatable(Row("all_reduce", "late", "float32"), wrong)
    assert not repeatable(Row("groups", "interleaved", "float32"), wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "status", "words"),
    [("", 0, "rank 1: right"), ("dist.broadcast = lambda *arguments: None\n", 1, "rank 1: {'what': 'result', 'at': 0")],
    ids=["mended", "still wrong"],
)
def test_the_code_runs_alone_and_shows_the_fault(planted: str, status: int, words: str, tmp_path: Path) -> None:
    text = repro("it was wrong", WORLD, ("torch",), [outcome(), outcome(fault=FAULT)])
    head, marker, tail = text.partition("\n\n\n")
    (tmp_path / "case.py").write_text(head + "\n" + planted + marker + tail)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "case.py"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    ended = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=240, check=False)
    assert (ended.returncode, words in ended.stdout) == (status, True), ended.stdout + ended.stderr


CPU, CUDA, XPU = (stacks.load(name) for name in ("cpu", "cuda", "xpu"))


def sizes(found: list[World]) -> list[tuple[str, tuple[int, ...], bool]]:
    return [(world.arrangement.backend, world.arrangement.cards, world.arrangement.on_host) for world in found]


def test_ranks_share_a_cpu_in_even_and_odd_numbers() -> None:
    found = worlds(CPU, "gloo", [Host("cpu", 0)])
    assert sizes(found) == [("gloo", (0, 0), False), ("gloo", (0, 0, 0), False)]
    assert [world.counts for world in found] == [COUNTS, SHORT]


def test_ranks_that_need_cards_get_their_own() -> None:
    found = worlds(CUDA, "nccl", [Accelerator("cuda", number) for number in range(8)])
    assert [cards for _, cards, _ in sizes(found)] == [(0, 1), (0, 1, 2), tuple(range(8))]


def test_one_card_is_tried_alone_by_a_library_that_wants_cards() -> None:
    card = [Accelerator("cuda", 0)]
    assert sizes(worlds(CUDA, "nccl", card)) == [("nccl", (0,), False)]
    found = worlds(CUDA, "gloo", card)
    assert sizes(found) == [("gloo", (0, 0), False), ("gloo", (0, 0, 0), False)]
    assert "the ranks share cuda:0" in found[0].label


def test_a_library_that_takes_no_tensors_of_the_card_is_tried_on_the_hosts() -> None:
    found = worlds(XPU, "gloo", [Accelerator("xpu", 0), Accelerator("xpu", 1)])
    assert sizes(found) == [("gloo", (0, 0), True), ("gloo", (0, 0, 0), True)]
    assert "the host's" in found[0].label


def test_what_would_end_the_ranks_is_not_given_to_them() -> None:
    card, host = worlds(CUDA, "gloo", [Accelerator("cuda", 0)])[0], worlds(XPU, "gloo", [Accelerator("xpu", 0)])[0]
    send, coalesced = Row("send_recv", "copy", "float32"), Row("all_reduce_coalesced", "sum", "float32")
    assert (card.device, card.tries(send), card.tries(coalesced)) == ("cuda", False, True)
    assert (host.device, host.tries(send), host.lack(coalesced)) == ("cpu", True, None)

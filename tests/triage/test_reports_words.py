"""Findings in words: who, what, how sure, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.triage import reports
from stackproof.triage.search import Who

from .making import TRACEBACK, folder_report, report

MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ([("rank", 3)], "rank 3"),
        ([("rank", 3), ("rank", 0), ("rank", 1), ("rank", 2), ("rank", 7)], "rank 3 (then 0-2, 7)"),
        ([("pid", 77), ("rank", 1)], "rank 1"),
        ([("pid", 77)], "process 77"),
        ([("file", 0)], ""),
        ([("rank", n) for n in range(0, 40, 2)], "rank 0 (then 2, 4, 6, 8, 10, 12 ...)"),
    ],
)
def test_people(who: list[Who], said: str) -> None:
    assert reports.people(who) == said


HEADLINES = {
    "[rank1]: " + MEMORY: ("ROOT CAUSE", "rank 1: the card's memory is full"),
    TRACEBACK + "ValueError: no\n": ("ROOT CAUSE", "it raised ValueError: no (no known signature)"),
    TRACEBACK + "KeyboardInterrupt\n": (
        "ONLY A CONSEQUENCE",
        "it raised KeyboardInterrupt; what failed first is not in this log",
    ),
    "export CCL_WORKER_COUNT=2\n(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n": (
        "CONTRADICTION",
        "CCL_WORKER_COUNT=2 was asked for, 4 is in effect",
    ),
    "step\nlast\n": (
        "CANNOT SAY",
        "no failure, and no sign of a good end, in 2 lines of 1 file(s); it ends with: step / last",
    ),
    "***** train metrics *****\n": ("CLEAN", "it ended well (line 1: ***** train metrics *****); 1 lines of 1 file(s)"),
}


@pytest.mark.parametrize("text", HEADLINES)
def test_headline(tmp_path: Path, text: str) -> None:
    assert reports.headline(report(tmp_path, text)) == HEADLINES[text]


def test_headline_of_what_does_not_hold(tmp_path: Path) -> None:
    word, sentence = reports.headline(report(tmp_path, "step\n", ["ib"]))
    assert word == "NOT HELD"
    assert sentence.startswith("ib: not shown: ")


def test_sentence_has_cause_remedy_and_link(tmp_path: Path) -> None:
    said = reports.sentence(report(tmp_path, "[rank1]: " + MEMORY))
    assert said is not None
    assert said.startswith("rank 1: the card's memory is full [cuda-out-of-memory, certain]: ")
    assert said.endswith(")")
    assert "(https://" in said
    assert reports.sentence(report(tmp_path, "step\n")) is None


def test_sentence_of_an_unknown_end_has_the_collective(tmp_path: Path) -> None:
    text = TRACEBACK.replace(
        'File "train.py", line 7, in <module>', 'File "/x/distributed_c10d.py", line 7, in all_reduce'
    )
    said = reports.sentence(report(tmp_path, text + "RuntimeError: odd\n"))
    assert said == "it raised RuntimeError: odd (no known signature) in all_reduce"


def test_confidence_says_when_the_order_is_not_known(tmp_path: Path) -> None:
    files = {"rank0.log": TRACEBACK + "ValueError: x\n", "rank1.log": TRACEBACK + MEMORY}
    judgement = folder_report(tmp_path, files).judgement
    assert judgement.root is not None
    assert reports.confidence(judgement.root, judgement) == "certain; the logs do not show which rank failed first"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"run.log": "step 1\n"}, ["if it was killed"]),
        (
            {"rank0.log": "world_size=8\n", "rank3.log": "step\nCCL_INFO| x |CCL_INFO| library version: 2021.15\n"},
            ["1-2, 4-7 (6 of 8)", "if it was killed", "CCL_LOG_LEVEL=info, "],
        ),
        (
            {"run.log": "torch-2.4.1+dtk25.04\nworld size: 4\n"},
            ["4 ranks ran, and 1 file", "if it", "NCCL_DEBUG=INFO, "],
        ),
        ({"run.log": "[rank0]: world size: 2\n[rank1]: world size: 2\n"}, ["if it was killed", "if it hangs"]),
        ({"rank0.log": f"world_size={'9' * 5000}\n"}, ["if it was killed"]),
    ],
)
def test_logs_that_do_not_say_end_with_what_to_do(tmp_path: Path, files: dict[str, str], words: list[str]) -> None:
    steps = list(reports.next_steps(folder_report(tmp_path, files)))
    assert [word in step for word, step in zip(words, steps, strict=True)] == [True] * len(words)

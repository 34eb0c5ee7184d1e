"""A report is clean only if nothing failed, contradicts itself, is wrong in its figures, or was expected and does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.record.records import Verdict
from stackproof.triage import logs, reports

from .making import TRACEBACK, report, write

END = "***** train metrics *****\n"
UNCLEAN = {
    "a failure": TRACEBACK + "ValueError: no\n",
    "figures that cannot be right": "{'loss': 0.0, 'epoch': 1}\n{'loss': 0.0, 'epoch': 2}\n",
    "what was asked for and is not so": "export CCL_WORKER_COUNT=2\n(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n",
    "a contradiction": "export FI_PROVIDER=efa\nh:1:1 [0] NCCL INFO Using network Socket\n",
    **{
        line: f"step 1 {line}\nstep 2 {line}\n{END}"
        for line in ("loss 0.0 grad_norm nan", ", loss: 0.0", "loss=0.000", "[1/6], Loss: 0.0000", "train loss: 0 aux")
    },
    "a loss that falls to 0 at once": f"step 1 loss 2.31\nstep 2 loss 0.00\nstep 3 loss 0.00\n{END}",
}


@pytest.mark.parametrize("name", UNCLEAN)
def test_what_makes_a_report_unclean(tmp_path: Path, name: str) -> None:
    assert report(tmp_path, UNCLEAN[name]).verdict is not Verdict.PASSED


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (END, Verdict.PASSED),
        ("step 1\n", Verdict.INCONCLUSIVE),
        (END + "step\n" * 300, Verdict.INCONCLUSIVE),
        (TRACEBACK + "ValueError: no\n", Verdict.FAILED),
        (TRACEBACK + "ValueError: no\n" + END, Verdict.PASSED),
        (END + TRACEBACK + "ValueError: no\n", Verdict.FAILED),
        (TRACEBACK, Verdict.FAILED),
    ],
)
def test_three_answers(tmp_path: Path, text: str, verdict: Verdict) -> None:
    assert report(tmp_path, text).verdict is verdict


def test_expectation_decides_too(tmp_path: Path) -> None:
    assert report(tmp_path, f"step 1\n{END}").verdict is Verdict.PASSED
    assert report(tmp_path, f"step 1\n{END}", ["efa"]).verdict is not Verdict.PASSED


def test_oddity_alone_leaves_it_clean(tmp_path: Path) -> None:
    found = report(tmp_path, "".join(f"{{'loss': {1 + n // 8}.0}}\n" for n in range(1, 13)) + END)
    assert [oddity.id for oddity in found.oddities] == ["loss-rises"]
    assert found.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "run.log: is empty"),
        (b"\x1f\x8b", "run.log: is cut short"),
        (bytes(range(256)) * 40, "is not text, so nothing"),
    ],
)
def test_log_that_says_nothing_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        report(tmp_path, data)


def test_a_log_in_latin_1_is_read(tmp_path: Path) -> None:
    found = report(tmp_path, (TRACEBACK + "ValueError: datos dañados\n").encode("latin-1"))
    assert found.judgement.root is not None


def test_failure_among_zeros_is_found(tmp_path: Path) -> None:
    text = (
        b"\0" * 100_000
        + b"\n"
        + (TRACEBACK + "RuntimeError: CUDA error: an illegal memory access was encountered\n").encode()
    )
    found = report(tmp_path, text)
    assert found.judgement.root is not None
    assert found.judgement.root.signature == "cuda-illegal-access"


def test_unknown_expectation_is_refused_with_the_nearest(tmp_path: Path) -> None:
    run = logs.named([write(tmp_path, "x\n")])
    with pytest.raises(Refusal, match=r"no expectation 'nvlnk' \(did you mean 'nvlink'\?\); one of: ccl-mpi, .*, xccl"):
        reports.report(run, ["nvlnk"])


def test_place_is_file_and_line(tmp_path: Path) -> None:
    found = report(tmp_path, "step\n" + TRACEBACK + "ValueError: no\n")
    assert found.judgement.root is not None
    assert found.evidence.place(found.judgement.root.first) == f"{tmp_path / 'run.log'}:2"

"""The page of agreement is made from a record: every pair a row, everything escaped."""

from __future__ import annotations

from stackproof.bench.agree_report import markdown
from stackproof.record import typed
from stackproof.record.records import Check, Figure, Record, Verdict

FIGURES: dict[str, Figure] = {
    "ratio": 1.0042, "low": 0.998, "high": 1.011, "bound": 0.02, "ours": "10.00 it/s", "theirs": "10.04 it/s",
    "theirs is": "a tool", "link": "https://example.org/a", "differs": "it also <b>sleeps</b>",
}  # fmt: skip


def record(*checks: Check) -> Record:
    """Return a record of an H200 with these checks."""
    facts: dict[str, Figure] = {"cuda:0.name": "NVIDIA H200", "torch": "2.15.0", "profile": "full"}
    return Record(
        "agree", "cuda", "2026-01-02T03:04:05+00:00", 9.0, Verdict.PASSED, provenance=facts, checks=list(checks)
    )


def pair(name: str, verdict: Verdict, reason: str, figures: dict[str, Figure] | None = None) -> Check:
    """Return the check of one pair, as the run of the suite makes it."""
    return typed.of_suite(Check(f"agreement/pairs::{name}", verdict, reason, 1.0, figures or {}))


def test_a_pair_is_a_row_with_ratio_bound_and_verdict() -> None:
    said = markdown(record(pair("gemm_triton[bfloat16]", Verdict.PASSED, "fine", dict(FIGURES))))
    assert said.startswith("## cuda, NVIDIA H200, torch 2.15.0, profile full, 2026-01-02\n")
    row = r"| gemm\_triton\[bfloat16\] | [a tool](https://example.org/a) "
    row += r"| 10.00 it/s | 10.04 it/s | 1.0042 (0.9980 to 1.0110) | 2% | passed |"
    assert row in said.splitlines()


def test_what_was_skipped_is_a_row_too() -> None:
    said = markdown(record(pair("gemm_triton[float32]", Verdict.SKIPPED, "no card | here")))
    assert r"| gemm\_triton\[float32\] | | | | | | skipped: no card \| here |" in said


def test_other_checks_are_left_out_and_text_is_escaped() -> None:
    made = record(
        Check("host", Verdict.PASSED, "here", 0.0),
        pair("x", Verdict.FAILED, "far apart", dict(FIGURES)),
    )
    said = markdown(made)
    assert "host" not in said
    assert "&lt;b&gt;sleeps&lt;/b&gt;" in said
    assert "<b>" not in said

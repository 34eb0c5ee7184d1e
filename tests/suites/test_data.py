"""Every check of the data suite is seen to fail: a maker that repeats itself, rules that find nothing, a set with a placeholder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import sys

if "pytest" in sys.orig_argv:
    from stackproof.workloads import inputs
    from stackproof.probes import datasets

    make = inputs.progressions
    inputs.progressions = lambda *arguments: [*make(*arguments), *make(*arguments)[:1]]
    find = datasets._in_text
    datasets._in_text = lambda record, field, text: find(record, field, text) if "I am" in text and record.line > 4 else iter(())
"""


def handed_in(folder: Path) -> Path:
    """Write a training set whose fifth answer was never filled in (requirements.md C7)."""
    answers = ["one", "two", "three", "four", "I am {{name}}."]
    path = folder / "handed.jsonl"
    path.write_text(
        "".join(json.dumps({"instruction": "?", "output": text}) + "\n" for text in answers), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the suite with all the faults planted; each breaks what others leave alone."""
    return run_planted(
        "data",
        FAULTS,
        tmp_path_factory.mktemp("data"),
        dataset=str(handed_in(tmp_path_factory.mktemp("handed"))),
    )


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("data/own::tokens", "record 65: is the same sample as record 1"),
        ("data/own::layouts", "record 65: is the same sample as record 1"),
        ("data/own::rule[placeholder in double braces]", "should find"),
        ("data/own::rule[no value]", "should find"),
        (
            "data/own::handed_in",
            "handed.jsonl: 1 findings: line 5, record 5, output: placeholder in double braces '{{name}}'",
        ),
    ],
)
def test_the_fault_is_caught_by_name(checks: dict[str, Check], check: str, words: str) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert (checks[check].verdict, True) == (Verdict.FAILED, words in checks[check].reason), checks[check].reason

"""The training data that this project makes holds nothing that a model should not learn; nor does one that is handed in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.probes import datasets
from stackproof.record.checks import NotApplicable, require
from stackproof.record.records import Figure
from stackproof.runner.request import Request
from stackproof.workloads import inputs
from suites.common import SEED

_COUNT = 64
_VOCABULARY = 1000
_NAMED = 5


def _examined(path: Path, figures: dict[str, Figure]) -> None:
    findings = datasets.examine(path)
    figures["findings"] = len(findings)
    message = "; ".join(str(finding) for finding in findings[:_NAMED])
    require(not findings, f"{path.name}: {len(findings)} findings: {message}")


@pytest.mark.deadline(60)
def test_tokens(tmp_path: Path, figures: dict[str, Figure]) -> None:
    """The sequences that the language models are trained on: none empty, none over-long, none twice."""
    path = tmp_path / "progressions.jsonl"
    made = inputs.progressions(SEED, _COUNT, _VOCABULARY)
    path.write_text("".join(json.dumps({"input_ids": sequence.tolist()}) + "\n" for sequence in made), encoding="utf-8")
    _examined(path, figures)
    figures["summary"] = f"{_COUNT} sequences of our own maker: nothing found"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", [pattern.name for pattern in datasets.rules().patterns])
def test_rule(name: str, tmp_path: Path, figures: dict[str, Figure]) -> None:
    """Each rule finds its example in an answer, and leaves its counter-example alone."""
    (rule,) = (pattern for pattern in datasets.rules().patterns if pattern.name == name)
    path = tmp_path / "data.jsonl"
    rows = [{"instruction": "Who are you?", "output": text} for text in (rule.finds, rule.leaves)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    hits = [finding for finding in datasets.examine(path) if finding.rule == name]
    require([finding.record for finding in hits] == [1], f"'{name}' should find {rule.finds!r} only, and found {hits}")
    require(hits[0].field == "output", f"'{name}' was found in '{hits[0].field}', it is in 'output'")
    figures["summary"] = hits[0].sentence


@pytest.mark.deadline(600)
def test_handed_in(run_request: Request, figures: dict[str, Figure]) -> None:
    """A training set that is handed in holds nothing of the kind either (docs/users-reports.md C7)."""
    if not run_request.dataset:
        raise NotApplicable("no training set was handed in; --dataset FILE names one")
    path = Path(run_request.dataset)
    _examined(path, figures)
    figures["summary"] = f"{path.name}: nothing found"

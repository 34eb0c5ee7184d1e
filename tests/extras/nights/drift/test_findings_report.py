"""What people and programs read of nights: confirmed and suspected apart, each with its cause and its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.extras.nights.drift import findings
from stackproof.extras.nights.drift.findings import Drift
from stackproof.record import outline
from tests.extras.nights.drift.nightly import Story, commit, gate, judged, told


@pytest.fixture(scope="module")
def found() -> Drift:
    """One confirmed slowdown of the code, one suspicion of the machine."""
    nights = told(Story(code=(30, 0.04), machine=(50, 0.06), count=54))
    nights[5].provenance["disturbed"] = "foreign load <b>"
    place = judged(nights, [gate(33, commit(29), commit(30), 1.04)])
    return Drift((place,), ("x.json: is damaged",))


def test_the_terminal_says_what_decides_first(found: Drift) -> None:
    text = outline.text(findings.parts(found))
    places = [
        text.index(word)
        for word in ("SLOWER: 1 confirmed slowdown, 1 suspected", "  confirmed slower: ", "  suspected: ")
    ]
    assert places == sorted(places)
    for word in (
        "code (",
        "machine (",
        "nox -s cuda-night",
        "+4.0 % [+3.0 %, +5.0 %]",
        "foreign load",
    ):
        assert word in text


def test_no_records_are_no_crash() -> None:
    empty = Drift((), ())
    assert outline.text(findings.parts(empty)).startswith("TOO FEW NIGHTS: 11 more nights")


def test_a_report_needs_no_file(found: Drift, tmp_path: Path) -> None:
    outline.text(findings.parts(found))
    assert list(tmp_path.iterdir()) == []

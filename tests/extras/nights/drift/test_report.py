"""What people and programs read of nights: confirmed and suspected apart, each with its cause and its command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.extras.nights.drift import report
from stackproof.extras.nights.drift.findings import Drift
from tests.extras.nights.drift.nightly import Story, commit, gate, judged, told


@pytest.fixture(scope="module")
def found() -> Drift:
    """One confirmed slowdown of the code, one suspicion of the machine."""
    nights = told(Story(code=(30, 0.04), machine=(50, 0.06), count=54))
    nights[5].provenance["disturbed"] = "foreign load <b>"
    place = judged(nights, [gate(33, commit(29), commit(30), 1.04)])
    return Drift((place,), ("x.json: is damaged",))


def test_the_terminal_says_what_decides_first(found: Drift) -> None:
    text = report.terminal(found)
    places = [
        text.index(word)
        for word in ("SLOWER: 1 confirmed slowdown, 1 suspected", "confirmed slowdowns:", "suspected, not")
    ]
    assert places == sorted(places)
    for word in (
        "code (",
        "machine (",
        "--base-record n049",
        "+4.0 % [+3.0 %, +5.0 %]",
        "foreign load",
        "x.json: is damaged",
    ):
        assert word in text


def test_markdown_is_never_markup_of_others(found: Drift) -> None:
    page = report.markdown(found)
    assert page.startswith("# SLOWER") and "foreign load &lt;b&gt;" in page and "<b>" not in page


def test_json_has_all_of_it(found: Drift) -> None:
    told_ = json.loads(report.as_json(found))
    (place,) = told_["places"]
    assert (told_["exit_code"], place["confirmed"][0]["told"], place["confirmed"][0]["causes"]) == (1, True, ["code"])
    assert place["suspicions"][0]["causes"] == ["machine"] and "--base-record" in place["suspicions"][0]["command"]
    assert told_["problems"] == ["x.json: is damaged"]


def test_no_records_are_no_crash() -> None:
    empty = Drift((), ())
    assert report.terminal(empty).startswith("NOTHING TO LOOK AT: 11 more nights")
    assert json.loads(report.as_json(empty))["places"] == [] and report.markdown(empty)


def test_a_report_needs_no_file(found: Drift, tmp_path: Path) -> None:
    report.terminal(found)
    assert list(tmp_path.iterdir()) == []

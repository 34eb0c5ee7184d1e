"""The corpus: every log is judged as its index says, none that is clean is called faulty, and the document's table is current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.record.records import Verdict
from stackproof.triage import rules
from tools import triage_corpus
from tools.triage_corpus import CANNOT_SAY, CLEAN, CONTRADICTION, UNKNOWN, Specimen

from ..triage.making import write

SPECIMENS = triage_corpus.load()


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
def test_log_is_judged_as_the_index_says(specimen: Specimen) -> None:
    report = triage_corpus.judge(specimen.name)
    others = tuple(row.signature for row in report.judgement.others)
    assert (triage_corpus.said(report), triage_corpus.first(report), others) == (
        specimen.root,
        specimen.who,
        specimen.others,
    )
    assert (report.verdict is Verdict.PASSED) == (specimen.root == CLEAN)


def test_index_names_every_log_and_only_those() -> None:
    there = {path.name for path in triage_corpus.FOLDER.iterdir()} - {"index.toml"}
    assert {specimen.name for specimen in SPECIMENS} == there


def test_corpus_is_large_and_mixed_enough() -> None:
    assert len(SPECIMENS) >= 25
    assert sum(specimen.root == CLEAN for specimen in SPECIMENS) >= 5
    assert sum(bool(specimen.others) for specimen in SPECIMENS) >= 2
    assert UNKNOWN in {specimen.root for specimen in SPECIMENS}
    assert {specimen.origin for specimen in SPECIMENS} == set(triage_corpus.ORIGINS)


def test_roots_are_signatures() -> None:
    known = {row.id for row in rules.load_all()} | {CLEAN, UNKNOWN, CONTRADICTION, CANNOT_SAY}
    assert {specimen.root for specimen in SPECIMENS} - known == set()


def test_document_has_the_table_as_it_is_now() -> None:
    text = triage_corpus.DOCUMENT.read_text(encoding="utf-8")
    assert triage_corpus.document(text) == text


def test_table_counts_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    clean, faulty = (
        next(row for row in SPECIMENS if row.name == name) for name in ("dcu-lora-eight-cards.log", "dcu-amdsmi.log")
    )
    swapped = (
        Specimen(clean.name, "dcu-amdsmi-undefined", "", (), "real", "x"),
        Specimen(faulty.name, CLEAN, "", (), "real", "x"),
    )
    monkeypatch.setattr(triage_corpus, "load", lambda: swapped)
    table = triage_corpus.table()
    assert "| known failure | 0 | 0 | 1 | 0 | 0 |" in table
    assert "| clean | 0 | 0 | 0 | 0 | 1 |" in table
    assert table.count("**") == 4


def test_logs_name_no_machine_of_ours() -> None:
    for path in triage_corpus.FOLDER.rglob("*.*"):
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"/(?:root|home|tmp|work)/", text), path
        public = [
            found
            for found in re.findall(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", text)
            if not found.startswith(("10.", "127.", "192.168."))
        ]
        assert public == [], path


def test_broken_index_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triage_corpus, "FOLDER", tmp_path)
    write(tmp_path, '[[log]]\nname = "x"\nrott = ""\n', "index.toml")
    with pytest.raises(Refusal, match=r"'log\[0\].root' is missing"):
        triage_corpus.load.__wrapped__()


def test_main_writes_the_document(tmp_path: Path) -> None:
    path = tmp_path / "triage.md"
    path.write_text(
        "before\n<!-- corpus: begin -->\nwhat it was before\n<!-- corpus: end -->\nafter\n", encoding="utf-8"
    )
    triage_corpus.main(path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- corpus: begin -->\n| ")
    assert text.endswith("|\n<!-- corpus: end -->\nafter\n")
    assert "what it was before" not in text

"""The page of fleets: the sentence, the picture, who is to be drained, and whoever is not proved; names of hosts stay text."""

from __future__ import annotations

from pathlib import Path

from stackproof.extras.fleet import judgement, sweep
from stackproof.extras.nights.site import fleets

from ...fleet.making import SUBJECTS, MadeHost, fleet


def kept(folder: Path) -> Path:
    """Judge a sweep and keep that; one host is slow, one left nothing."""
    fleet(folder, 8, MadeHost("slow1", slow={SUBJECTS[0]: 1.3}), silent=("dead1",))
    sweep.keep(sweep.judged(folder), folder)
    return folder


def test_every_sweep_has_its_sentence_and_its_picture(tmp_path: Path) -> None:
    kept(tmp_path / "monday")
    kept(tmp_path / "tuesday")
    text = fleets.render(*fleets.read(fleets.files([tmp_path])))
    assert text.index("tuesday: 10 hosts") < text.index("monday: 10 hosts")
    assert text.count("<svg") == 2 and "scontrol update NodeName=slow1" in text
    assert "left nothing" in text and ">n01<" not in text


def test_what_is_no_judgement_is_named_and_passed_over(tmp_path: Path) -> None:
    kept(tmp_path / "monday")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / judgement.NAME).write_text("{", encoding="utf-8")
    text = fleets.render(*fleets.read(fleets.files([tmp_path])))
    assert "monday: 10 hosts" in text and "skipped:" in text and "damaged" in text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    folder = kept(tmp_path / "monday")
    path = folder / judgement.NAME
    path.write_text(path.read_text().replace("slow1", "<script>alert(1)</script>"), encoding="utf-8")
    text = fleets.render(*fleets.read(fleets.files([tmp_path])))
    assert "<script>alert" not in text and "&lt;script&gt;" in text and "scontrol" not in text


def test_without_a_sweep_the_page_says_what_makes_one() -> None:
    assert "nox -s NAME-fleet -- judge FOLDER" in fleets.render([], [])

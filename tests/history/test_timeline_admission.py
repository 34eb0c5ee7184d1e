"""Admission: what is published was measured in a state that somebody else can go back to."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.history import timeline
from stackproof.record import store
from stackproof.record.records import Record, Verdict

from . import making


def test_a_record_is_copied_once(tmp_path: Path) -> None:
    path = store.append(making.record(0), tmp_path / "local")
    published = timeline.admit(path, tmp_path / "published")
    assert published.parent == tmp_path / "published" / "cuda" / "box"
    assert store.load([tmp_path / "published"]).records == {published: making.record(0)}
    assert timeline.admit(path, tmp_path / "published") == published
    assert path.exists()


def without_host() -> Record:
    """Return a record of before hosts had names."""
    made = making.record(0)
    del made.provenance["host"]
    return made


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (making.record(0, commit="a" * 40 + " (with local changes)"), "commit the changes and measure again"),
        (making.record(0, commit="unknown"), "which nobody can go back to"),
        (making.record(0, verdict=Verdict.MISMATCHED), "was not its lock"),
        (making.record(0, making.figure(version="")), "no figures with a version"),
        (making.record(0, verb="triage"), "records of `triage` are not published; those of bench, asv, night"),
        (making.record(0, verb="night", verdict=Verdict.INTERRUPTED), "go on with it"),
        (without_host(), "on which host"),
    ],
)
def test_what_is_kept_out_says_why(tmp_path: Path, record: Record, sentence: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(record.as_json(), encoding="utf-8")
    with pytest.raises(Refusal, match=sentence) as caught:
        timeline.admit(path, tmp_path / "published")
    assert str(caught.value).startswith(f"{path}: is not admitted: ")
    assert not (tmp_path / "published").exists()


@pytest.mark.parametrize("verb", ["night", "gate", "smoke"])
def test_nights_and_what_proves_them_keep_the_name_of_their_run(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "local" / f"20260101T020000-{verb}-x7" / "record.json"
    path.parent.mkdir(parents=True)
    path.write_text(making.record(0, making.figure(version=""), verb=verb).as_json(), encoding="utf-8")
    published = timeline.admit(path, tmp_path / "published")
    assert published.name == f"20260101T020000-{verb}-x7.record.json" and store.run_of(published) == store.run_of(path)
    assert timeline.admit(path, tmp_path / "published") == published
    path.write_text(making.record(1, making.figure(version=""), verb=verb).as_json(), encoding="utf-8")
    assert timeline.admit(path, tmp_path / "published").name != published.name


def test_a_failed_neighbour_does_not_keep_figures_out(tmp_path: Path) -> None:
    path = store.append(making.record(0, verdict=Verdict.FAILED), tmp_path / "local")
    assert timeline.admit(path, tmp_path / "published").exists()


def test_no_record_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        timeline.admit(tmp_path / "absent.json")

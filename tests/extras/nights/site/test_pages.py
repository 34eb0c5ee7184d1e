"""Pages: links lead from where a page lies, tables are reached by keyboard, and a fleet's page names who is not proved."""

from __future__ import annotations

from pathlib import Path

from stackproof.extras.fleet import judge, judgement
from stackproof.extras.nights.site import build

from ...fleet.making import SUBJECTS, MadeHost, fleet
from . import making
from .making import Elements


def page(folder: Path, name: str = "fleets.html") -> str:
    """Return a page of the site of a folder."""
    build.build(folder / "out", making.order(folder))
    return (folder / "out" / name).read_text(encoding="utf-8")


def test_links_lead_from_where_a_page_lies(tmp_path: Path) -> None:
    making.kept(tmp_path, [making.suites("cpu", making.TODAY)])
    page(tmp_path)
    (name,) = (tmp_path / "out" / "record").glob("*.html")
    seen = Elements(name.read_text(encoding="utf-8"))
    assert "../index.html" in [attributes["href"] for tag, attributes in seen.found if tag == "a"]
    policy = next(attributes["content"] for tag, attributes in seen.found if attributes.get("http-equiv"))
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert ("th", {"scope": "row"}) in seen.found and ("td", {"class": "n"}) in seen.found
    wide = [attributes for tag, attributes in seen.found if attributes.get("class") == "wide"]
    assert wide and all(one["tabindex"] == "0" and one["aria-label"] for one in wide)


def test_the_page_that_is_open_is_told(tmp_path: Path) -> None:
    seen = Elements(page(tmp_path, "runs.html"))
    assert [attributes["href"] for _, attributes in seen.found if "aria-current" in attributes] == ["runs.html"]


def kept(folder: Path) -> Path:
    """Judge a sweep and keep that; one host is slow, one left nothing."""
    fleet(folder, 8, MadeHost("slow1", slow={SUBJECTS[0]: 1.3}), silent=("dead1",))
    judge.keep(judge.judge(folder), folder)
    return folder


def test_every_sweep_has_its_sentence(tmp_path: Path) -> None:
    kept(tmp_path / "monday")
    kept(tmp_path / "tuesday")
    text = page(tmp_path)
    assert text.index("tuesday: 10 hosts") < text.index("monday: 10 hosts")
    assert "scontrol update NodeName=slow1" in text
    assert "left nothing" in text and ">n01<" not in text


def test_what_is_no_judgement_is_named_and_passed_over(tmp_path: Path) -> None:
    kept(tmp_path / "monday")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / judgement.NAME).write_text("{", encoding="utf-8")
    text = page(tmp_path)
    assert "monday: 10 hosts" in text and "skipped:" in text and "damaged" in text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    folder = kept(tmp_path / "monday")
    path = folder / judgement.NAME
    path.write_text(path.read_text().replace("slow1", "<script>alert(1)</script>"), encoding="utf-8")
    text = page(tmp_path)
    assert "<script>alert" not in text and "&lt;script&gt;" in text and "scontrol" not in text


def test_without_a_sweep_the_page_says_what_makes_one(tmp_path: Path) -> None:
    assert "nox -s NAME-fleet -- judge FOLDER" in page(tmp_path)

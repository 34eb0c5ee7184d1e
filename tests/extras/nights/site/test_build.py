"""The folder: byte-equal, without what is gone, nobody's files are touched, and every name in it is text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.extras.nights.site import build, pages, stack_status
from stackproof.record import repeat
from stackproof.record.records import Figure, Verdict

from . import making
from .making import TODAY, Elements


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighty nights of two figures with a confirmed step, runs of suites, and one file that is no record."""
    folder = making.store(tmp_path_factory.mktemp("store"), 80, 2)
    runs = [making.suites("cpu", TODAY - timedelta(day), host=f"h{day}") for day in range(2)]
    making.kept(folder, [*runs, making.suites("cuda", TODAY, Verdict.FAILED)])
    return folder


@pytest.fixture(scope="module")
def site(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of these records."""
    out = tmp_path_factory.mktemp("site") / "out"
    build.build(out, making.order(records))
    return out


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a site."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_builds_are_byte_equal(records: Path, site: Path, tmp_path: Path) -> None:
    build.build(tmp_path / "other", making.order(records))
    assert contents(tmp_path / "other") == contents(site)


def test_a_record_that_is_gone_has_no_page(tmp_path: Path) -> None:
    folder, out = (
        making.kept(tmp_path / "store", [making.suites("cpu", TODAY), making.suites("xpu", TODAY)]),
        tmp_path / "out",
    )
    build.build(out, making.order(folder))
    assert len([*(out / "record").glob("*.html")]) == 2
    (folder / "0001.record.json").unlink()
    build.build(out, making.order(folder))
    assert len([*(out / "record").glob("*.html")]) == 1


def test_a_day_later_other_cells_are_stale(records: Path, site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build.build(out, making.order(records))
    done = build.build(out, making.order(records, TODAY + timedelta(15)))
    assert done.sentence and "stale" in done.sentence


def targets(site: Path) -> Iterator[tuple[str, str]]:
    """Yield each page and what it links to or loads."""
    for path in site.rglob("*.html"):
        for _, attributes in Elements(path.read_text(encoding="utf-8")).found:
            for name in ("href", "src"):
                if name in attributes:
                    yield path.relative_to(site).as_posix(), attributes[name]


def test_every_link_resolves_inside_the_folder(site: Path) -> None:
    seen = 0
    for page, target in targets(site):
        split = urlsplit(target)
        assert not split.scheme and not split.netloc, (page, target)
        path = (site / page).parent / unquote(split.path) if split.path else site / page
        assert path.resolve().is_file() and site.resolve() in path.resolve().parents, (page, target)
        if split.fragment:
            assert f"id={split.fragment}" in path.read_text(encoding="utf-8").replace('"', ""), (page, target)
        seen += 1
    assert seen > 200


def test_records_lie_beside_their_pages_as_they_were_written(records: Path, site: Path) -> None:
    originals = {path.read_bytes() for path in records.iterdir()}
    copies = [path.read_bytes() for path in (site / "record").glob("*.json")]
    assert len(copies) > 8 and set(copies) <= originals


def test_what_is_confirmed_is_on_every_page_that_tells_of_it(site: Path) -> None:
    told = "+6.0 % [+5.0 %, +7.0 %] slower"
    assert told in (site / "changes.html").read_text(encoding="utf-8")
    data = json.loads((site / "data.json").read_text(encoding="utf-8"))
    steps = [step for step in data["steps"] if step["said"].startswith("confirmed") and "--base" in step["command"]]
    assert [step["causes"] for step in steps] == [["code"]]
    assert told in (site / steps[0]["page"]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "No night has left figures yet, so nothing is known of slowdowns"), (1, "Nights: TOO FEW NIGHTS: 10 more nights needed before")],
)  # fmt: skip
def test_few_nights_make_a_site_that_says_so(tmp_path: Path, count: int, said: str) -> None:
    making.store(tmp_path / "store", count)
    (tmp_path / "store").mkdir(exist_ok=True)
    done = build.build(tmp_path / "out", making.order(tmp_path / "store"))
    assert done.sentence and done.sentence.startswith(said) and "o confirmed" not in done.sentence
    front = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert ("There are no figures yet" in front) is (count == 0)
    assert {"changes.html", "runs.html", "data.json"} <= set(contents(tmp_path / "out"))


def test_hostile_names_stay_text_in_every_file(tmp_path: Path) -> None:
    making.hostile(tmp_path / "store")
    done = build.build(tmp_path / "out", making.order(tmp_path / "store"))
    assert any("2026-13-41" in one for one in done.problems), done.problems
    pages = list((tmp_path / "out").rglob("*.html"))
    assert len(pages) > 8
    for path in pages:
        seen = Elements(path.read_text(encoding="utf-8"))
        assert {"img", "style", "iframe"}.isdisjoint(tag for tag, _ in seen.found), path
        assert all(attributes.get("src", "").endswith(".js") for tag, attributes in seen.found if tag == "script"), path
        assert not any(name.startswith("on") for _, attributes in seen.found for name in attributes), path
        assert not any(
            re.match(r"\s*(javascript|data|https?):", attributes.get("href", "")) for _, attributes in seen.found
        ), path
    assert "onerror=alert(1)" in Elements((tmp_path / "out" / "index.html").read_text(encoding="utf-8")).text
    json.loads((tmp_path / "out" / "data.json").read_text(encoding="utf-8"))


def test_somebodys_folder_is_left_alone(records: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine", encoding="utf-8")
    with pytest.raises(Refusal, match="is no site"):
        build.build(tmp_path, making.order(records))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_another_programs_data_is_no_site(records: Path, tmp_path: Path) -> None:
    for text in ("{", "[]", '{"schema": "x"}'):
        (tmp_path / pages.DATA).write_text(text, encoding="utf-8")
        with pytest.raises(Refusal, match="is no site"):
            build.build(tmp_path, making.order(records))


def test_a_damaged_record_is_named_and_costs_only_itself(records: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    making.kept(folder, [making.suites("cpu", TODAY)])
    (folder / "0009.record.json").write_text('{"verb": "smo', encoding="utf-8")
    done = build.build(tmp_path / "out", making.order(folder))
    assert len(done.problems) == 1 and done.problems[0].startswith("store/0009.record.json: is damaged")
    front = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "is damaged or cut short" in front and str(tmp_path) not in front
    again = build.build(tmp_path / "out", making.order(folder))
    assert again.problems == done.problems and (folder / "0009.record.json").exists()


def test_a_file_below_the_checkout_is_named_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name = "results/demonstration/cpu/night.record.json"
    for folder in (Path("results/demonstration"), ROOT / "results" / "demonstration"):
        assert stack_status.shown(f"--results {folder / 'cpu' / 'night.record.json'}", [folder]) == f"--results {name}"


def test_links_survive_new_nights(records: Path, site: Path, tmp_path: Path) -> None:
    folder = making.store(tmp_path / "store", 60, 2)
    build.build(tmp_path / "out", making.order(folder))
    names = {path.name for path in (tmp_path / "out" / "series").iterdir()}
    assert names <= {path.name for path in (site / "series").iterdir()} and len(names) == 2


def test_a_double_is_not_waited_for(tmp_path: Path) -> None:
    order = replace(making.order(tmp_path / "none"), stacks=("cuda", "sim"), doubles=("sim",))
    (tmp_path / "none").mkdir()
    sentence = build.build(tmp_path / "out", order).sentence
    assert sentence and sentence.endswith("othing is proved of 1 stack on its device (cuda).")


def test_a_wall_of_nothing_is_a_sentence(tmp_path: Path) -> None:
    making.store(tmp_path / "store", 2)
    build.build(tmp_path / "out", making.order(tmp_path / "store"))
    front = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "No suite has been verified here yet" in front and 'class="matrix"' not in front
    assert "stacks of which nothing is proved here</summary>" in front and "never ran here" not in front


def test_a_loss_since_the_first_anchor_is_in_the_sentence(tmp_path: Path) -> None:
    making.store(tmp_path / "store", 40)
    done = build.build(tmp_path / "out", making.order(tmp_path / "store"))
    assert done.sentence and "slower than the first anchor on" in done.sentence
    (page,) = (tmp_path / "out" / "series").glob("*.html")
    assert "Since the first anchor:" in page.read_text(encoding="utf-8")


def test_old_nights_claim_nothing_of_today(tmp_path: Path) -> None:
    making.store(tmp_path / "store", 20, until=TODAY - timedelta(40))
    sentence = build.build(tmp_path / "out", making.order(tmp_path / "store")).sentence
    assert sentence and f"no night since {TODAY - timedelta(40)}" in sentence


@pytest.mark.parametrize(
    ("verb", "facts", "command"),
    [
        ("verify", {"typed": "verify --stack cuda --preset full"}, "nox -s cuda-verify -- --preset full"),
        ("verify", {}, "nox -s cuda-verify -- --suite smoke"),
        ("gate", {"base": "a" * 12, "head": "b" * 12}, ""),
    ],
)  # fmt: skip
def test_a_record_says_how_it_is_made_again(verb: str, facts: dict[str, Figure], command: str) -> None:
    run = making.suites("cuda", TODAY)
    run = replace(run, verb=verb, provenance={**run.provenance, **facts})
    assert repeat.command_of(run) == command

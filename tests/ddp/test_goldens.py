"""Golden loss curves: what was written is read back to the bit, and nothing that was not seen is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.ddp import goldens
from stackproof.stack import stacks

SETTING = goldens.setting(stacks.load("cpu"), "classifier", "tiny", 7, 2, 3)
SEEN = {"torch": "2.15.0", "device": "cpu: a processor", "backend": "gloo", "made": "2026-11-20"}
LOSSES = (1.38843262, 1.1, 0.952514529)


@pytest.fixture
def where(tmp_path: Path) -> Path:
    found = tmp_path / "cpu" / "classifier.txt"
    goldens.save(found, goldens.Golden(SETTING, SEEN, LOSSES))
    return found


def refused(where: Path, old: str, new: str) -> str:
    text = where.read_text()
    assert old in text
    where.write_text(text.replace(old, new))
    with pytest.raises(Refusal) as refusal:
        goldens.load(where, SETTING, "export it again")
    assert str(refusal.value).startswith(str(where))
    assert str(refusal.value).endswith("; export it again")
    return str(refusal.value)


def test_a_golden_comes_back_as_it_was(where: Path) -> None:
    assert goldens.Golden(SETTING, SEEN, LOSSES) == goldens.load(where, SETTING, "")


@pytest.mark.parametrize("word", ["TODO", "nan", "<loss>", "...", "inf", "-1.0", ""])
def test_a_loss_that_was_not_seen_is_refused(where: Path, word: str) -> None:
    assert "classifier.txt:14: " in refused(where, "1.1\n", f"{word}\n")


@pytest.mark.parametrize("word", ["TODO", "<date>", "{{made}}", "???"])
def test_an_origin_that_was_not_seen_is_refused(where: Path, word: str) -> None:
    assert "is a placeholder" in refused(where, "2026-11-20", word)


def test_a_missing_fact_is_refused(where: Path) -> None:
    assert "'backend' is missing" in refused(where, "backend = gloo\n", "")


def test_zeros_are_refused(where: Path) -> None:
    assert "its losses are placeholders" in refused(where, "1.1\n", "0.0\n")


def test_one_value_throughout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="its losses are placeholders: 1, 1, 1"):
        goldens.save(tmp_path / "flat.txt", goldens.Golden(SETTING, SEEN, (1.0, 1.0, 1.0)))
    assert not (tmp_path / "flat.txt").exists()


def test_missing_losses_are_refused(where: Path) -> None:
    assert "holds 2 losses and says steps = 3" in refused(where, "1.1\n", "")


def test_other_settings_are_refused(where: Path) -> None:
    assert "was made with ranks = 4, and the run has 2" in refused(where, "ranks = 2", "ranks = 4")


def test_something_else_is_refused(where: Path) -> None:
    assert "is not a golden: its first line must be" in refused(where, "# stackproof", "# other")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"none.txt: cannot be read .*; make it"):
        goldens.load(tmp_path / "none.txt", SETTING, "make it")


def test_a_rehearsal_has_goldens_of_its_own() -> None:
    dcu = stacks.load("dcu")
    assert goldens.path(dcu, "classifier") != goldens.path(dcu.rehearse(), "classifier")
    assert "dcu rehearsed" == goldens.setting(dcu.rehearse(), "classifier", "tiny", 7, 2, 3)["stack"]


def test_only_curves_that_passed_are_collected(where: Path, tmp_path: Path) -> None:
    run = tmp_path / "run" / "stage-0" / "goldens" / "cpu"
    for name in ("classifier", "yolov8n"):
        goldens.save(run / f"{name}.txt", goldens.Golden({**SETTING, "workload": name}, SEEN, LOSSES))
    kept = goldens.collect(tmp_path / "run", ["classifier"], tmp_path / "goldens")
    assert [tmp_path / "goldens" / "cpu" / "classifier.txt"] == kept
    assert LOSSES == goldens.load(kept[0], SETTING, "").losses


@pytest.mark.parametrize(
    "path", sorted(goldens.FOLDER.rglob("*.txt")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_the_goldens_of_this_repository_are_whole(path: Path) -> None:
    golden = goldens._parsed(path, path.read_text().splitlines())
    goldens.load(path, golden.setting, "")
    assert path.stem == golden.setting["workload"]
    assert path.parent.name == golden.setting["stack"].replace(" ", "-")
    assert golden.losses[-1] < golden.losses[0]

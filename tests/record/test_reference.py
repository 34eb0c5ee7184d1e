"""Reference figures: complete, in stored units, and never taken for measured ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.bench.subjects import profiles, subjects
from stackproof.record import reference
from stackproof.stack import stacks

GOOD = """
title = "t"
stack = "xpu"
device = "d"
source = "s"
[pins]
torch = "2.8.0+xpu"
[conditions]
batch = "1"
[[figure]]
subjects = ["training-yolo*"]
preset = "full"
ranks = 2
value = 4.0
unit = "samples/s"
"""


def test_the_first_users_figures_are_there() -> None:
    rows = reference.load_all()
    assert {(row.of.stack, row.ranks) for row in rows} == {("xpu", 2), ("dcu", 8), ("xpu", 1), ("cuda", 16)}
    assert {row.of.stack for row in rows} <= set(stacks.names())
    assert all(row.of.device and row.of.pins and row.of.source and row.of.conditions for row in rows)


def test_rates_are_kept_as_seconds() -> None:
    (samples,) = reference.find("training-qwen3-0.6b-lora", "full", "s/sample")
    assert 1 / samples.seconds == pytest.approx(5.881)
    (steps,) = reference.find("training-yolov8x", "full", "s/sample")
    assert steps.seconds == 3.4


def test_a_figure_is_of_its_work_only() -> None:
    assert reference.find("training-qwen3-0.6b-lora", "tiny", "s/sample") == ()
    assert reference.find("optimiser-qwen3-0.6b-lora", "full", "s/iteration") == ()
    assert len(reference.find("data-parallel-qwen3-0.6b-lora-2-ranks", "full", "s/sample")) == 1


def test_a_figure_in_another_unit_is_better_than_none() -> None:
    (row,) = reference.find("training-yolov8x", "full", "s/sample")
    assert row.unit == "s/iteration"


def test_references_are_of_subjects_that_exist() -> None:
    names = [one.name for chosen in profiles() for one in subjects(chosen.name, stacks.load("cpu"))]
    for row in reference.load_all():
        assert any(row.fits(name, "full") for name in names), row.of.title


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("value = 4.0", "value = 0"), "must be above 0"),
        (("samples/s", "fps"), "'figure\\[0\\].unit' is 'fps'"),
        (('preset = "full"', 'preset = "huge"'), "'figure\\[0\\].preset' is 'huge'"),
        (('source = "s"', ""), "'source' is missing"),
        (("[pins]", "[pin]"), "'pins' is missing"),
        (("ranks = 2", "ranks = 2\nrank = 3"), "'figure\\[0\\].rank' is not a known key"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(GOOD.replace(*change), encoding="utf-8")
    with pytest.raises(Refusal, match=sentence) as caught:
        reference.load(path)
    assert str(caught.value).startswith(str(path))


def test_the_good_table_is_good(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(GOOD, encoding="utf-8")
    (row,) = reference.load(path)
    assert (row.seconds, row.unit, row.ranks) == (0.25, "s/sample", 2)

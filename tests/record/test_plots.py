"""Pictures are drawn from a record alone, and say what they are of."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.bench.rows import measurements
from stackproof.record import plots
from stackproof.record.records import Figure, Measurement, Record, Verdict

from ..bench.test_rows_sampled import sampled

PNG = b"\x89PNG\r\n\x1a\n"


def record(*rows: list[Measurement], **facts: str) -> Record:
    """Return a record with these rows, of a device with a name that could be markup."""
    provenance: dict[str, Figure] = {"cuda:0.name": "Card <b>$x^2$</b> & Co", "torch": "2.15.0", **facts}
    flat = [row for group in rows for row in group]
    return Record(
        "bench", "cuda", "2026-01-02T03:04:05+00:00", 1.0, Verdict.PASSED, provenance=provenance, measurements=flat
    )


def curve(size: float, seconds: float) -> list[Measurement]:
    """Return the rows of an all-reduce of so many bytes over two ranks."""
    gigabytes = size / 1e9
    samples = tuple(seconds / gigabytes * (1 + n / 50) for n in range(10))
    worth = {"iteration": 1.0, "GB": gigabytes, "GB over a link": gigabytes}
    one = sampled(
        subject=f"all-reduce-{size:g}",
        unit="s/GB",
        samples=samples,
        worth=worth,
        world_size=2,
        facts={"call": "all-reduce"},
    )
    return measurements(one, "collective", "AMD EPYC")


TRAINING = measurements(sampled(samples=tuple(0.02 + n * 1e-4 for n in range(40))), "training", "AMD EPYC")


def test_both_pictures_in_both_formats(tmp_path: Path) -> None:
    drawn = plots.draw(record(TRAINING, curve(4096, 1e-4), curve(1 << 20, 1e-3)), tmp_path / "new")
    assert [path.name for path in drawn] == [
        "cuda-bandwidth.png", "cuda-bandwidth.svg", "cuda-distribution.png", "cuda-distribution.svg",
    ]  # fmt: skip
    for path in drawn:
        assert path.read_bytes().startswith(PNG) or path.read_text(encoding="utf-8").rstrip().endswith("</svg>")


def test_the_picture_says_what_it_is_of(tmp_path: Path) -> None:
    plots.draw(record(TRAINING), tmp_path)
    text = (tmp_path / "cuda-distribution.svg").read_text(encoding="utf-8")
    for words in ("cuda", "torch 2.15.0", "2026-01-02", "training", "samples/s"):
        assert words in text
    assert "Card &lt;b&gt;$x^2$&lt;/b&gt; &amp; Co" in text
    assert "<b>" not in text


def test_a_rehearsal_says_so(tmp_path: Path) -> None:
    made = record(TRAINING, **{"verified on": "cpu", "hardware": "cuda"})
    made.provenance["rehearsed"] = True
    plots.draw(made, tmp_path)
    assert "rehearsed on cpu, not verified on cuda" in (tmp_path / "cuda-distribution.svg").read_text(encoding="utf-8")


def test_the_same_record_gives_the_same_svg(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        plots.draw(record(TRAINING), tmp_path / folder)
    first, second = ((tmp_path / name / "cuda-distribution.svg").read_bytes() for name in ("a", "b"))
    assert first == second


def test_one_size_is_no_curve(tmp_path: Path) -> None:
    assert [path.stem for path in plots.draw(record(curve(4096, 1e-4)), tmp_path)] == ["cuda-distribution"] * 2


def test_what_no_picture_shows_is_told() -> None:
    few = measurements(sampled(subject="short", samples=(0.02, 0.03)), "training", "AMD EPYC")
    told = plots.not_drawn(record(TRAINING, few, curve(4096, 1e-4)))
    assert told == [
        "short: 2 samples, and a strip needs 8",
        "bandwidth of all-reduce, 2 ranks: one size only, and a curve needs 2",
    ]
    many = [measurements(sampled(subject=f"s{n}", samples=(0.02,) * 9), "training", "AMD EPYC") for n in range(70)]
    strips = len(record(*many).measurements)
    assert len(plots.not_drawn(record(*many))) in range(1, strips) and plots.not_drawn(record(TRAINING)) == []


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="this record holds no samples of benchmarks"):
        plots.draw(record(), tmp_path)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match=re.escape("nothing can be drawn there")):
        plots.draw(record(TRAINING), tmp_path / "file")


def test_without_matplotlib_the_refusal_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Refusal, match="--plots needs matplotlib"):
        plots.require()

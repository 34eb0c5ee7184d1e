"""Two figures in turn: the order, the ratio and its direction, the data about each pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.bench import agree
from stackproof.bench.agree import Turns, pair, pairs, side_by_side


def test_turns_are_a_b_b_a_after_one_of_each_that_does_not_count() -> None:
    order: list[str] = []

    def block(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    found = side_by_side(lambda: block("a", 1.0), lambda: block("b", 2.0), rounds=2)
    assert "".join(order) == "ab" + "abba" * 2
    assert found == Turns((1.0,) * 4, (2.0,) * 4)
    assert found.ratio.median == 0.5
    assert found.medians == (1.0, 2.0)


def test_a_steady_drift_cancels() -> None:
    clock = iter(1.01**n for n in range(1000))
    found = side_by_side(lambda: next(clock), lambda: next(clock), rounds=10)
    assert found.ratio.median == pytest.approx(1.0, abs=2e-4)


def test_every_pair_says_what_differs() -> None:
    assert set(pairs()) == {"gemm-torch-timer", "gemm-triton", "lora-trainer", "yolo-ultralytics", "all-reduce-loop"}
    for row in pairs().values():
        assert row.link.startswith("https://")
        assert len(row.differs) > 20
        assert row.bound <= 0.02 or "so it may take longer" in row.differs


def test_an_unknown_pair_is_refused() -> None:
    with pytest.raises(Refusal, match="there is no pair 'gemm-tritn'"):
        pair("gemm-tritn")


def test_a_bound_must_be_a_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = agree.FILE.read_text(encoding="utf-8").replace("bound = 0.10", "bound = 10")
    path = tmp_path / "agreement.toml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(agree, "FILE", path)
    pairs.cache_clear()
    try:
        with pytest.raises(Refusal, match="bound' is 10.0; it must be a share between 0 and 1"):
            pairs()
    finally:
        pairs.cache_clear()

"""Peaks are published figures with a source; where none is known, no share is guessed."""

from __future__ import annotations

import pytest

from stackproof.bench import rows


def test_every_device_has_a_source_and_figures() -> None:
    for row in rows.peaks():
        assert row.source.startswith("https://")
        assert row.bandwidth > 100
        assert row.tflops


@pytest.mark.parametrize(
    ("name", "arithmetic", "expected"),
    [
        ("NVIDIA H200", "bfloat16", 989.4),
        ("NVIDIA L40S", "tf32", 183.0),
        ("Intel(R) Graphics [0xe211]", "float32", 12.29),
    ],
)
def test_devices_are_found_by_torchs_name(name: str, arithmetic: str, expected: float) -> None:
    found = rows.find(name)
    assert found is not None
    assert found.tflops[arithmetic] == expected
    assert rows.utilisation(name, arithmetic, expected / 2) == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["NVIDIA H200 NVL", "K100_AI", "AMD EPYC", ""])
def test_an_unknown_device_has_no_peak(name: str) -> None:
    assert rows.find(name) is None
    assert rows.utilisation(name, "bfloat16", 100.0) is None


def test_an_unknown_arithmetic_has_no_share() -> None:
    assert rows.utilisation("Intel(R) Graphics [0xe211]", "bfloat16", 10.0) is None

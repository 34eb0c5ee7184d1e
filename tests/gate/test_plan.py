"""The gate's table is read strictly: a promise that cannot be kept is refused by file and key, before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.gate import plan


@pytest.mark.parametrize(
    ("was", "slip", "words"),
    [
        ("looks = [6, 10, 14]", "looks = [2, 10]", "looks' must rise from 3 or more"),
        ("looks = [6, 10, 14]", "looks = [6, 6]", "looks' must rise"),
        ("[count]\nlaunches = 2", "[count]\nlaunches = 0", "'capture.launches' must be among those of 'count'"),
        ("other = 0.02\n", "", "needs 'other'"),
    ],
)
def test_a_slip_is_refused(was: str, slip: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands the file is whole; each slip has its own sentence."""
    text = plan.FILE.read_text(encoding="utf-8")
    assert text.count(was) == 1
    path = tmp_path / "gate.toml"
    path.write_text(text.replace(was, slip), encoding="utf-8")
    monkeypatch.setattr(plan, "FILE", path)
    with pytest.raises(Refusal, match=words) as refused:
        plan.load.__wrapped__()
    assert "gate.toml" in str(refused.value)


def test_a_subject_may_ask_for_more_than_its_device() -> None:
    """A row's effect, else the device's, else that of devices that are not listed."""
    declared = plan.load()
    assert declared.effect("training-yolov8n", "cpu") > declared.effect("gemm-float32", "cpu")
    assert declared.effect("gemm-float32", "npu") == declared.effect("gemm-float32", "cuda")

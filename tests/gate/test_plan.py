"""The gate's table is read strictly: a promise that cannot be kept is refused by file and key, before anything is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.gate import plan


@pytest.mark.parametrize(
    ("was", "slip", "words"),
    [
        ("looks = [4, 7, 10, 14]", "looks = [2, 10]", "looks' must rise from 3 or more"),
        ("looks = [4, 7, 10, 14]", "looks = [6, 6]", "looks' must rise"),
        ("launches = 2", "launches = 0", "count.launches' is 0; it must be 1 or more"),
        ("other = 0.02\n", "", "needs 'other'"),
    ],
)
def test_a_slip_is_refused(was: str, slip: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = plan.FILE.read_text(encoding="utf-8")
    assert text.count(was) == 1
    path = tmp_path / "gate.toml"
    path.write_text(text.replace(was, slip), encoding="utf-8")
    monkeypatch.setattr(plan, "FILE", path)
    with pytest.raises(Refusal, match=words) as refused:
        plan.load.__wrapped__()
    assert "gate.toml" in str(refused.value)


def test_a_subject_may_ask_for_more_than_its_device() -> None:
    declared = replace(plan.load(), asked={"training-small": {"effect": 0.08, "spared": ["npu"]}})
    assert declared.effect("training-small", "cpu") > declared.effect("gemm-float32", "cpu")
    assert (declared.spares("training-small", "npu"), declared.spares("training-small", "cpu")) == (True, False)
    assert declared.effect("gemm-float32", "npu") == declared.effect("gemm-float32", "cuda")

"""What the gate's table declares by type of device, and what subjects ask instead."""

from __future__ import annotations

from dataclasses import replace

from stackproof.gate import plan


def test_a_subject_may_ask_for_more_than_its_device() -> None:
    declared = replace(plan.load(), asked={"training-small": {"effect": 0.08, "spared": ["npu"]}})
    assert declared.effect("training-small", "cpu") > declared.effect("gemm-float32", "cpu")
    assert (declared.spares("training-small", "npu"), declared.spares("training-small", "cpu")) == (True, False)
    assert declared.effect("gemm-float32", "npu") == declared.effect("gemm-float32", "cuda")

"""Checks of the precision suite are seen to fail: each fault is planted while its check runs, and breaks what others leave alone."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import contextlib, os, sys

def during(check):
    return check in os.environ.get("PYTEST_CURRENT_TEST", "")

if "pytest" in sys.orig_argv:
    import torch
    import torch.nn.functional as functional
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten

    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            if function is aten.mm.default and result.dtype is torch.float32 and during("switch[product]"):
                result.mul_(1.001)
            if function is aten.convolution.default and during("switch[convolution]"):
                if torch.get_float32_matmul_precision() == "high" and result.dtype is torch.float32:
                    result.mul_(1.01)
            return result

    Wrong().__enter__()

    def plant(owner, name, check, wrong):
        original = getattr(owner, name)
        def either(*arguments, **keywords):
            return (wrong if during(check) else original)(*arguments, **keywords)
        setattr(owner, name, either)
        return original

    entropy = plant(functional, "cross_entropy", "[qwen3-0.6b-lora-float32]", lambda *a, **k: entropy(*a, **k) * 0)
    logits = functional.binary_cross_entropy_with_logits
    plant(functional, "binary_cross_entropy_with_logits", "[yolov8n-float32]", lambda *a, **k: logits(*a, **k) * float("nan"))
    def climb(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.neg_()
        original_step(self)
    original_step = torch.optim.AdamW.step
    plant(torch.optim.AdamW, "step", "[qwen3-0.6b-lora-bfloat16]", climb)
    plant(torch.optim.AdamW, "step", "[qwen3-0.6b-lora-float16]", lambda self, closure=None: None)
    plant(torch.optim.lr_scheduler.LambdaLR, "get_lr", "[llama3-8b-lora-float32]", lambda self: [0.0])
    plant(torch.optim.lr_scheduler.LambdaLR, "step", "[yolov8n-bfloat16]", lambda self: None)
    real = torch.autocast
    class Nothing(real):
        def __enter__(self):
            return self if during("[llama3-8b-lora-bfloat16]") else super().__enter__()
        def __exit__(self, *reason):
            return None if during("[llama3-8b-lora-bfloat16]") else super().__exit__(*reason)
    torch.autocast = Nothing
    scaler = torch.amp.GradScaler
    plant(scaler, "step", "training[llama3-8b-lora-float16]", lambda self, optimiser: None)
    plant(scaler, "update", "training[llama3-8b-lora-float16]", lambda self: self._scale.mul_(0.5))
    plant(scaler, "update", "::test_scaler", lambda self: self._per_optimizer_states.clear())
    product = plant(torch, "mm", "test_autocast[bfloat16]", lambda *given: product(*given).float())
    switch = torch.set_float32_matmul_precision
    plant(torch, "set_float32_matmul_precision", "switch[batched", lambda wanted: switch("high"))
"""

CAUGHT = {
    "precision/training::training[yolov8n-float32]": "the loss is [nan] in 8 of 8 steps",
    "precision/training::training[yolov8n-bfloat16]": "the schedule never moved the learning rate from",
    "precision/training::training[qwen3-0.6b-lora-float32]": "the loss is exactly 0",
    "precision/training::training[qwen3-0.6b-lora-bfloat16]": "the loss does not fall",
    "precision/training::training[qwen3-0.6b-lora-float16]": "steps that were taken left parameters as they were",
    "precision/training::training[llama3-8b-lora-float32]": "the learning rate that the optimiser sees is 0",
    "precision/training::training[llama3-8b-lora-bfloat16]": "autocast did not cast: 0 of 43 matrix layers",
    "precision/training::training[llama3-8b-lora-float16]": "the scaler skipped 8 of 8 steps, its scale went to 4",
    "precision/casting::autocast[bfloat16]": "mm gave torch.float32 inside",
    "precision/casting::scaler": "the scale went [1024.0, 1024.0",
    "precision/tf32::switch[product]": "product with the tf32 switches off: error 0.001",
    "precision/tf32::switch[batched product]": "the precision of float32 products was 'highest' and is 'high' after the check",
    "precision/tf32::switch[convolution]": "convolution with the tf32 switches on: error 0.01",
}


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the checks that a fault is meant for."""
    return run_planted("precision", FAULTS, tmp_path_factory.mktemp("precision"), tuple(CAUGHT))


@pytest.mark.parametrize("check", CAUGHT)
def test_the_fault_is_caught_by_name(check: str, checks: dict[str, Check]) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert checks[check].verdict is Verdict.FAILED
    assert CAUGHT[check] in checks[check].reason

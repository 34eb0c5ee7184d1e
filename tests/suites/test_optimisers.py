"""Checks of the optimisers suite are seen to fail: each fault is planted while its check runs, and breaks what others leave alone."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import os, sys

def during(check):
    return check in os.environ.get("PYTEST_CURRENT_TEST", "")

if "pytest" in sys.orig_argv:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten

    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            keywords = keywords or {}
            if function is aten._fused_sgd_.default and during("scaler[SGD-fused]"):
                keywords = {**keywords, "found_inf": None}
            result = function(*arguments, **keywords)
            if function is aten._fused_adamw_.default and during("steps[AdamW-fused]"):
                arguments[0][-1].mul_(1.001)
            if function is aten.lerp_.Scalar and result.dtype is torch.float32 and during("steps[Adam-single]"):
                result.mul_(1.001)
            return result

    Wrong().__enter__()

    def plant(owner, name, check, wrong):
        original = getattr(owner, name)
        def either(*arguments, **keywords):
            return (wrong if during(check) else original)(*arguments, **keywords)
        setattr(owner, name, either)

    sgd = sys.modules["torch.optim.sgd"]
    plant(sgd, "_multi_tensor_sgd", "steps[SGD-foreach]", sgd._single_tensor_sgd)
    build = torch.optim.Adagrad.__init__
    def refuse(self, *arguments, fused=None, **keywords):
        if fused:
            raise RuntimeError("`fused` is not for this device")
        build(self, *arguments, **keywords)
    plant(torch.optim.Adagrad, "__init__", "steps[Adagrad-fused]", refuse)
    def refuse_a_step(self, *arguments):
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices: ['xpu']")
    plant(torch.optim.Adagrad, "step", "scaler[Adagrad-fused]", refuse_a_step)
    def stumble(self, *arguments):
        raise RuntimeError("the device is lost")
    plant(torch.optim.RMSprop, "step", "steps[RMSprop-single]", stumble)
    scaler = torch.amp.GradScaler
    plant(scaler, "_unscale_grads_", "scaler[Adam-foreach]",
          lambda self, optimiser, inverse, found, allow: {found.device: found})
    plant(scaler, "update", "scaler[SGD-foreach]", lambda self: self._per_optimizer_states.clear())
"""

CAUGHT = {
    "optimisers/variants::steps[SGD-foreach]": "foreach was asked for, and the kernels that ran are those of single",
    "optimisers/variants::steps[Adam-single]": "exceeds the bound",
    "optimisers/variants::steps[AdamW-fused]": "AdamW, fused, after 5 steps, 'parameter 5': error 0.0",
    "optimisers/variants::steps[RMSprop-single]": "RuntimeError: the device is lost",
    "optimisers/scaled::scaler[SGD-foreach]": "an infinite gradient left the scale at 1024.0",
    "optimisers/scaled::scaler[SGD-fused]": "a step with an infinite gradient changed parameter 1",
    "optimisers/scaled::scaler[Adam-foreach]": "under the scaler a step gave another",
}
REFUSED = {
    "optimisers/variants::steps[Adagrad-fused]": "refuses it: `fused` is not for this device",
    "optimisers/scaled::scaler[Adagrad-fused]": "refuses it: `fused=True` requires all the params to be",
}


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the checks that a fault is meant for."""
    only = (*CAUGHT, *REFUSED)
    return run_planted("optimisers", FAULTS, tmp_path_factory.mktemp("optimisers"), only)


@pytest.mark.parametrize("check", CAUGHT)
def test_the_fault_is_caught_by_name(check: str, checks: dict[str, Check]) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert checks[check].verdict is Verdict.FAILED
    assert CAUGHT[check] in checks[check].reason


@pytest.mark.parametrize("check", REFUSED)
def test_a_variant_that_torch_refuses_is_a_missing_capability(check: str, checks: dict[str, Check]) -> None:
    """When it is made or at its first step; the reason is torch's own, with the version and the device."""
    assert checks[check].verdict is Verdict.SKIPPED
    assert "Adagrad(fused=True), measured on cpu: torch 2" in checks[check].reason
    assert REFUSED[check] in checks[check].reason

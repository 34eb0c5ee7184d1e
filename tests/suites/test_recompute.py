"""Checks of the recompute suite are seen to fail: each fault is planted while its check runs, and breaks what others leave alone."""

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
    import torch.nn.functional as functional
    import torch.utils.checkpoint as checkpointing

    def again():
        return torch._C._current_graph_task_id() != -1  # inside backward, where activations are computed again

    silu, linear, recompute, train = functional.silu, functional.linear, checkpointing.checkpoint, torch.nn.Module.train

    def wrong_silu(given, *rest, **also):
        result = silu(given, *rest, **also)
        return result * 1.001 if again() and during("gradients[llama3-8b-lora-reentrant-float32]") else result

    def wrong_linear(*given):
        result = linear(*given)
        return result.float() if again() and during("metadata[") and during("bfloat16]") else result

    def wrong_checkpoint(function, *given, **also):
        if during("metadata[llama3-8b-lora-reentrant-float32]") or during("dropout[non-reentrant]"):
            return function(*given)
        if during("dropout[reentrant]"):
            also["preserve_rng_state"] = False
        return recompute(function, *given, **also)

    def wrong_train(self, mode=True):
        if during("off["):
            model = sys.modules["transformers.modeling_utils"].PreTrainedModel
            for verb in ("activation", "gradient"):
                setattr(model, verb + "_checkpointing_disable", lambda self: None)
        return train(self, mode)

    functional.silu, functional.linear = wrong_silu, wrong_linear
    checkpointing.checkpoint, torch.nn.Module.train = wrong_checkpoint, wrong_train
"""

CAUGHT = {
    "recompute/models::gradients[llama3-8b-lora-reentrant-float32]": "the gradient with recomputation: error",
    "recompute/models::metadata[llama3-8b-lora-reentrant-float32]": "checkpointing was on and nothing was computed again",
    "recompute/models::metadata[llama3-8b-lora-reentrant-bfloat16]": "torch.bfloat16, device(type='cpu'))] and then [",
    "recompute/models::metadata[llama3-8b-lora-non-reentrant-bfloat16]": "CheckpointError",
    "recompute/models::off[llama3-8b-lora]": "checkpointing was off and",
    "recompute/random::dropout[reentrant]": "the mask drawn again differs from the first in",
    "recompute/random::dropout[non-reentrant]": "dropout ran 1 times, 2 were expected",
}


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the checks that a fault is meant for."""
    return run_planted("recompute", FAULTS, tmp_path_factory.mktemp("recompute"), tuple(CAUGHT))


@pytest.mark.parametrize("check", CAUGHT)
def test_the_fault_is_caught_by_name(check: str, checks: dict[str, Check]) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert checks[check].verdict is Verdict.FAILED
    assert CAUGHT[check] in checks[check].reason

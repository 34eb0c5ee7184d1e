"""Checks of the models suite are seen to fail: each fault is planted while its check runs, and breaks what others leave alone."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import os, random, sys

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
            single = (result[0] if isinstance(result, tuple) else result)
            if not torch.is_tensor(single) or single.dtype is not torch.float32:
                return result
            if function is aten.convolution_backward.default and during("training[yolov8n]"):
                single.mul_(1.001)
            if function is aten.sigmoid.default and during("evaluation[yolov8x]"):
                single.mul_(1.001)
            if function is aten.mm.default and (during("evaluation[llama") or during("twice[llama")):
                single.mul_(1 + 1e-6 * random.random())  # not torch.rand, which checks seed
            if function is aten.convolution.default and during("channels_last[yolov8n]"):
                if arguments[0].is_contiguous(memory_format=torch.channels_last):
                    single.mul_(1.001)
            return result

    Wrong().__enter__()

    def plant(owner, name, check, wrong):
        original = getattr(owner, name)
        def either(*arguments, **keywords):
            return (wrong if during(check) else original)(*arguments, **keywords)
        setattr(owner, name, either)
        return original

    entropy = plant(functional, "cross_entropy", "training[llama", lambda *a, **k: entropy(*a, **k) * 0)
    plant(torch.optim.AdamW, "step", "steps[llama", lambda self, closure=None: None)
    def normalise(given, mean, variance, *rest, **also):
        result = original_norm(given, mean, variance, *rest, **also)
        if given.dtype is torch.float32:
            mean.data.mul_(1.01)
        return result
    original_norm = plant(functional, "batch_norm", "steps[yolov8n]", normalise)
    def forward(self, given):
        if not self.training:
            self.num_batches_tracked += 1
        return original_forward(self, given)
    original_forward = plant(torch.nn.BatchNorm2d, "forward", "evaluation[yolov8n]", forward)
    move = plant(torch.nn.Module, "to", "channels_last[yolov8x]", lambda self, *a, **k: move(self, *a) if a else self)
    plant(torch.Tensor, "contiguous", "channels_last[yolov8x]", lambda self, **keywords: self)

    wrong_compiler = lambda function, **keywords: lambda *given: function(*given) * 1.01
    plant(torch, "compile", "compiler", wrong_compiler)
    plant(torch, "compile", "block[", lambda function, **keywords: function)

    plant(torch.optim.SGD, "step", "device[own-name]", lambda self, closure=None: None)
    def threads():
        if during("device[type-alone]"):  # the device is said to be another one than it is
            import stackproof.device
            stackproof.device.Host.torch = property(lambda self: torch.device("cpu", 0))
        if during("device[absent-card]"):  # what ultralytics once did
            trainer = sys.modules["ultralytics.engine.trainer"]
            trainer.parse_device, trainer.select_device = (lambda asked: "cpu"), (lambda *a, **k: torch.device("cpu"))
        return original_threads()
    original_threads = torch.get_num_threads
    torch.get_num_threads = threads
"""

CAUGHT = {
    "models/reference::training[yolov8n]": "exceeds the bound",
    "models/reference::training[llama3-8b-lora]": "the loss is 0.0",
    "models/reference::steps[yolov8n]": "running_mean': error",
    "models/reference::steps[llama3-8b-lora]": "3 steps left 28 of 28 parameters as they were",
    "models/reference::evaluation[yolov8n]": "in evaluation mode changed 57 buffers",
    "models/reference::evaluation[yolov8x]": "in evaluation mode, 'probabilities': error 0.001",
    "models/reference::evaluation[llama3-8b-lora]": "two predictions in evaluation mode differ",
    "models/reference::channels_last[yolov8n]": "exceeds the bound",
    "models/reference::channels_last[yolov8x]": "no convolution was given its pictures in channels-last order",
    "models/determinism::twice[llama3-8b-lora]": "by operator mm, and torch does not say that mm is not deterministic",
    "models/compile::compiler": "a compiled sum of squares gives 20.2",
    "models/compile::block[classifier]": "torch.compile was on and nothing was compiled",
    "models/trainer::device[own-name]": "an epoch left 183 of 183 parameters as they were",
    "models/trainer::device[type-alone]": "trained on cpu, not on cpu:0",
    "models/trainer::device[absent-card]": "was not refused and trained on cpu",
}


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the checks that a fault is meant for."""
    return run_planted("models", FAULTS, tmp_path_factory.mktemp("models"), tuple(CAUGHT))


@pytest.mark.parametrize("check", CAUGHT)
def test_the_fault_is_caught_by_name(check: str, checks: dict[str, Check]) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert checks[check].verdict is Verdict.FAILED
    assert CAUGHT[check] in checks[check].reason

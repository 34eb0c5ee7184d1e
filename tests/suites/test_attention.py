"""Every check of the attention suite is seen to fail: a kernel errs, the slow one runs, another runs than was asked for."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import sys
if "pytest" in sys.orig_argv:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten

    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            if function is aten._scaled_dot_product_flash_attention_for_cpu.default and result[0].dtype is torch.float32:
                result[0].mul_(1.001)
            if function is aten._scaled_dot_product_flash_attention_for_cpu_backward.default and result[0].dtype is torch.float64:
                result[2].mul_(1.001)
            if function is aten._safe_softmax.default and result.dtype is torch.float32:
                result = result.roll(1, -1)
            return result

    Wrong().__enter__()
    torch.backends.cuda.enable_flash_sdp(False)  # the CPU's choice asks it too; who asks for flash still gets it

    import functools
    import torch.nn.attention as attention

    original = attention.sdpa_kernel
    everything = [attention.SDPBackend.MATH, attention.SDPBackend.FLASH_ATTENTION]

    @functools.wraps(original)
    def anything(backends):
        return original(everything if backends == [attention.SDPBackend.CUDNN_ATTENTION] else backends)

    attention.sdpa_kernel = anything
"""


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the suite with all the faults planted; each breaks what others leave alone."""
    return run_planted("attention", FAULTS, tmp_path_factory.mktemp("attention"))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (
            "attention/default::choice[float32]",
            "attention silently took the slow path in torch.float32: plain: math ran although flash would have",
        ),
        ("attention/default::choice[bfloat16]", "silently took the slow path"),
        ("attention/kernels::kernel[flash-float32]", "'plain, output': error 0.001 against float64 exceeds"),
        ("attention/kernels::kernel[flash-float64]", "gradient of value"),
        ("attention/kernels::kernel[math-float32]", "exceeds the bound"),
        ("attention/kernels::kernel[cudnn-float32]", "cudnn was asked for and flash ran"),
    ],
)
def test_the_fault_is_caught_by_name(checks: dict[str, Check], check: str, words: str) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert (checks[check].verdict, True) == (Verdict.FAILED, words in checks[check].reason), checks[check].reason

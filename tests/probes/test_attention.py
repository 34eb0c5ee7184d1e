"""Attention: the kernel is recognised by its operators, and one that is not offered says why."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from stackproof.probes import attention

CPU = torch.device("cpu")
BY_NAME = {case.name: case for case in attention.cases()}


def witnessed(*operators: str) -> attention.Witness:
    witness = attention.Witness()
    witness.seen = list(operators)
    return witness


@pytest.mark.parametrize(
    ("operators", "kernel"),
    [
        (("_fused_sdp_choice", "_scaled_dot_product_flash_attention_for_cpu"), "flash"),
        (("_scaled_dot_product_flash_attention",), "flash"),
        (("_scaled_dot_product_efficient_attention",), "memory-efficient"),
        (("_scaled_dot_product_cudnn_attention",), "cudnn"),
        (("_scaled_dot_product_fused_attention_overrideable",), "overrideable"),
        (("bmm", "_safe_softmax", "bmm"), "math"),
        (("mul", "bmm", "_softmax"), "math"),
        (("fsdp", "clone"), "unknown (fsdp, clone)"),
        ((), "unknown (no operator)"),
    ],
)
def test_a_kernel_is_known_by_its_operators(operators: tuple[str, ...], kernel: str) -> None:
    assert witnessed(*operators).kernel == kernel


def attended(case: attention.AttentionShape, kernel: attention.Kernel | None = None) -> torch.Tensor:
    return attention.run(case, case.inputs(torch.float32, CPU), kernel)[1]


def test_a_case_means_what_it_says() -> None:
    causal, padded, shaped = BY_NAME["causal"], BY_NAME["padding mask"].mask(), BY_NAME["odd lengths"]
    assert not torch.allclose(attended(shaped), attended(replace(shaped, scale=None)), rtol=0.1)
    torch.testing.assert_close(attended(causal)[:, :, 0], causal.inputs(torch.float32, CPU)[2][:, :, 0])
    assert padded is not None and not padded[-1, ..., -1].any() and padded[0].all()


def test_what_is_not_offered_says_why() -> None:
    with pytest.raises(attention.NotOffered, match="No viable backend"):
        attended(BY_NAME["plain"], attention.kernels()["cudnn"])
    unheard = attention.Kernel("new", "NEW", (), fused=True)
    with pytest.raises(attention.NotOffered, match="has no SDPBackend.NEW"):
        attended(BY_NAME["plain"], unheard)


def test_an_error_of_the_default_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("illegal instruction")

    monkeypatch.setattr(attention, "scaled_dot_product_attention", broken)
    with pytest.raises(RuntimeError, match="illegal instruction"):
        attended(BY_NAME["plain"])


def test_an_old_torch_is_not_asked_to_share_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ("enable_gqa" in (scaled_dot_product_attention.__doc__ or "")) == ("grouped heads" in BY_NAME)
    monkeypatch.setattr(attention, "scaled_dot_product_attention", lambda: None)
    assert [case.name for case in attention.cases() if case.heads[0] != case.heads[1]] == ["grouped heads, repeated"]


def test_the_reason_is_about_the_kernel_that_was_asked_for() -> None:
    said = [
        "Memory efficient kernel not used because: (Triggered internally at /pytorch/aten/sdp_utils.cpp:986.)",
        "Memory Efficient attention has been runtime disabled. (Triggered internally at /pytorch/aten/sdp_utils_cpp.h:552.)",
        "Flash attention kernel not used because: (Triggered internally at /pytorch/aten/sdp_utils.cpp:988.)",
        "Expected query, key and value to all be of dtype: {Half, BFloat16}. Got Query dtype: float instead. (Triggered internally at x)",
    ]
    expected = "Expected query, key and value to all be of dtype: {Half, BFloat16}. Got Query dtype: float instead."
    assert attention._reasons(said) == expected
    assert attention._reasons(said[:3]) == ""

"""LoRA fine-tuning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from stackproof.device.numerics import relative_error
from stackproof.workloads import catalogue
from stackproof.workloads.base import Recipe
from stackproof.workloads.lora import Lora, batches

from .comparing import CPU, FloatsSeen, beyond_cap, show, whole_gradient

NAMES = ("qwen3-0.6b-lora", "llama3-8b-lora")


@pytest.fixture(params=NAMES)
def workload(request: pytest.FixtureRequest) -> Lora:
    found = catalogue.get(request.param)
    assert isinstance(found, Lora)
    if reason := found.missing():
        pytest.skip(reason)
    return found


def test_parameter_counts_are_those_that_the_users_trainer_printed(workload: Lora) -> None:
    parameters = list(workload.skeleton("full").parameters())
    counts = (
        sum(map(torch.numel, parameters)), sum(one.numel() for one in parameters if one.requires_grad)
    )  # fmt: skip
    assert (
        counts
        == {
            "qwen3-0.6b-lora": (601_096_192, 5_046_272),
            "llama3-8b-lora": (8_051_232_768, 20_971_520),
        }[workload.name]
    )


def test_a_full_step_is_the_users(workload: Lora) -> None:
    parts = [
        batches(workload.setting("full"), Recipe(CPU, "full", 0, torch.bfloat16, None, (rank, 2), scale=2))
        for rank in range(2)
    ]

    assert workload.precision("full") == (torch.bfloat16, torch.bfloat16)
    assert [len(part) for part in parts] == [8, 8]
    assert [sum(batch["tokens"].numel() for batch in part) for part in parts] == [1240, 1240]


def test_float32_agrees_with_float64(workload: Lora) -> None:
    actual = workload.build(CPU, "tiny", 0).observe()

    assert len(actual.gradients) == 2 * 7 * 2  # layers, adapted matrices, A and B
    assert beyond_cap(actual, workload.reference("tiny", 0), torch.float32) == {}


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 0.05), (torch.float16, 0.01)], ids=str)
def test_half_precision_follows_float64(workload: Lora, dtype: torch.dtype, bound: float) -> None:
    actual, exact = workload.build(CPU, "tiny", 0, autocast=dtype).observe(), workload.reference("tiny", 0)
    error = relative_error(whole_gradient(actual), whole_gradient(exact))
    show(f"{workload.name} {dtype}: {error:.1e}")

    assert error < bound
    assert relative_error(actual.loss, exact.loss) < torch.finfo(dtype).eps


def test_the_reference_is_float64_throughout(workload: Lora) -> None:
    job = workload.build(CPU, "tiny", 0, torch.float64)
    with FloatsSeen() as seen:
        job.observe()

    assert seen.narrow == set()


def test_layers_are_recomputed_in_backward(workload: Lora) -> None:
    job = workload.build(CPU, "tiny", 0)
    calls: list[str] = []
    for name, module in job.model.named_modules():
        if name.endswith("self_attn"):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    job.observe()

    assert len(calls) == 2 * 2 * len(job.batches)  # layers, forward and recomputation


def test_trainable_parameters_are_float32_over_a_bfloat16_base(workload: Lora) -> None:
    job = workload.build(CPU, "tiny", 0, torch.bfloat16, torch.bfloat16)
    kinds = {(parameter.requires_grad, parameter.dtype) for parameter in job.model.parameters()}

    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    assert {gradient.dtype for gradient in job.observe().gradients.values()} == {torch.float32}


def test_the_shards_mean_gradient_is_the_global_batchs(workload: Lora) -> None:
    shards = [whole_gradient(workload.reference("tiny", 0, shard=(rank, 2))) for rank in range(2)]
    whole = whole_gradient(workload.reference("tiny", 0))

    torch.testing.assert_close(sum(shards) / 2, whole, rtol=1e-9, atol=1e-13)


def test_units_count_tokens_as_trainers_do(workload: Lora) -> None:
    job = workload.build(CPU, "tiny", 0)
    embedding = 256 * 64

    parameters = sum(map(torch.numel, job.model.parameters()))
    assert job.units.samples == 4
    assert job.units.tokens == sum(batch["tokens"].numel() for batch in job.batches)
    assert job.units.flops == 6 * job.units.tokens * (parameters - embedding)


def test_ranks_communicate_with_the_last_micro_batch_only(workload: Lora) -> None:
    held: list[bool] = []

    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.holding = inner, False

        @contextmanager
        def no_sync(self) -> Iterator[None]:
            self.holding = True
            yield
            self.holding = False

        def forward(self, **inputs: torch.Tensor) -> object:
            held.append(self.holding)
            return self.inner(**inputs)

    job = workload.build(CPU, "tiny", 0)
    job.wrap(Wrapper)
    job.step()

    assert held == [True, True, True, False]

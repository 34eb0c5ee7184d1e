"""What every workload promises, whatever it computes."""

from __future__ import annotations

import importlib.metadata

import pytest
import torch
from torch import nn

from stackproof import DATA
from stackproof.base.errors import Refusal
from stackproof.base.toml import read_toml
from stackproof.workloads import catalogue
from stackproof.workloads.base import Recipe

from .comparing import CPU

BUILT = ("classifier", "llama3-8b-lora", "yolov8n")


def recipe(shard: tuple[int, int], scale: int = 1) -> Recipe:
    return Recipe(CPU, "tiny", 0, torch.float32, None, shard, scale)


@pytest.mark.parametrize("name", BUILT)
def test_weights_and_data_are_the_same_in_every_dtype(name: str) -> None:
    narrow, wide = (catalogue.get(name).build(CPU, "tiny", 3, dtype) for dtype in (torch.float32, torch.float64))

    for left, right in zip(narrow.model.parameters(), wide.model.parameters(), strict=True):
        assert torch.equal(left.double(), right)
    for one, other in zip(narrow.batches, wide.batches, strict=True):
        assert all(torch.equal(one[key].double(), other[key].double()) for key in one)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("classifier", 1.388297828307048),
        ("llama3-8b-lora", 5.957903304889472),
        ("yolov8n", 235.5083968147052),
    ],
)
def test_the_reference_loss_is_the_same_in_every_environment(name: str, loss: float) -> None:
    assert float(catalogue.get(name).reference("tiny", 0).loss) == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("name", BUILT)
def test_a_seed_determines_the_outcome_and_another_seed_changes_it(name: str) -> None:
    first, again, other = (catalogue.get(name).build(CPU, "tiny", seed).observe() for seed in (1, 1, 2))

    assert torch.equal(first.loss, again.loss)
    assert all(torch.equal(first.gradients[key], again.gradients[key]) for key in first.gradients)
    assert not torch.equal(first.loss, other.loss)


@pytest.mark.parametrize("name", BUILT)
def test_building_and_observing_leave_global_state_alone(name: str) -> None:
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    catalogue.get(name).reference("tiny", 0)

    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() is dtype


@pytest.mark.parametrize("name", BUILT)
def test_observing_changes_no_parameter_and_leaves_no_gradient(name: str) -> None:
    job = catalogue.get(name).build(CPU, "tiny", 0)
    before = [parameter.detach().clone() for parameter in job.model.parameters()]
    first, second = job.observe(), job.observe()

    assert torch.equal(first.output, second.output)
    assert all(map(torch.equal, before, job.model.parameters()))
    assert all(parameter.grad is None for parameter in job.model.parameters())


@pytest.mark.parametrize("name", BUILT)
def test_every_trainable_parameter_gets_a_gradient_that_is_not_zero(name: str) -> None:
    job = catalogue.get(name).build(CPU, "tiny", 0)
    gradients = job.observe().gradients

    trainable = {key for key, parameter in job.model.named_parameters() if parameter.requires_grad}
    assert set(gradients) == trainable
    assert all(gradient.abs().max() > 0 for gradient in gradients.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_the_loss_falls_within_20_steps(name: str) -> None:
    job = catalogue.get(name).build(CPU, "tiny", 0)
    losses = [float(job.step()) for _ in range(20)]

    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("name", BUILT)
def test_step_returns_the_loss_before_the_update(name: str) -> None:
    job = catalogue.get(name).build(CPU, "tiny", 0)
    observed, loss = job.observe().loss, job.step()

    assert torch.equal(loss, observed)
    assert not loss.requires_grad


def test_a_step_reads_nothing_back_from_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    job = catalogue.get("classifier").build(CPU, "tiny", 0)

    def read(tensor: torch.Tensor) -> None:
        raise AssertionError("the step waits for the device")

    for reader in ("item", "cpu", "tolist", "__bool__", "__float__"):
        monkeypatch.setattr(torch.Tensor, reader, read, raising=False)

    assert job.step().shape == ()


def test_float16_gradients_come_back_unscaled() -> None:
    workload = catalogue.get("classifier")
    job = workload.build(CPU, "tiny", 0, autocast=torch.float16)
    actual, exact = job.observe().gradients, workload.reference("tiny", 0).gradients

    assert job.scaler.get_scale() > 1
    assert all(torch.allclose(actual[key].double(), exact[key], rtol=0.1, atol=1e-3) for key in exact)


def test_forward_goes_through_the_wrapper() -> None:
    class Doubled(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = 2 * self.inner(images)
            return result

    job = catalogue.get("classifier").build(CPU, "tiny", 0)
    plain = job.observe()
    job.wrap(Doubled)
    wrapped = job.observe()

    assert torch.allclose(wrapped.output, 2 * plain.output)
    assert wrapped.gradients.keys() == plain.gradients.keys()


def test_a_shard_is_a_consecutive_part_of_the_global_batch() -> None:
    assert recipe((0, 1)).part(8) == range(8)
    assert [recipe((rank, 2)).part(8) for rank in range(2)] == [range(4), range(4, 8)]
    assert [recipe((rank, 2), scale=2).part(8) for rank in range(2)] == [range(8), range(8, 16)]


@pytest.mark.parametrize("shard", [(0, 3), (2, 2), (-1, 2)])
def test_a_split_that_is_not_equal_is_refused(shard: tuple[int, int]) -> None:
    with pytest.raises(Refusal, match=f"shard {shard[0]} of {shard[1]}: 8 samples"):
        recipe(shard).part(8)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(Refusal, match="classifier: no preset 'huge'; there are: tiny, full"):
        catalogue.get("classifier").build(CPU, "huge", 0)  # type: ignore[arg-type]


def test_every_workload_says_what_it_needs() -> None:
    rows = read_toml(DATA / "workloads.toml")["workload"]

    assert {row["name"] for row in rows} == set(catalogue.names())


@pytest.mark.parametrize(("version", "have"), [("4.45.0", "4.45.0 is installed"), (None, "it is not installed")])
def test_a_missing_package_is_one_sentence(version: str | None, have: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", installed)
    workload = catalogue.get("qwen3-0.6b-lora")
    sentence = f"qwen3-0.6b-lora needs transformers>=4.51, {have}: Qwen3 came with transformers 4.51"

    assert workload.missing() == sentence
    with pytest.raises(Refusal, match=have):
        workload.build(CPU, "tiny", 0)


def test_pure_torch_needs_nothing() -> None:
    assert not catalogue.get("classifier").missing()

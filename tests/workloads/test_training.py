"""A training step as work: proved, counted, and void if the loss is no number at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from stackproof.device.devices import HOST
from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.workloads.base import Job, Workload
from stackproof.workloads.catalogue import get
from stackproof.workloads.gradients import against_float64, against_itself, apart
from stackproof.workloads.lora import Lora
from stackproof.workloads.training import TrainingSteps, counted

from .working import setting


def test_a_step_is_proved_counted_and_trains() -> None:
    work = TrainingSteps(setting(workload="llama3-8b-lora"))
    assert "28 gradients against float64" in work.prove()
    assert set(work.worth) == {"sample", "token", "TFLOP"}
    assert work.worth["sample"] == 4.0
    first = float(work.run())
    for _ in range(10):
        last = float(work.run())
    assert last < first
    assert work.conclude()["update compared with"] == "its closed form"
    assert (work.dtype, work.arithmetic) == ("float32", "float32")


def test_a_loss_that_is_no_number_voids_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    work = TrainingSteps(setting(workload="classifier"))
    work.prove()
    monkeypatch.setattr(work.job, "step", lambda: torch.tensor(math.nan))
    with pytest.raises(CheckFailed, match="the loss of a step is nan"):
        work.conclude()


def test_a_full_job_is_proved_twice_over() -> None:
    work = TrainingSteps(setting("full", workload="classifier"))
    said = work.prove()
    assert said.startswith("tiny: 6 gradients against float64")
    assert "; full: loss " in said


def test_a_full_step_may_take_a_few_of_its_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = get("llama3-8b-lora")
    assert isinstance(workload, Lora)
    tiny = workload.setting("tiny")
    monkeypatch.setattr(Lora, "setting", lambda _, preset: replace(tiny, accumulation=8) if preset == "full" else tiny)
    monkeypatch.setattr(Lora, "skeleton", lambda self, _, own=Lora.skeleton: own(self, "tiny"))
    work = TrainingSteps(replace(setting("full", workload="llama3-8b-lora"), micro_batches=2))
    assert work.worth["sample"] == 2.0
    assert "; full: loss " in work.prove()


def test_convolutions_of_float32_are_held_against_tf32_where_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert TrainingSteps(setting(workload="classifier")).arithmetic == "tf32"
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert TrainingSteps(setting(workload="classifier")).arithmetic == "float32"


def _larger(job: Job, monkeypatch: pytest.MonkeyPatch, factor: float, *, when: Callable[[], bool]) -> None:
    """Let backward give gradients that are larger by `factor` whenever `when` says so."""
    right = job.differentiate
    monkeypatch.setattr(job, "differentiate", lambda loss: right(loss * factor if when() else loss))


@pytest.mark.parametrize("factor", [1.2, 1.7])
def test_gradients_of_the_precision_that_is_timed_are_held_too(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    work = TrainingSteps(setting(workload="classifier"))
    _larger(work.job, monkeypatch, factor, when=lambda: torch.backends.cudnn.allow_tf32)
    if factor > 1.5:
        with pytest.raises(CheckFailed, match=r"the gradient in the precision that is timed is, .* off by 0\.7"):
            work.prove()
        return
    work.prove()
    work.conclude()
    _larger(work.job, monkeypatch, factor, when=lambda: torch.backends.cudnn.allow_tf32)
    with pytest.raises(
        CheckFailed, match=r"the gradient in a timed step is, of what was proved, off by 0\.2 of its length"
    ):
        work.conclude()


def test_a_step_takes_the_gradients_that_were_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    work = TrainingSteps(setting(workload="classifier"))
    work.prove()
    work.run()
    stepping: list[bool] = []
    right = work.job.step

    def step() -> torch.Tensor:
        stepping.append(True)
        return right()

    monkeypatch.setattr(work.job, "step", step)
    _larger(work.job, monkeypatch, 1.2, when=lambda: bool(stepping))
    work.run()
    with pytest.raises(CheckFailed, match=r"the gradient in a timed step is, of what was proved, off by 0\.2"):
        work.conclude()


def test_what_is_not_installed_is_skipped_with_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workload, "missing", lambda _: "it needs a package")
    with pytest.raises(CapabilityMissing, match=r"data/workloads.toml: it needs a package"):
        TrainingSteps(setting(workload="classifier"))


def test_gradients_that_tf32_does_not_move_are_held_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    work = TrainingSteps(setting(workload="classifier"))
    work.prove()
    _larger(work.job, monkeypatch, 1.02, when=lambda: True)
    with pytest.raises(CheckFailed, match="the gradient in a timed step is, of what was proved, off by 0.02"):
        work.conclude()


def test_two_linear_layers_cost_what_arithmetic_says() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))

    assert counted(model, torch.empty(5, 8)) == 2 * 5 * (2 * 8 * 16 + 3 * 16 * 4)


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(
        self, nodes: torch.Tensor, edges: tuple[torch.Tensor, torch.Tensor], scale: float = 1.0
    ) -> torch.Tensor:
        told: torch.Tensor = scale * self.layer(nodes)
        return told.index_add(0, edges[1], told[edges[0]])


def test_a_model_takes_any_inputs() -> None:
    edges = torch.tensor([0, 1]), torch.tensor([1, 2])
    assert counted(Graph(), torch.empty(3, 8), edges) == counted(
        Graph(), nodes=torch.empty(3, 8), edges=edges, scale=2.0
    )
    assert counted(Graph(), torch.empty(3, 8), edges) == 2 * 2 * 3 * 8 * 4


def test_counting_leaves_the_model_alone() -> None:
    norm = nn.BatchNorm2d(2)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), norm)
    counted(model, torch.empty(2, 1, 8, 8))

    assert all(parameter.grad is None for parameter in model.parameters())
    assert norm.num_batches_tracked is not None and int(norm.num_batches_tracked) == 0


NAMES = ("classifier", "yolov8n", "llama3-8b-lora")


def tiny(name: str, autocast: torch.dtype | None = None) -> Job:
    return get(name).build(torch.device("cpu"), "tiny", 7, torch.float32, autocast)


def scale_backward(job: Job, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    own = job.differentiate
    monkeypatch.setattr(job, "differentiate", lambda loss: own(loss * factor))


@pytest.mark.parametrize("name", NAMES)
def test_forward_and_backward_that_belong_together_pass(name: str) -> None:
    job = tiny(name)
    before = {key: parameter.detach().clone() for key, parameter in job.model.named_parameters()}
    assert "forward changes by" in against_itself(get(name), job, HOST)
    assert all(torch.equal(before[key], parameter) for key, parameter in job.model.named_parameters())


def test_a_backward_in_the_wrong_direction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    job = tiny("classifier")
    own = job.differentiate

    def wrong(loss: torch.Tensor) -> None:
        own(loss)
        weight = max(job.model.parameters(), key=lambda one: 0.0 if one.grad is None else float(one.grad.norm()))
        assert weight.grad is not None
        noise = torch.randn(weight.grad.shape, generator=torch.Generator().manual_seed(1))
        weight.grad.copy_(noise * weight.grad.norm() / noise.norm())

    monkeypatch.setattr(job, "differentiate", wrong)
    with pytest.raises(CheckFailed, match="do not belong together"):
        against_itself(get("classifier"), job, HOST)


def test_no_gradient_at_all_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    job = tiny("classifier")
    scale_backward(job, 0.0, monkeypatch)
    with pytest.raises(CheckFailed, match="the squared norm of the gradient is 0"):
        against_itself(get("classifier"), job, HOST)


def test_mixed_precision_is_judged_by_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    job = tiny("llama3-8b-lora", torch.bfloat16)
    against_float64(get("llama3-8b-lora"), job)
    scale_backward(job, 1.1, monkeypatch)
    with pytest.raises(CheckFailed):
        against_float64(get("llama3-8b-lora"), job)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_how_far_gradients_are_apart(dtype: torch.dtype) -> None:
    known = {"a": torch.full((4096,), 6e3, dtype=dtype), "b": torch.zeros(3, dtype=dtype)}
    assert apart(known, known) == 0
    assert apart({**known, "a": known["a"] * 1.25}, known) == pytest.approx(0.25, rel=1e-3)
    assert math.isnan(apart({**known, "b": torch.full((3,), math.nan, dtype=dtype)}, known))
    assert apart({"b": known["b"]}, {"b": known["b"]}) == 0

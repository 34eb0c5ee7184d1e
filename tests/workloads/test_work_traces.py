"""Every run of a block leaves its trace: whole blocks pass, and one that lacks a run, or a part of each, does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stackproof.record.checks import CheckFailed, CheckInconclusive
from stackproof.workloads import sdpa
from stackproof.workloads.catalogue import kinds
from stackproof.workloads.gemm import Gemm, orthogonal
from stackproof.workloads.moving import Copy
from stackproof.workloads.sdpa import Attention
from stackproof.workloads.training import OptimiserStep, TrainingSteps
from stackproof.workloads.work import Work

from .working import block, setting

SHAPE: dict[str, Any] = {"batch": 1, "heads": 2, "length": 16, "width": 8}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"product-{dtype}": ("gemm", {"size": 64, "dtype": dtype}) for dtype in ("float32", "bfloat16", "float16")},
    "tf32": ("gemm", {"size": 64, "dtype": "float32", "tf32": True}),
    "copy": ("copy", {"mib": 1, "source": "device", "target": "device"}),
    "link": ("copy", {"mib": 1, "source": "host", "target": "device"}),
    "attention": ("attention", {**SHAPE, "dtype": "float32", "backward": False}),
    "attention-backward": ("attention", {**SHAPE, "dtype": "bfloat16", "backward": True}),
    "optimiser": ("optimiser", {"workload": "classifier"}),
    "training": ("training", {"workload": "classifier"}),
}


@pytest.fixture(params=ROWS)
def work(request: pytest.FixtureRequest) -> Any:
    kind, row = ROWS[request.param]
    made = kinds()[kind](setting(**row))
    made.prove()
    yield made
    made.close()


@pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN:UserWarning")
def test_a_run_that_is_left_out_shows_wherever_it_was(work: Work) -> None:
    runs = min(work.most_runs, 16)
    for _ in range(2):
        block(work, runs)
    for lacking in ({0}, {runs // 2}, {runs - 1}, set(range(3, runs, 5))):
        with pytest.raises(CheckFailed):
            block(work, runs, lacking)
    block(work, runs)
    work.conclude()


def test_rounding_stays_far_below_one_missing_product() -> None:
    work = Gemm(setting(size=64, dtype="bfloat16"))
    block(work, work.most_runs)
    with pytest.raises(CheckFailed, match="256 products: wrong in .* of 64 stretches"):
        block(work, work.most_runs, {100})
    work.close()


@pytest.mark.parametrize("size", [48, 64])
def test_the_factor_of_products_is_orthogonal_and_looks_random(size: int) -> None:
    factor = orthogonal(size, 3)
    assert torch.allclose(factor @ factor.T, torch.eye(size, dtype=torch.float64), atol=1e-12)
    assert float(factor.abs().max()) < 6 / size**0.5


def test_half_of_the_rows_show(monkeypatch: pytest.MonkeyPatch) -> None:
    product, work = torch.mm, Gemm(setting(size=64, dtype="float32"))

    def half(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        product(left[:32], right, out=out[:32])
        return out

    work.prove()
    monkeypatch.setattr(torch, "mm", half)
    with pytest.raises(CheckFailed, match="8 products"):
        block(work, 8)
    work.close()


def test_a_cut_copy_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Copy(setting(mib=1, source="device", target="device"))
    own = torch.Tensor.copy_

    def cut(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        keep = len(target) - 4096 if non_blocking else None  # a timed copy is queued
        own(target[:keep], source[:keep])
        return target

    monkeypatch.setattr(torch.Tensor, "copy_", cut)
    with pytest.raises(CheckFailed, match="changed some of them"):
        block(work, 7)


@pytest.mark.parametrize("what", ["kept", "half"])
def test_attention_that_is_kept_or_halved_shows(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own, kept = sdpa.scaled_dot_product_attention, list[torch.Tensor]()

    def lazy(*inputs: Any, is_causal: bool) -> torch.Tensor:
        query, key, value = inputs
        found = own(query, key, value, is_causal=is_causal)
        kept.append(found)
        if len(kept) % 5 == 4:
            return kept[-2] if what == "kept" else torch.cat([found[:, :1], kept[-2][:, 1:]], 1)
        return found

    work = Attention(setting(**SHAPE, dtype="float32", backward=False))
    work.prove()
    block(work, 8)
    monkeypatch.setattr(sdpa, "scaled_dot_product_attention", lazy)
    with pytest.raises(CheckFailed, match="attention: the output"):
        block(work, 8)
    work.close()


def test_scores_of_attention_that_are_kept_for_a_query_and_a_key_show(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[int, int], torch.Tensor] = {}

    def lazy(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool) -> torch.Tensor:
        scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(~torch.ones(16, 16).tril().bool(), -torch.inf)
        return kept.setdefault((id(query), id(key)), scores.softmax(-1)) @ value

    work = Attention(setting(**SHAPE, dtype="float32", backward=False))
    work.prove()
    block(work, 8)
    monkeypatch.setattr(sdpa, "scaled_dot_product_attention", lazy)
    with pytest.raises(CheckFailed, match="attention: the output"):
        for _ in range(3):
            block(work, 8)
    work.close()


def _skipped(act: Callable[..., Any], each: int) -> Callable[..., Any]:
    calls = list[int]()

    def lazy(*given: Any) -> Any:
        calls.append(1)
        return None if len(calls) % each == 0 else act(*given)

    return lazy


@pytest.mark.parametrize("what", ["step", "backward"])
@pytest.mark.parametrize("each", [9, 16, 20])
def test_a_part_of_a_step_that_is_left_out_now_and_then_shows(
    what: str, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = TrainingSteps(setting(workload="classifier"))
    work.prove()
    target, name = (work.job.optimiser, "step") if what == "step" else (work.job, "differentiate")
    monkeypatch.setattr(target, name, _skipped(getattr(target, name), each))

    with pytest.raises(CheckFailed):
        for _ in range(3):
            block(work, 16)


def test_a_step_that_changes_its_gradients_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    work = OptimiserStep(setting(workload="classifier"))
    work.prove()
    own = work.optimiser.step

    def wrong() -> None:
        for parameter in work.parameters:
            assert parameter.grad is not None
            parameter.grad.mul_(1.02)
        own()

    monkeypatch.setattr(work.optimiser, "step", wrong)
    with pytest.raises(CheckFailed, match="changed the gradients that it was given|otherwise"):
        block(work, 4)


@pytest.mark.parametrize("apart", [0.0, 0.03, 0.5])
def test_a_block_is_held_as_finely_as_replays_agree(apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    work = TrainingSteps(setting(workload="classifier"))
    work.prove()
    own, ends = work._ends, list[int]()

    def jumping() -> Any:
        ends.append(1)
        factor = 1 + apart * (len(ends) % 2)  # as targets do that jump with what atomics round
        return {group: moved * factor for group, moved in own().items()}

    monkeypatch.setattr(work, "_ends", jumping)
    if apart > 0.2:
        with pytest.raises(CheckInconclusive, match="a step left out would not show"):
            block(work, 4)
        return
    for _ in range(8):
        block(work, 4)
    with pytest.raises(CheckFailed, match="from where an untimed replay did"):
        block(work, 4, {2})

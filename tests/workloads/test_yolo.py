"""YOLOv8 training."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from stackproof import ROOT
from stackproof.device.numerics import relative_error
from stackproof.workloads import catalogue
from stackproof.workloads.base import StepResult

from .comparing import CPU, FloatsSeen, beyond_cap, gradient_errors, show, whole_gradient

WORKLOAD = catalogue.get("yolov8n")

SIDE_EFFECTS = """
import os, numpy, torch
from stackproof.workloads import yolo
before = dict(os.environ), torch.save, str(torch.tensor([1 / 3])), str(numpy.float64(1) / numpy.arange(3, 5))
yolo._ultralytics()
after = dict(os.environ), torch.save, str(torch.tensor([1 / 3])), str(numpy.float64(1) / numpy.arange(3, 5))
assert after == before, (after, before)
"""


@pytest.fixture(scope="module")
def exact() -> StepResult:
    return WORKLOAD.reference("tiny", 0)


def test_float32_agrees_with_float64(exact: StepResult) -> None:
    actual = WORKLOAD.build(CPU, "tiny", 0).observe()

    assert len(actual.gradients) == 183
    assert beyond_cap(actual, exact, torch.float32) == {}


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 0.3), (torch.float16, 0.1)], ids=str)
def test_half_precision_follows_float64(dtype: torch.dtype, bound: float, exact: StepResult) -> None:
    actual = WORKLOAD.build(CPU, "tiny", 0, autocast=dtype).observe()
    error = relative_error(whole_gradient(actual), whole_gradient(exact))
    show(f"{dtype}: {error:.1e}")

    assert error < bound
    assert relative_error(actual.output, exact.output) < 2 * torch.finfo(dtype).eps
    assert relative_error(actual.loss, exact.loss) < 2 * torch.finfo(dtype).eps


def test_the_reference_is_float64_throughout() -> None:
    job = WORKLOAD.build(CPU, "tiny", 0, torch.float64)
    with FloatsSeen() as seen:
        job.observe()

    assert seen.narrow == set()


@pytest.mark.parametrize("seed", range(3))
def test_the_comparison_is_well_conditioned(seed: int) -> None:
    job = WORKLOAD.build(CPU, "tiny", seed, torch.float64)
    before = job.observe()
    noise = torch.randn(job.batches[0]["img"].shape, generator=torch.Generator().manual_seed(0))
    job.batches[0]["img"].mul_(1 + 1e-6 * noise.double())

    assert max(gradient_errors(job.observe(), before).values()) < 3e-5


@pytest.mark.parametrize("seed", range(10))
def test_assignment_has_no_choice(seed: int) -> None:
    batch = WORKLOAD.build(CPU, "tiny", seed).batches[0]
    size = batch["img"].shape[-1]
    for x, y, width, height in (batch["bboxes"] * size).tolist():
        inside = 0
        for stride in (8, 16, 32):
            points = np.arange(stride // 2, size, stride)
            across, down = np.abs(points - x), np.abs(points - y)
            assert not (across == width / 2).any() and not (down == height / 2).any()
            inside += int((across < width / 2).sum() * (down < height / 2).sum())
        assert 5 <= inside <= 6


def test_shards_split_pictures_and_their_boxes() -> None:
    whole = WORKLOAD.build(CPU, "tiny", 0).batches[0]
    parts = [WORKLOAD.build(CPU, "tiny", 0, shard=(rank, 2)).batches[0] for rank in range(2)]

    assert torch.equal(torch.cat([part["img"] for part in parts]), whole["img"])
    assert torch.equal(torch.cat([part["bboxes"] for part in parts]), whole["bboxes"])
    assert torch.equal(torch.cat([parts[0]["batch_idx"], parts[1]["batch_idx"] + 2]), whole["batch_idx"])


def test_units_match_the_published_cost() -> None:
    units = WORKLOAD.build(CPU, "tiny", 0).units

    assert (units.samples, units.tokens) == (4, 0)
    assert units.flops == pytest.approx(4 * 3 * 8.7e9 / 100, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("yolov8n", 3_157_200), ("yolov8x", 68_229_648)])
def test_the_model_is_the_published_one(name: str, count: int) -> None:
    parameters = catalogue.get(name).build(CPU, "full", 0).model.parameters()

    assert sum(map(torch.numel, parameters)) == count


@pytest.mark.slow
def test_the_tiny_preset_keeps_the_depth_of_yolov8x() -> None:
    layers = [
        [
            module.out_channels
            for module in catalogue.get("yolov8x").build(CPU, preset, 0).model.modules()
            if hasattr(module, "out_channels")
        ]
        for preset in ("tiny", "full")
    ]

    assert len(layers[0]) == len(layers[1]) > 100
    assert [layers[0][0], layers[1][0]] == [16, 80]


def test_a_prediction_is_in_evaluation_mode_and_training_goes_on() -> None:
    job = WORKLOAD.build(CPU, "tiny", 0)
    before = [buffer.clone() for buffer in job.model.buffers()]
    prediction = job.predict()

    assert (4, 84, 84) == tuple(prediction.shape)
    assert 0 <= float(prediction[:, 4:].min()) <= float(prediction[:, 4:].max()) <= 1
    assert all(torch.equal(old, new) for old, new in zip(before, job.model.buffers(), strict=True))
    assert job.model.training


@pytest.mark.slow
def test_importing_ultralytics_has_no_side_effects(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("YOLO_CONFIG_DIR", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SIDE_EFFECTS],
        cwd=ROOT / "src",
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.rglob("*ltralytics*"))

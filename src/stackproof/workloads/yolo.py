"""YOLOv8 training as ultralytics does it: its model from its YAML with random weights, its loss, its optimiser settings.

ultralytics is AGPL-3.0 and is imported only inside the functions of this module.

The tiny preset is made so that fp32, bf16 and fp64 can be compared at all. Task-aligned assignment picks the ten best anchors of each box,
and max pooling the largest of its window: choices that rounding can flip, each with a jump in the gradients. Boxes of the tiny preset are at most 16 px,
so at most six anchor points (four of stride 8, one of 16, one of 32) lie inside one and all of them are chosen whatever the network says; boxes do
not overlap, so none is contested. The box branch starts at distances of about one cell, so that anchors overlap their boxes and
the box losses count.

Under data parallelism a rank's batch normalisation and loss normaliser see that rank's pictures only, as for every user of ultralytics:
the ranks' mean gradient equals the mean of the shards' gradients, not the gradient of the global batch.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from fixtures import shapes

from .base import Batch, Evaluation, Job, Preset, Recipe, Units, Workload
from .flops import counted
from .weights import reset


@dataclass(frozen=True)
class _Setting:
    """Pictures a step and how they are laid out; `near` starts the box branch at short distances (see above)."""

    samples: int
    layout: shapes.Layout
    near: bool


_SETTINGS: dict[Preset, _Setting] = {
    "tiny": _Setting(4, shapes.Layout(size=64, cell=32, smallest=16, largest=16, most=3), near=True),
    # 640 px is what the first users trained at (requirements.md A11); they gave no batch, 16 is ultralytics' default.
    "full": _Setting(16, shapes.Layout(size=640, cell=160, smallest=24, largest=150, most=8), near=False),
}

# ultralytics' defaults (cfg/default.yaml): gains of the losses, SGD.
_GAINS = {"box": 7.5, "cls": 0.5, "dfl": 1.5}
_SGD = {"lr": 0.01, "momentum": 0.937, "weight_decay": 0.0005}


class _Job(Job):
    criterion: Callable[[Any, Batch], tuple[torch.Tensor, Any]]

    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        """Return raw predictions (N, 64 + classes, anchors) and ultralytics' loss, summed over box, class and DFL."""
        predictions = model(batch["img"])
        return _joined(predictions), self.criterion(predictions, batch)[0].sum()

    @property
    def units(self) -> Units:
        """Pictures and the FLOPs of convolutions."""
        images = self.batches[0]["img"]
        return Units(len(images), 0, counted(self.model, images[:1]) * len(images))


class Yolo(Workload):
    """One size of YOLOv8, with the 80 classes of its YAML."""

    def __init__(self, name: str) -> None:
        self.name = name

    def assemble(self, recipe: Recipe) -> Job:
        """Build model, loss, optimiser and the rank's pictures."""
        setting = _SETTINGS[recipe.preset]
        model, criterion = _model(self.name, recipe, near=setting.near)
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = torch.optim.SGD(trainable, nesterov=True, **_SGD)
        job = _Job(recipe, model, optimiser, [_batch(setting, recipe)])
        job.criterion = criterion
        return job


def _model(name: str, recipe: Recipe, *, near: bool) -> tuple[nn.Module, Any]:
    """Return the model in training mode and its loss, on the device."""
    with _quiet_import():
        from ultralytics.nn.tasks import DetectionModel
        from ultralytics.utils.loss import v8DetectionLoss
    model = DetectionModel(f"{name}.yaml", verbose=False)
    reset(model, recipe.seed)
    if near:
        _start_near(model.model[-1])
    model.args = SimpleNamespace(**_GAINS)
    model.to(recipe.device, recipe.dtype).train()
    return model, v8DetectionLoss(model)


def _start_near(head: Any) -> None:
    """Bias the distance bins so that about one cell is expected; a softmax of -k/2 over bins k has mean 1.5."""
    for branch in head.cv2:
        bias = branch[-1].bias.data
        bias.copy_((-0.5 * torch.arange(head.reg_max)).repeat(4))


def _joined(predictions: Any) -> torch.Tensor:
    """Join the heads' outputs along anchors; before ultralytics 8.4 they are a list of maps, since then a dictionary."""
    if isinstance(predictions, dict):
        return torch.cat([predictions["boxes"], predictions["scores"]], dim=1)
    return torch.cat([level.flatten(2) for level in predictions], dim=2)


def _batch(setting: _Setting, recipe: Recipe) -> Batch:
    """Draw the global batch and keep this rank's pictures, as ultralytics' loader would give them.

    Returns img (N, 3, size, size) in 0..1, cls (B, 1), bboxes (B, 4) as fractions x y w h of the middle, batch_idx (B,).
    """
    mine = recipe.part(setting.samples)
    made = shapes.detection(recipe.seed, setting.samples * recipe.scale, setting.layout)
    kept = (made.owners >= mine.start) & (made.owners < mine.stop)
    images = torch.from_numpy(made.images[mine.start : mine.stop]).to(torch.float32) / 255
    corners = torch.from_numpy(made.corners[kept]).to(torch.float32)
    middle, side = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    floats = {
        "img": images,
        "cls": torch.from_numpy(made.labels[kept]).to(torch.float32).view(-1, 1),
        "bboxes": torch.cat([middle, side], dim=1) / setting.layout.size,
        "batch_idx": torch.from_numpy(made.owners[kept] - mine.start).to(torch.float32),
    }
    return {name: tensor.to(recipe.dtype) for name, tensor in floats.items()}


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Import ultralytics without its side effects.

    It writes a settings file, says so, looks for a network, and sets environment variables that later processes inherit
    (OMP_NUM_THREADS=1 among them); it also changes how tensors print and replaces torch.save.
    """
    environment, save = dict(os.environ), torch.save
    printing = vars(torch._tensor_str.PRINT_OPTS).copy()
    folder = tempfile.mkdtemp(prefix="stackproof-ultralytics-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.update(YOLO_CONFIG_DIR=folder, YOLO_OFFLINE="true", YOLO_VERBOSE="false", YOLO_AUTOINSTALL="false")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        torch.save = save
        vars(torch._tensor_str.PRINT_OPTS).update(printing)


WORKLOADS = (Yolo("yolov8n"), Yolo("yolov8x"))

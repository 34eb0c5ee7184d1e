"""YOLOv8 training as ultralytics does it: its model from its YAML, its loss, its optimiser settings.

ultralytics is AGPL-3.0 and is imported only inside the functions of this module.
"""

from __future__ import annotations

import atexit
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from stackproof.workloads import inputs
from stackproof.workloads.base import Batch, Evaluation, Job, Preset, Recipe, Units, Workload
from stackproof.workloads.training import counted
from stackproof.workloads.weights import fill, reset


@dataclass(frozen=True)
class _Setting:
    """Pictures a step and how they are laid out.

    `settled` starts the network so that float32, half precision and float64 can be compared at all: with ultralytics' own start a relative
    change of 1e-6 in the pixels changes gradients by 1e-4, and with this one by 1e-5. Three causes, three remedies:

    - *Choices* of the ten best anchors of each box flip by rounding. Boxes are 16 px with odd edges, so that few anchor points lie inside
      and all are chosen whatever the network says; boxes do not overlap, so none is contested.
    - *Kinks* of IoU, whose sixth power weighs the anchors. Boxes start at distances of 18 px on each stride, so that every prediction
      contains its box, and classes at probability 0.02.
    - *Chaos* of deep normalisation. Weights and biases near 0.5 keep the activations in the nearly linear part of SiLU.

    What is left is max pooling, where half precision flips a few winners: judge it on outputs, loss and the whole gradient.

    `width` bounds the channels' multiple of the YAML: a quarter of yolov8x's keeps its depth and costs a twentieth of its time.
    """

    samples: int
    layout: inputs.Layout
    settled: bool
    width: float


_SETTINGS: dict[Preset, _Setting] = {
    "tiny": _Setting(4, inputs.Layout(size=64, cell=32, smallest=16, largest=16, most=3), settled=True, width=0.25),
    # 640 px is what the first users trained at (docs/users-reports.md A11); 16 pictures is ultralytics' default.
    "full": _Setting(
        16, inputs.Layout(size=640, cell=160, smallest=24, largest=150, most=8), settled=False, width=math.inf
    ),
}

# ultralytics' default gains of the losses (cfg/default.yaml).
_GAINS = {"box": 7.5, "cls": 0.5, "dfl": 1.5}

_QUIET = {"YOLO_OFFLINE": "true", "YOLO_VERBOSE": "false", "YOLO_AUTOINSTALL": "false"}


class _Job(Job):
    criterion: Callable[[Any, Batch], tuple[torch.Tensor, Any]]

    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        """Return raw predictions (N, 64 + classes, anchors) and ultralytics' loss: box, class and DFL.

        The loss is computed in float32 at least, outside autocast: half precision cannot hold coordinates (at 64 px bfloat16 steps by a
        quarter), let alone the sixth power of their IoU.
        """
        predictions = model(batch["img"])
        with torch.autocast(batch["img"].device.type, enabled=False):
            return _joined(predictions), self.criterion(_widened_predictions(predictions), batch)[0].sum()

    def infer(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return decoded boxes in pixels and class probabilities (N, 4 + classes, anchors)."""
        return model(batch["img"])[0]  # type: ignore[no-any-return]

    def parts(self, prediction: torch.Tensor) -> Mapping[str, torch.Tensor]:
        return {"boxes": prediction[:, :4], "probabilities": prediction[:, 4:]}

    def probe(self) -> tuple[torch.Tensor, float]:
        """Return a random functional of the predictions: the loss picks its targets by them and differentiates as if it did not."""
        predictions = _wide(self.forward(0)[0])
        weights = torch.randn(predictions.shape[1:], generator=torch.Generator().manual_seed(self.recipe.seed))
        functional = (predictions * weights.to(predictions.device)).sum() / predictions.numel() ** 0.5
        return functional, float(predictions.detach().square().mean().sqrt())

    @property
    def units(self) -> Units:
        images = self.batches[0]["img"]
        return Units(len(images), 0, counted(self.model, images[:1]) * len(images))


class Yolo(Workload):
    """One size of YOLOv8, with the 80 classes of its YAML.

    Under data parallelism a rank's batch normalisation and loss normaliser see that rank's pictures only, as for every user of
    ultralytics: the ranks' mean gradient is the mean of the shards' gradients, not the gradient of the global batch.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def assemble(self, recipe: Recipe) -> Job:
        setting = _SETTINGS[recipe.preset]
        model, criterion = _model(self.name, recipe, setting)
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # ultralytics' defaults (cfg/default.yaml)
        optimiser = torch.optim.SGD(trainable, lr=0.01, momentum=0.937, weight_decay=5e-4, nesterov=True)
        job = _Job(recipe, model, optimiser, [_batch(setting, recipe)])
        job.criterion = criterion
        return job


def _model(name: str, recipe: Recipe, setting: _Setting) -> tuple[nn.Module, Any]:
    detector, loss, read = _ultralytics()
    definition = read(f"{name}.yaml")
    scale = definition["scales"][definition["scale"]]  # depth, width, most channels
    scale[1] = min(scale[1], setting.width)
    model = detector(definition, verbose=False)
    reset(model, recipe.seed)
    if setting.settled:
        _settle(model, recipe.seed)
    model.args = SimpleNamespace(**_GAINS)
    model.to(recipe.device, recipe.dtype).train()
    return model, loss(model)


def _settle(model: Any, seed: int) -> None:
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            for kind, vector in module.named_parameters():
                fill(vector, f"{name}.{kind}", seed, 0.1)
                vector.data.add_(0.5)
    head = model.model[-1]
    for stride, box, kind in zip(head.stride.tolist(), head.cv2, head.cv3, strict=True):
        # A softmax of -k log(1 + 1/m) over bins k has mean m, here 18 px in cells.
        slope = -math.log1p(stride / 18)
        box[-1].bias.data.copy_((slope * torch.arange(head.reg_max)).repeat(4))
        kind[-1].bias.data.fill_(-4.0)


def _widened_predictions(predictions: Any) -> Any:
    """Return the predictions in float32 at least.

    Of the feature maps the loss reads shape and dtype only: a view of one zero stands for each.
    """
    if isinstance(predictions, dict):
        maps = [_wide(level.new_zeros(())).expand(level.shape) for level in predictions["feats"]]
        return {"feats": maps, "boxes": _wide(predictions["boxes"]), "scores": _wide(predictions["scores"])}
    return [_wide(level) for level in predictions]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _joined(predictions: Any) -> torch.Tensor:
    """Join the heads' outputs along anchors; a list of maps before ultralytics 8.4, a dictionary since."""
    if isinstance(predictions, dict):
        return torch.cat([predictions["boxes"], predictions["scores"]], dim=1)
    return torch.cat([level.flatten(2) for level in predictions], dim=2)


def _batch(setting: _Setting, recipe: Recipe) -> Batch:
    """Draw the global batch and keep this rank's pictures, as ultralytics' loader would give them.

    Returns img (N, 3, size, size) in 0..1, cls (B, 1), bboxes (B, 4) as fractions x y w h of the middle,
    batch_idx (B,).
    """
    mine = recipe.part(setting.samples)
    made = inputs.detection(recipe.seed, setting.samples * recipe.scale, setting.layout)
    kept = (made.owners >= mine.start) & (made.owners < mine.stop)
    corners = torch.from_numpy(made.corners[kept]).to(torch.float32)
    middle, side = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    targets = {
        "cls": torch.from_numpy(made.labels[kept]).view(-1, 1),
        "bboxes": torch.cat([middle, side], dim=1) / setting.layout.size,
        "batch_idx": torch.from_numpy(made.owners[kept] - mine.start),
    }
    images = torch.from_numpy(made.images[mine.start : mine.stop]).to(torch.float32) / 255
    wide = torch.promote_types(recipe.dtype, torch.float32)
    return {"img": images.to(recipe.dtype), **{name: tensor.to(wide) for name, tensor in targets.items()}}


@cache
def _settings() -> str:
    """Make the folder of its settings, which goes with this process."""
    made = tempfile.mkdtemp(prefix="stackproof-ultralytics-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@contextmanager
def without_side_effects() -> Iterator[None]:
    """Undo after the block what importing or running ultralytics does to the process.

    It writes a settings file and says so, looks for a network, sets environment variables that later
    processes inherit (OMP_NUM_THREADS=1 among them), changes how tensors and arrays print, and replaces
    torch.save.
    """
    environment, save = dict(os.environ), torch.save
    printing = vars(torch._tensor_str.PRINT_OPTS).copy()
    os.environ.update(YOLO_CONFIG_DIR=_settings(), **_QUIET)
    try:
        with np.printoptions():
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        torch.save = save
        vars(torch._tensor_str.PRINT_OPTS).update(printing)


@cache
def _ultralytics() -> tuple[Any, Any, Any]:
    with without_side_effects():
        from ultralytics.nn.tasks import DetectionModel, yaml_model_load
        from ultralytics.utils.loss import v8DetectionLoss
    return DetectionModel, v8DetectionLoss, yaml_model_load


WORKLOADS = (Yolo("yolov8n"), Yolo("yolov8x"))

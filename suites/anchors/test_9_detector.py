"""What ultralytics computes around its network, against definitions: the loss, its norms' settings, and layers that are fused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from stackproof.device.devices import HOST
from stackproof.operators import detection
from stackproof.operators.forms import Array, Floats
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job
from suites.anchors.closeness import drawn
from suites.common import SEED, possible

_SIZE, _STRIDES, _BINS = 160, (8, 16, 32), 16
_TRUTHS: list[Floats] = [
    np.array([[6.0, 10, 149, 131], [60, 50, 155, 140], [20, 90, 70, 150]]), np.array([[3.0, 5, 158, 157]])
]  # fmt: skip
"""Boxes that overlap, and one so large that distances from its anchors of stride 8 go beyond the last bin."""
_LABELS = [np.array([1, 0, 2]), np.array([1])]
_ALLOWED, _SLOPE, _FUSED, _STEP = 1e-5, 1e-4, 1e-5, 1e-5
"""Ultralytics keeps some of its numbers in float32. Seen: 1.7e-7."""


def _job(dtype: torch.dtype) -> Job:
    return possible("yolov8n").build(HOST.torch, "tiny", SEED, dtype)


def _logits(classes: int) -> tuple[Floats, Floats]:
    """Return logits of sides (pictures, 4 x bins, anchors) and of classes (pictures, classes, anchors)."""
    count = sum((_SIZE // stride) ** 2 for stride in _STRIDES)
    return drawn(len(_TRUTHS), 4 * _BINS, count) * 1.5, drawn(len(_TRUTHS), classes, count, key=1) - 2


def _predictions(job: Job, sides: torch.Tensor, scores: torch.Tensor) -> Any:
    """Return logits in the form of this release's head: a dictionary, or a list of maps before ultralytics 8.4."""
    edges = [_SIZE // stride for stride in _STRIDES]
    if isinstance(job.model(job.batches[0]["img"]), dict):
        maps = [sides.new_zeros(len(sides), 1, edge, edge) for edge in edges]
        return {"feats": maps, "boxes": sides, "scores": scores}
    parts = torch.cat([sides, scores], 1).split([edge * edge for edge in edges], 2)
    return [part.reshape(*part.shape[:2], edge, edge) for part, edge in zip(parts, edges, strict=True)]


def _batch() -> dict[str, torch.Tensor]:
    corners = torch.tensor(np.concatenate(_TRUTHS))
    middles, edges = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    owners = np.repeat(np.arange(len(_TRUTHS)), [len(boxes) for boxes in _TRUTHS])
    return {
        "cls": torch.tensor(np.concatenate(_LABELS)).view(-1, 1).float(), "batch_idx": torch.tensor(owners).float(),
        "bboxes": (torch.cat([middles, edges], 1) / _SIZE).float(),
    }  # fmt: skip


def _losses(losses: Any) -> Array:
    """Return the three losses that come beside their sum."""
    values = list(losses.values()) if isinstance(losses, dict) else losses.tolist()
    return np.array([float(loss) for loss in values])


class _Definition:
    """The loss of two pictures, whose assignment is made once: it counts as constant where the loss is differentiated."""

    def __init__(self, sides: Floats, scores: Floats, gains: Any) -> None:
        self.at = detection.anchors(_SIZE, _STRIDES)
        self.gains = np.array([gains.box, gains.cls, gains.dfl])
        self.assigned = []
        for number, (truths, labels) in enumerate(zip(_TRUTHS, _LABELS, strict=True)):
            boxes = detection.decoded(self.bins(sides[number]), self.at)
            chosen = detection.assign(scores[number].T, boxes, self.at, truths, labels)
            self.assigned.append(detection.weighed(boxes, self.at, truths, chosen))
        self.share = max(sum(float(assigned.shares.sum()) for assigned in self.assigned), 1.0)

    @staticmethod
    def bins(sides: Floats) -> Floats:
        """Return (anchors, 4, bins)."""
        return sides.T.reshape(-1, 4, _BINS)

    def parts(self, sides: Floats, scores: Floats) -> Array:
        """Return the losses of boxes, classes and distances."""
        pairs = zip(_TRUTHS, _LABELS, self.assigned, strict=True)
        losses = [
            detection.parts(scores[number].T, self.bins(sides[number]), self.at, truths, labels, assigned)
            for number, (truths, labels, assigned) in enumerate(pairs)
        ]
        return np.asarray(np.sum(losses, 0) / self.share * self.gains)

    def whole(self, sides: Floats, scores: Floats) -> float:
        """Return what is differentiated: the sum, once for each picture."""
        return float(self.parts(sides, scores).sum() * len(_TRUTHS))


@pytest.mark.deadline(60)
def test_loss(figures: dict[str, Figure]) -> None:
    """Losses of boxes, classes and distances, where ten anchors of many are chosen and boxes overlap, with their gradients."""
    job: Any = _job(torch.float64)
    sides, scores = _logits(job.model.model[-1].nc)
    exact = _Definition(sides, scores, job.model.args)
    taken = [int((assigned.boxes >= 0).sum()) for assigned in exact.assigned]
    leaves = [torch.tensor(logits, requires_grad=True) for logits in (sides, scores)]
    total, losses = job.criterion(_predictions(job, *leaves), _batch())
    expected = exact.parts(sides, scores)
    for name, loss, value in zip(("boxes", "classes", "distances"), _losses(losses), expected, strict=True):
        figures[name] = off = abs(float(loss) / float(value) - 1)
        require(off <= _ALLOWED, f"the loss of {name} is {loss:.7g}, its definition {value:.7g}")
    whole = exact.whole(sides, scores)
    off = abs(float(total.detach().sum()) / whole - 1)
    require(off <= _ALLOWED, f"the loss is {float(total.detach().sum()):.7g}, its definition {whole:.7g}")
    gradients = torch.autograd.grad(total.sum(), leaves)
    moves: list[Callable[[Array], float]] = [lambda logits: exact.whole(logits, scores), partial(exact.whole, sides)]
    for name, gradient, values, move in zip(("sides", "classes"), gradients, (sides, scores), moves, strict=True):
        seen = gradient.double().numpy()
        for draw in range(3):
            way = np.random.default_rng(draw).choice((-1.0, 1.0), values.shape)
            change = (move(values + _STEP * way) - move(values - _STEP * way)) / (2 * _STEP)
            off = abs(float((seen * way).sum()) - change) / float(np.linalg.norm(seen))
            require(off <= _SLOPE, f"the gradient of {name} is {off:.2g} from what the definition changes by")
    figures["summary"] = f"losses and gradients of {taken} chosen anchors of {sides.shape[-1]} are their definition"


@pytest.mark.deadline(60)
def test_settings(figures: dict[str, Figure]) -> None:
    """Every norm has the eps and the momentum that ultralytics trains with, and every activation is silu."""
    model = _job(torch.float32).model
    norms = [(key, module) for key, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)]
    others = [
        f"{key} has eps {norm.eps} and momentum {norm.momentum}"
        for key, norm in norms
        if (norm.eps, norm.momentum) != (1e-3, 0.03)
    ]
    require(
        bool(norms) and not others,
        f"{len(others)} of {len(norms)} norms: {', '.join(others[:2])}; 0.001 and 0.03 were expected",
    )
    kinds = {type(module).__name__ for key, module in model.named_modules() if key.endswith(".act")}
    require(kinds == {"SiLU"}, f"activations are {', '.join(sorted(kinds))}, not SiLU")
    figures["summary"] = f"{len(norms)} norms have eps 0.001 and momentum 0.03"


@pytest.mark.deadline(60)
def test_fused(figures: dict[str, Figure]) -> None:
    """Each layer gives the same after norms are fused into convolutions, as for inference."""
    model: Any = _job(torch.float32).model.eval()
    for number, (key, value) in enumerate(model.named_buffers()):
        if key.endswith("running_mean"):
            value.copy_(torch.tensor(drawn(len(value), key=number)) / 10)
        elif key.endswith("running_var"):
            value.copy_(torch.tensor(np.abs(drawn(len(value), key=number))) / 2 + 0.5)
    layers = {key: module for key, module in model.named_modules() if hasattr(module, "bn") and hasattr(module, "conv")}
    seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    hooks = [
        module.register_forward_hook(lambda _, inputs, output, key=key: seen.update({key: (inputs[0], output)}))
        for key, module in layers.items()
    ]
    with torch.no_grad():
        model(torch.tensor(drawn(1, 3, 64, 64), dtype=torch.float32))
        for hook in hooks:
            hook.remove()
        model.fuse(verbose=False)
        left = [key for key, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)]
        require(not left, f"{len(left)} norms are left in the fused network, such as {left[:1]}")
        off = {key: float((layers[key](x) - output).norm() / output.norm()) for key, (x, output) in seen.items()}
    worst = max(off, key=lambda key: off[key])
    figures |= {"worst": off[worst], "layers": len(off)}
    require(
        off[worst] <= _FUSED, f"{worst}, fused, gives {off[worst]:.2g} from what it gave before, {_FUSED} is allowed"
    )
    figures["summary"] = f"{len(off)} fused layers give what they gave before, {off[worst]:.1e} off at most"

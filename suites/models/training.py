"""One epoch of ultralytics' own trainer on pictures made here: no download, no network, nothing outside one folder.

ultralytics is AGPL-3.0 and is imported only inside the functions of this module.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.project.offers import playing
from stackproof.workloads import inputs
from suites.common import SEED

_LAYOUT = inputs.Layout(size=64, cell=32, smallest=16, largest=28, most=3)
_PICTURES = 8
_BATCH = 4


@dataclass
class Course:
    """What an epoch was like: the loss of each batch, that of the first batch before and after, and where it all was."""

    losses: list[float] = field(default_factory=list)
    first: float = 0.0
    last: float = 0.0
    places: set[torch.device] = field(default_factory=set)
    still: list[str] = field(default_factory=list)
    trainable: int = 0


def write_dataset(folder: Path) -> Path:
    """Write pictures, labels and the description that ultralytics reads; return the description."""
    from PIL import Image

    made = inputs.detection(SEED, _PICTURES, _LAYOUT)
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    for index, picture in enumerate(made.images):
        Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0))).save(folder / "images" / f"{index}.png")
        (folder / "labels" / f"{index}.txt").write_text(_labels(made, index), encoding="ascii")
    names = "".join(f"  {number}: {name}\n" for number, name in enumerate(inputs.FORMS))
    description = folder / "data.yaml"
    description.write_text(f"path: {folder}\ntrain: images\nval: images\nnames:\n{names}", encoding="utf-8")
    return description


def _labels(made: inputs.Pictures, picture: int) -> str:
    """Return a line for each box: class, middle, width and height as fractions of the picture."""
    lines = []
    for box in np.flatnonzero(made.owners == picture):
        left, top, right, bottom = made.corners[box] / _LAYOUT.size
        place = ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)
        lines.append(f"{made.labels[box]} " + " ".join(f"{number:.6f}" for number in place))
    return "\n".join(lines) + "\n"


def train(data: Path, asked: str | torch.device) -> Course:
    """Train YOLOv8n for one epoch with `device=asked`; raise what the trainer raises."""
    from ultralytics.models.yolo.detect import DetectionTrainer

    trainer = DetectionTrainer(overrides=_settings(data, asked))
    course, kept = Course(), {}

    def start(running: Any) -> None:
        batch = running.preprocess_batch(next(iter(running.train_loader)))
        kept["batch"] = batch
        kept["parameters"] = {name: value.detach().clone() for name, value in running.model.named_parameters()}
        course.first = _loss(running.model, batch)

    def note(running: Any) -> None:
        course.losses.append(float(running.loss.detach()))
        course.places |= {running.loss.device, *(value.device for value in running.model.parameters())}

    def end(running: Any) -> None:
        course.last = _loss(running.model.train(), kept["batch"])
        moved = {name: value for name, value in running.model.named_parameters() if value.requires_grad}
        course.trainable = len(moved)
        course.still += [name for name, value in moved.items() if torch.equal(value, kept["parameters"][name])]

    for event, look in {"on_train_start": start, "on_train_batch_end": note, "on_train_epoch_end": end}.items():
        trainer.add_callback(event, look)
    trainer.train()
    return course


def _loss(model: Any, batch: Any) -> float:
    with torch.no_grad():
        return float(model(batch)[0].sum())


def _settings(data: Path, asked: str | torch.device) -> dict[str, Any]:
    """Return ultralytics' settings: small, plain, and without what it would download (the check of AMP wants weights)."""
    small = {
        "model": f"{playing('trainer')}.yaml",
        "data": str(data),
        "epochs": 1,
        "imgsz": _LAYOUT.size,
        "batch": _BATCH,
        "nbs": _BATCH,
    }
    plain = {
        "amp": False,
        "pretrained": False,
        "plots": False,
        "val": False,
        "save": False,
        "workers": 0,
        "verbose": False,
    }
    steady = {"optimizer": "SGD", "lr0": 0.01, "warmup_epochs": 0, "mosaic": 0.0, "seed": SEED}
    return {**small, **plain, **steady, "device": asked, "project": str(data.parent / "runs"), "exist_ok": True}


@contextmanager
def contained(device: Device) -> Iterator[None]:
    """Undo what ultralytics does to a process: environment, threads, random state; keep it off the network and quiet."""
    environment, threads, grad = dict(os.environ), torch.get_num_threads(), torch.is_grad_enabled()
    save, load = torch.save, torch.load
    random = torch.random.get_rng_state(), np.random.get_state()
    with pytest.MonkeyPatch.context() as patch, device.current(), contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(socket.socket, "connect", _refuse)
        # A font for plots, which are off; it would be downloaded.
        patch.setattr("ultralytics.data.utils.check_font", lambda *_: None)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(environment)
            torch.save, torch.load = save, load
            torch.set_num_threads(threads)
            torch.set_grad_enabled(grad)
            torch.use_deterministic_algorithms(False)
            torch.random.set_rng_state(random[0])
            np.random.set_state(random[1])


def _refuse(_socket: socket.socket, address: Any) -> None:
    raise AssertionError(f"the trainer wants to reach {address}; a check has no network")

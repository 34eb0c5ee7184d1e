"""The YOLO step under our engine and under ultralytics' own trainer, on the same pictures.

ultralytics is AGPL-3.0 and is imported only inside the functions of this module.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch

from fixtures import shapes

from ..device import Device
from ..measuring.sampling import Sampler, warm_up
from ..workloads.training import SEED, Training
from ..workloads.work import Setting
from ..workloads.yolo import setting_of, without_side_effects
from . import Block, Turns, side_by_side

_EPOCHS = 4
_BATCHES = 8


def compare(setting: Setting, rounds: int) -> tuple[str, Turns]:
    """Prove the job, then train in turns; returns what was proved and the seconds of one step."""
    work = Training(setting)
    reason = work.prove()
    sampler = Sampler(setting.device, work.run)
    warm_up(sampler, 10.0)
    with tempfile.TemporaryDirectory(prefix="stackproof-detector-") as folder:
        data = _data_set(Path(folder), setting.preset)
        theirs = _trainer(work.workload.name, setting.device, setting.preset, data)
        return reason, side_by_side(lambda: mean(sampler.block(_BATCHES)), theirs, rounds)


def _data_set(folder: Path, preset: str) -> Path:
    """Write the job's kind of pictures with labels as ultralytics reads them; return the file that names them."""
    from PIL import Image

    layout, batch = setting_of(preset).layout, setting_of(preset).samples
    made = shapes.detection(SEED, batch * _BATCHES, layout)
    for kind in ("images", "labels"):
        (folder / kind / "train").mkdir(parents=True)
    for number, image in enumerate(made.images):
        Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).save(
            folder / "images" / "train" / f"{number:04}.png"
        )
        mine = made.owners == number
        rows = zip(made.labels[mine], made.corners[mine].astype(float) / layout.size, strict=True)
        text = "".join(
            f"{int(kind)} {(x + u) / 2:.6f} {(y + v) / 2:.6f} {u - x:.6f} {v - y:.6f}\n" for kind, (x, y, u, v) in rows
        )
        (folder / "labels" / "train" / f"{number:04}.txt").write_text(text, encoding="ascii")
    names = "".join(f"  {number}: kind {number}\n" for number in range(80))
    path = folder / "data.yaml"
    path.write_text(f"path: {folder}\ntrain: images/train\nval: images/train\nnames:\n{names}", encoding="ascii")
    return path


def _trainer(name: str, device: Device, preset: str, data: Path) -> Block:
    """Return a function that trains some epochs and returns the seconds of a step, as the trainer's epoch_time tells them."""
    own = setting_of(preset)
    place = str(device.torch)
    settings: dict[str, Any] = {
        "model": f"{name}.yaml", "data": str(data), "epochs": _EPOCHS, "imgsz": own.layout.size, "batch": own.samples, "device": place,
        "amp": False, "val": False, "plots": False, "save": False, "workers": 2, "cache": "ram", "optimizer": "SGD", "nbs": own.samples,
        "lr0": 0.01, "momentum": 0.937, "warmup_epochs": 0, "mosaic": 0.0, "close_mosaic": 0, "deterministic": False, "pretrained": False,
        "project": str(data.parent), "exist_ok": True, "verbose": False, "patience": 0,
    }  # fmt: skip

    def block() -> float:
        with without_side_effects(), _quiet():
            from ultralytics.cfg import DEFAULT_CFG_DICT
            from ultralytics.models.yolo.detect import DetectionTrainer

            return _epochs(DetectionTrainer(overrides={**settings, **_laid_out(DEFAULT_CFG_DICT)}))

    return block


def _laid_out(known: Mapping[str, Any]) -> dict[str, Any]:
    """Keep pictures contiguous, as ours are: versions that know the setting lay them out channels-last on CUDA by themselves."""
    return {"channels_last": False} if "channels_last" in known else {}


def _epochs(trainer: Any) -> float:
    """Train and return the median seconds of a step; the first epoch warms up and the last one also validates."""
    threads, seconds = torch.get_num_threads(), list[float]()
    trainer.add_callback("on_train_start", lambda _: torch.set_num_threads(threads))
    trainer.add_callback("on_fit_epoch_end", lambda one: seconds.append(float(one.epoch_time) / len(one.train_loader)))
    trainer.train()
    return median(seconds[1:-1])


@contextlib.contextmanager
def _quiet() -> Any:
    """Swallow progress bars: this process speaks to its supervisor through files."""
    logger = logging.getLogger("ultralytics")
    level = logger.level
    logger.setLevel(logging.ERROR)
    threads = torch.get_num_threads()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
        torch.set_num_threads(threads)

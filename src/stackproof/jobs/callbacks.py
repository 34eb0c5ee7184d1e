"""Steps without a pattern: callbacks for Hugging Face's Trainer, for ultralytics, and for a loop of one's own.

They write a line a step where `gate --command` and `watch` ask for it, and do nothing otherwise.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

from stackproof.jobs.metrics import STEPS_FILE


class StepLog:
    """Writes the seconds of each step, from the end of the one before it, and figures such as its loss.

    `step` waits for the device first, because work that is only queued took no time. Of several ranks the first one writes.
    """

    def __init__(self, path: str | None = None) -> None:
        """Begin; `path` is where lines go, by default where the verb that launched this job reads them."""
        text = path or os.environ.get(STEPS_FILE, "")
        self._path = Path(text) if text and os.environ.get("RANK", "0") == "0" else None
        self._last: float | None = None

    def begin(self, device: Any = None) -> None:
        """Start the clock: what came before is no part of the first step."""
        if self._path is not None:
            _wait(device)
            self._last = time.perf_counter()

    def step(self, device: Any = None, **figures: float) -> None:
        """End a step on a torch device; figures that are given are compared by a gate."""
        if self._path is None:
            return
        _wait(device)
        now = time.perf_counter()
        row = {"seconds": now - self._last} if self._last is not None else {}
        self._last = now
        self.note(**row, **figures)

    def note(self, **figures: float) -> None:
        if self._path is not None and figures:
            row = {name: value if math.isfinite(value) else str(value) for name, value in figures.items()}
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")


def _wait(device: Any) -> None:
    """Wait until a torch device has done what was queued; torch's own module for its type knows how."""
    torch = sys.modules.get("torch")
    if torch is None or device is None:
        return
    module = torch.get_device_module(torch.device(device))
    getattr(module, "synchronize", lambda: None)()


def hugging_face(path: str | None = None) -> Any:
    """Return a callback for transformers' Trainer: `Trainer(..., callbacks=[hugging_face()])`.

    It writes each step of the optimiser, and whatever loss the Trainer logs (`logging_steps=1` for every one).

    Raises:
        ImportError: transformers is not installed.
    """
    from transformers import TrainerCallback

    log = StepLog(path)

    class StepCallback(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, *_: Any, **__: Any) -> None:
            log.begin(args.device)

        def on_step_end(self, args: Any, *_: Any, **__: Any) -> None:
            log.step(args.device)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
            values = {name: float(logs[name]) for name in ("loss", "grad_norm") if name in (logs or {})}
            log.note(**values)

    return StepCallback()


def ultralytics(model: Any, path: str | None = None) -> Any:
    """Add callbacks to an ultralytics model and return it: `ultralytics(YOLO("yolov8n.yaml")).train(...)`.

    They write each batch with its loss. A run of several cards starts other processes, which see callbacks of files alone.
    """
    log = StepLog(path)
    model.add_callback("on_train_epoch_start", lambda trainer: log.begin(trainer.device))
    model.add_callback("on_train_batch_end", lambda trainer: log.step(trainer.device, loss=float(trainer.loss.sum())))
    return model

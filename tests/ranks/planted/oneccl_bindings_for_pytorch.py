"""TEST DOUBLE, not oneCCL: registers gloo as the backend `ccl`, and logs as oneCCL 2021.15.2 does.

Whatever is asked for, four workers are in effect, as was seen on two cards.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import torch.distributed as dist

if "intel_extension_for_pytorch" not in sys.modules:
    raise ImportError("intel_extension_for_pytorch has to be imported before the bindings")


def _log(text: str) -> None:
    if os.environ.get("CCL_LOG_LEVEL") == "info":
        sys.stdout.write(f"2026:11:20-08:02:26:({os.getpid()}) |CCL_INFO| {text}\n")
        sys.stdout.flush()


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    _log("library version: Gold-0.0.0-double 2026-11-20T08:06:42Z")
    in_effect = {"CCL_ATL_TRANSPORT": "mpi", "CCL_LOG_LEVEL": "warn", **os.environ, "CCL_WORKER_COUNT": "4"}
    for name, value in in_effect.items():
        if name.startswith("CCL_"):
            _log(f"{name}: {value}")
    return dist.ProcessGroupGloo(store, rank, size, timeout)


dist.Backend.register_backend("ccl", _create, devices=["cpu", "xpu"])

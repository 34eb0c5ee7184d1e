"""The table of full sizes, and which of its rows a device can afford."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from stackproof import DATA
from stackproof.base.toml import read_toml
from stackproof.device.kinds import Device
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.common import supported

FILE = DATA / "sizes.toml"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@cache
def rows() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the rows by kind and name."""
    return {kind: {row["name"]: row for row in many} for kind, many in read_toml(FILE).items()}


def row_of(kind: str, name: str, dtype: torch.dtype, stack: Stack, device: Device) -> dict[str, Any]:
    """Return a row, or end the check with the rule that says why it is not for this device."""
    row = rows()[kind][name]
    if not row["everywhere"] or dtype is not torch.float32:
        capabilities.require(stack, "full-sizes")
        supported(stack, dtype)
    if device.memory().free < row.get("gib", 0) * 1.2 * 2**30:
        capabilities.withhold("enough-memory", f"{name} needs {row['gib']} GiB of free memory, {device} has less")
    return row


def weighed(piece: Any, start: int) -> int:
    """Return what `checksum` weighs a piece of bytes that begins at byte `start`, in NumPy."""
    words = piece.view(np.uint64)
    places = (
        np.arange(start // 8, start // 8 + len(words), dtype=np.uint64) * np.uint64(0x1E3779B97F4A7C15)
    ) | np.uint64(1)
    return int((places * words).sum(dtype=np.uint64))

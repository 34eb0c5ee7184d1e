"""Bit-equality and places of saved state, by making each wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Accelerator
from stackproof.probes import checkpoint
from stackproof.record.checks import CheckFailed

STATE: dict[str, Any] = {"model": {"w": torch.tensor([1.0, float("nan"), -0.0])}, "steps": [1, 2.5], "scale": 256.0}


def other(**change: Any) -> dict[str, Any]:
    return {**STATE, **change}


def test_nan_equals_nan_and_a_number_itself() -> None:
    assert checkpoint.equal(other(model={"w": STATE["model"]["w"].clone()}), STATE, "copy") == 1


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            other(model={"w": torch.tensor([1.0, float("nan"), 0.0])}),
            r"1 of 4 entries are not bit-equal, such as '\['model.w'\]'",
        ),
        (other(model={"w": STATE["model"]["w"].double()}), "are not bit-equal"),
        (other(model={"w": STATE["model"]["w"].reshape(3, 1)}), "are not bit-equal"),
        (other(scale=256), "are not bit-equal"),
        (other(model={"w": 1.0}), "are not bit-equal"),
        (other(extra=1), r"1 entries are on one side only, such as '\['extra'\]'"),
    ],
    ids=["the sign of zero", "dtype", "shape", "int for float", "number for tensor", "more"],
)
def test_anything_else_is_caught(found: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        checkpoint.equal(found, STATE, "loaded")


def test_a_tensor_in_the_wrong_place_is_caught() -> None:
    checkpoint.on(STATE, HOST, "here")
    checkpoint.on({"step": torch.tensor(3.0)}, Accelerator("xpu", 1), "there")
    with pytest.raises(CheckFailed, match=r"map_location=x: 1 tensors are not on xpu:1, such as \['model.w on cpu'\]"):
        checkpoint.on(STATE, Accelerator("xpu", 1), "map_location=x")


def test_the_way_there_and_back(tmp_path: Path) -> None:
    dtypes = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool)
    made = checkpoint.samples(HOST, dtypes)
    assert len(made) == 4 * len(dtypes)
    assert checkpoint.travels(made, HOST, tmp_path) == 7 * len(made)

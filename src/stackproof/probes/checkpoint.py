"""State that survives: what was written on one device is read on another, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.record.checks import require

Places = dict[str, Any]


def tensors(state: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Go through a nested state: every tensor and every plain value, with its path."""
    if isinstance(state, dict):
        for key, value in state.items():
            yield from tensors(value, f"{name}.{key}".lstrip("."))
    elif isinstance(state, (list, tuple)):
        for key, value in enumerate(state):
            yield from tensors(value, f"{name}[{key}]")
    else:
        yield name, state


def equal(item: Any, expected: Any, what: str) -> int:
    """Fail unless two states hold the same names, dtypes, shapes and bits; returns how many tensors were compared."""
    ours, theirs = dict(tensors(item)), dict(tensors(expected))
    strange = sorted(ours.keys() ^ theirs.keys())
    require(not strange, f"{what}: {len(strange)} entries are on one side only, such as '{strange[:1]}'")
    wrong = [name for name in theirs if not _same(ours[name], theirs[name])]
    require(not wrong, f"{what}: {len(wrong)} of {len(theirs)} entries are not bit-equal, such as '{wrong[:1]}'")
    return sum(isinstance(value, torch.Tensor) for value in theirs.values())


def _same(item: Any, other: Any) -> bool:
    if not isinstance(other, torch.Tensor):
        return type(item) is type(other) and bool(item == other)
    if not isinstance(item, torch.Tensor) or (item.dtype, item.shape) != (other.dtype, other.shape):
        return False
    bits = [tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in (item, other)]
    return torch.equal(*bits)  # NaN equals NaN here, and 0 is not -0


def travels(state: dict[str, Any], device: Device, folder: Path) -> int:
    """Save on the device, load on the CPU by every spelling and on the device again; each is bit-equal and where it should be."""
    path, again, host = folder / "state.pt", folder / "again.pt", HOST.torch
    torch.save(state, path)
    torch.save(torch.load(path, map_location=host, weights_only=True), again)
    to_host: Places = {
        f"'{host}'": str(host),
        "torch.device": host,
        "a table of devices": {str(device): str(host), str(device.torch): str(host)},
        "a function": lambda storage, _: storage.cpu(),
    }
    back: Places = {"the device": device.torch, "its name": str(device)}
    compared = 0
    for saved, file, where, places in (
        (f"saved on {device}", path, HOST, to_host),
        ("saved on the CPU", again, device, back),
        ("loaded where it was saved", path, device, {"nothing": None}),
    ):
        for spelling, place in places.items():
            read = torch.load(file, map_location=place, weights_only=True)
            on(read, where, f"map_location={spelling}")
            compared += equal(read, state, f"{saved}, loaded with map_location={spelling}")
    return compared


def on(state: Any, device: Device, how: str) -> None:
    """Fail unless every tensor of the state is on the device; a single number may stay on the host, as optimisers keep it."""
    many = {name: value for name, value in tensors(state) if isinstance(value, torch.Tensor) and value.dim()}
    wrong = [f"{name} on {value.device}" for name, value in many.items() if not device.has(value)]
    require(not wrong, f"{how}: {len(wrong)} tensors are not on {device.torch}, such as {wrong[:1]}")


def by_safetensors(state: dict[str, torch.Tensor], device: Device, folder: Path) -> int:
    """The same through the format of model hubs; it holds contiguous tensors that share nothing."""
    from safetensors.torch import load_file, save_file

    path, compared = folder / "state.safetensors", 0
    save_file({name: tensor.contiguous().clone() for name, tensor in state.items()}, path)
    for where, read in ((HOST, load_file(path)), (device, load_file(path, device=str(device)))):
        on(read, where, f"safetensors loaded on {where}")
        compared += equal(read, state, f"safetensors loaded on {where}")
    return compared


def samples(device: Device, dtypes: tuple[torch.dtype, ...]) -> dict[str, torch.Tensor]:
    """Return tensors with what is lost easily: NaN, -0, infinity, odd sizes, a single number, nothing, a view."""
    made: dict[str, torch.Tensor] = {}
    for dtype in dtypes:
        name = str(dtype).removeprefix("torch.")
        if dtype.is_floating_point:
            special = torch.tensor([float("nan"), -0.0, float("inf"), -float("inf"), 1 / 3], dtype=dtype)
        else:
            special = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
        made |= {f"{name} special": special, f"{name} single": special[4], f"{name} nothing": special[:0]}
        made |= {f"{name} strided": special.repeat(7, 3).t()[::2]}
    return {name: tensor.to(device.torch) for name, tensor in made.items()}

"""What torch computes with unless it is told otherwise, such as its default dtype: whatever sets it for a whole process is found out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from stackproof.stack import stacks

Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""How one is read, and how it is set."""
_UNSET = torch.device(stacks.HOST)
"""The default device where nobody set one."""
_SWITCHES = {
    "cudnn": ("benchmark", "deterministic", "allow_tf32"),
    "cuda.matmul": ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"),
}


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device == _UNSET else device)  # what is set slows every call of torch


def _known(kind: str) -> dict[str, Setting]:
    """Return those of a process that computes on devices of this type, by name."""
    known: dict[str, Setting] = {
        "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "default device": (torch.get_default_device, _set_default_device),
        "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
        "deterministic debug mode": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        "number of threads": (torch.get_num_threads, torch.set_num_threads),
    }
    for name in dict.fromkeys((stacks.HOST, kind)):
        ways = partial(torch.is_autocast_enabled, name), partial(torch.set_autocast_enabled, name)
        known[f"autocast on {name}"] = ways
        known[f"autocast's dtype on {name}"] = (
            partial(torch.get_autocast_dtype, name),
            partial(torch.set_autocast_dtype, name),
        )
    for path, names in _SWITCHES.items():
        owner = torch.backends.cudnn if path == "cudnn" else torch.backends.cuda.matmul
        known |= {f"{path}.{name}": (partial(getattr, owner, name), partial(setattr, owner, name)) for name in names}
    return known


def read(kind: str) -> dict[str, Any]:
    """Return their values, but of those that this torch has not, or does not tell."""
    values = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are said to be deprecated
        for name, (get, _) in _known(kind).items():
            try:
                values[name] = get()
            except (RuntimeError, AttributeError):  # such as of a device type that no extension has registered yet
                continue
    return values


def restore(before: Mapping[str, Any], kind: str) -> str:
    """Set back what is no longer as it was, and say what that is; nothing where all is."""
    now, known = read(kind), _known(kind)
    changed = [name for name, value in before.items() if name in now and now[name] != value]
    for name in changed:
        known[name][1](before[name])
    return ", ".join(f"{name} is {now[name]} and was {before[name]}" for name in changed)

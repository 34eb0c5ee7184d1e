"""What a check may leave changed for the whole process: torch's settings and functions, variables, and where modules come from."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from stackproof.stack import stacks

Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""How one is read, and how it is set."""
_UNSET = torch.device(stacks.HOST)
"""The default device where nobody set one."""
_OWNERS = {"torch": torch, "torch.Tensor": torch.Tensor, "torch.nn.functional": functional}
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
        "working directory": (os.getcwd, os.chdir),
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


@dataclass(frozen=True)
class Settings:
    """What was read before a check."""

    values: Mapping[str, Any]
    variables: Mapping[str, str]
    path: list[str]
    """Where modules are looked for."""
    functions: Mapping[str, Mapping[str, Any]]
    """What the names of torch stand for, by where they are defined."""
    modules: int
    """How many modules were imported: libraries set variables, extend the path and replace functions of torch as they are."""


def read(kind: str) -> Settings:
    """Return all of them, but for those that this torch has not, or does not tell."""
    values = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are said to be deprecated
        for name, (get, _) in _known(kind).items():
            # Such as of a device type that no extension has registered yet.
            with contextlib.suppress(RuntimeError, AttributeError, OSError):
                values[name] = get()
    functions = {place: dict(vars(owner)) for place, owner in _OWNERS.items()}
    return Settings(values, dict(os.environ), list(sys.path), functions, len(sys.modules))


def restore(before: Settings, kind: str) -> str:
    """Set back what is no longer as it was, and say what that is; nothing where all is."""
    now, known = read(kind), _known(kind)
    changed = [name for name, value in before.values.items() if name in now.values and now.values[name] != value]
    for name in changed:
        known[name][1](before.values[name])
    said = [f"{name} is {now.values[name]!s:.80} and was {before.values[name]!s:.80}" for name in changed]
    if now.modules != before.modules:
        return ", ".join(said)
    for name in sorted((before.variables.keys() | now.variables.keys()) - {"PYTEST_CURRENT_TEST"}):
        old, new = before.variables.get(name), now.variables.get(name)
        if old != new:
            said.append(f"{name} is {new!r:.60} and was {old!r:.60}")
            os.environ.pop(name, None)
            os.environ.update({name: old} if old is not None else {})
    if now.path != before.path:
        added = [entry for entry in now.path if entry not in before.path]
        said.append(f"sys.path has {added!s:.80} besides, or another order")
        sys.path[:] = before.path
    for place, functions in before.functions.items():
        for name in functions.keys() | now.functions[place].keys():
            old, new = functions.get(name), now.functions[place].get(name)
            if old is not new and (callable(old) or callable(new)):
                said.append(f"{place}.{name} is replaced")
                delattr(_OWNERS[place], name)
                if old is not None:
                    setattr(_OWNERS[place], name, old)
    return ", ".join(said)

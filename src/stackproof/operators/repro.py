"""Values and functions as Python that can be pasted: few numbers are written out, with their strides."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch

from stackproof.operators.database import OpInfo, full_name

_MOST_NUMBERS = 512


class NotWritableError(Exception):
    """The value has no short expression in Python."""


def path_of(op: OpInfo) -> str:
    """Return the name under which anybody reaches the function that the database calls."""
    function: Any = getattr(op, "op", None)
    root: Any = torch
    for path in (f"torch.{op.name}", f"torch.Tensor.{op.name}", str(op.name)):
        names = path.split(".")[1:]
        if reduce(lambda place, name: getattr(place, name, None), names, root) is function is not None:
            return path
    raise NotWritableError(full_name(op))


def literal(value: Any) -> str:
    """Return an expression that evaluates to the value where `torch`, `inf` and `nan` are names."""
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, list | tuple) and type(value) in (list, tuple, torch.Size):
        parts = ", ".join(map(literal, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' if len(value) == 1 else ''})"
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {literal(part)}" for key, part in value.items()) + "}"
    if value is None or isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return repr(value)
    if type(value) in (bool, int, float, complex, str, slice):
        return repr(value)
    raise NotWritableError(type(value).__name__)


def _tensor(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        raise NotWritableError(str(tensor.layout))
    flat = tensor.detach().as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    if flat.numel() > _MOST_NUMBERS:
        raise NotWritableError(f"{flat.numel()} numbers")
    contiguous = tensor.is_contiguous() and flat.numel() == tensor.numel()
    strides = f"as_strided({tuple(tensor.shape)}, {tensor.stride()}, {tensor.storage_offset()})"
    shape = f"reshape({tuple(tensor.shape)})" if contiguous else strides
    gradient = ".requires_grad_()" if tensor.requires_grad else ""
    return f"torch.tensor({flat.tolist()}, dtype={tensor.dtype}).{shape}{gradient}"

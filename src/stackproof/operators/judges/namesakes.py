"""As NumPy has it: an operator with a namesake in NumPy, or one that torch's database names, gives what that gives, with all options."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from stackproof.operators.points import COMPLEX, FLOATS, OperatorPoint, member
from stackproof.operators.relation import Relation, UnusableError, widened

WHAT = "as NumPy has it"
DTYPES = (*FLOATS, *COMPLEX, torch.int64, torch.int8, torch.uint8, torch.bool)
_WORDS = {"dim": "axis", "dims": "axis", "keepdim": "keepdims", "correction": "ddof"}


def suits(name: str, op: Any) -> bool:
    """Whether NumPy has it, and means the same."""
    return reference(op) is not None and not member("otherwise in NumPy", name)


def reference(op: Any) -> Callable[..., Any] | None:
    """Return what torch's database names, or a function of NumPy or of Python's `math` of that name."""
    found: Any = op.ref
    if found is not None and not type(found).__name__.startswith("_NotImpl") and "_NOTHING" not in repr(found):
        return cast(Callable[..., Any], found)
    for name in (op.name, *(alias.name for alias in op.aliases)) if not op.variant_test_name else ():
        found = np
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None and hasattr(math, name):
            found = np.vectorize(getattr(math, name), otypes=[float])
        if found is not None:
            return cast(Callable[..., Any], found)
    return None


def numpys(op: Any) -> Callable[..., Any]:
    """Return the operator as NumPy computes it, in float64 if its result is one of floats, with the dtypes that torch gives."""
    ref = reference(op)
    assert ref is not None

    def run(*inputs: Any, **named: Any) -> Any:
        result = op(*inputs, **named)
        like = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor | bool)]
        floats = next(
            (leaf.dtype for leaf in like if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()), None
        )

        def to(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            host = leaf.detach().resolve_conj().resolve_neg().cpu()
            whole = floats and not (host.is_floating_point() or host.is_complex() or host.dtype is torch.int64)
            return (host.to(floats).double() if whole else host).numpy()  # whole numbers are rounded first

        inputs, named = tree_map(to, (inputs, named))
        if ref is not op.ref or type(op).__name__ == "ReductionOpInfo":
            named = {_WORDS.get(word, word): value for word, value in named.items()}
        if op.name in ("std", "var") and not op.variant_test_name:
            named.setdefault("ddof", 1)
        with np.errstate(all="ignore"):
            try:
                made = ref(*inputs, **named)
            except Exception as error:
                raise UnusableError(f"NumPy refuses it: {error}") from error
        made = [*made] if isinstance(result, tuple | list) else [made]
        pairs = zip(map(np.asarray, made), like, strict=True)
        as_torch = [(torch.tensor(x), torch.as_tensor(y)) for x, y in pairs]
        return [x.to(y.dtype).reshape(x.shape if y.dim() else ()) for x, y in as_torch]

    return run


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield samples with their options; on a card the sweep holds the same against the CPU."""
    if not point.on_host:
        return
    op, way = point.op, numpys(point.op)
    what = getattr(reference(op), "__name__", str(reference(op)))
    code = f"# second is what NumPy gives: {what}\nfirst = second = operator(*arguments, **options)"

    def leaves(*arguments: Any, **options: Any) -> Any:
        return [leaf for leaf in tree_leaves(op(*arguments, **options)) if isinstance(leaf, torch.Tensor | bool)]

    for place, (inputs, named, _) in enumerate(point.kinds(10, smallest=-1)):
        arguments, options = tree_map(_equal_or_large, (inputs, named)) if place % 2 else (inputs, named)
        wide = widened(point.dtype) is not point.dtype
        floor = 0.0 if point.dtype.is_floating_point or point.dtype.is_complex else 1e-6
        yield Relation(WHAT, arguments, options, leaves, way, code, 256.0, floor=floor, widened=wide)


def _equal_or_large(leaf: Any) -> Any:
    """Return numbers of which many are equal, or whole ones that no float holds."""
    if not isinstance(leaf, torch.Tensor) or leaf.dtype not in (*FLOATS, torch.int64):
        return leaf
    return (leaf.detach() / 4).round() if leaf.is_floating_point() else leaf * (2**54 + 1)

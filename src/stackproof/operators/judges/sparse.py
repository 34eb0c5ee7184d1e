"""Sparse as dense: what an operator gives of a sparse tensor is what it gives of the same numbers with their zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation, UnusableError, detached

WHAT = "sparse as dense"
DTYPES = (torch.float32, torch.complex64, torch.int64)


def suits(name: str, op: Any) -> bool:
    """Whether the database or the table says that it takes sparse tensors; masked ones mean something else by a zero."""
    says = any(getattr(op, f"supports_sparse{kind}", False) for kind in ("", "_csr", "_csc", "_bsr"))
    return (says and not name.startswith("masked")) or member("of sparse tensors", name)


def twice(x: torch.Tensor, dense: int = 0) -> torch.Tensor:
    """Return a tensor whose every index comes twice, the second time with three quarters of a whole number's share."""
    made = x.to_sparse(x.dim() - dense)
    whole = not x.is_floating_point() and not x.is_complex()
    part = made.values() // 2 if whole else made.values() / 4
    indices, values = torch.cat([made.indices()] * 2, 1), torch.cat([part, made.values() - part])
    return torch.sparse_coo_tensor(indices, values, x.shape)


_KINDS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "COO": lambda x: x.to_sparse(),
    "COO with indices that come twice": twice,
    "hybrid COO with indices that come twice": lambda x: twice(x, 1),
    "hybrid COO that was coalesced": lambda x: twice(x, 1).coalesce(),
    "CSR": lambda x: x.to_sparse_csr(),
    "CSC": lambda x: x.to_sparse_csc(),
    "BSR": lambda x: x.to_sparse_bsr((1, 1)),
}


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield samples half of whose numbers are zeros, and one without any numbers left, in each layout that the operator takes."""
    for inputs, options, _ in map(detached, point.samples(2)):
        if not isinstance(inputs[0], torch.Tensor) or not inputs[0].dim() or options.get("out") is not None:
            continue
        for holes, thin in (("", _thinned), (", all zeros", torch.zeros_like)):
            arguments = (thin(inputs[0]), *inputs[1:])
            for says, change in _KINDS.items():
                several = "COO" in says and not holes and any(isinstance(leaf, torch.Tensor) for leaf in inputs[1:])
                everywhere = range(len(inputs))
                ways = ((0,), everywhere, *((n,) for n in everywhere[1:] if torch.is_tensor(inputs[n])))
                for which in ways if several else ways[:1]:  # two compressed ones may end the process
                    first = partial(_called, point.op, change, which)
                    code = "first = operator(arguments[0].to_sparse(), *arguments[1:], **options)  # " + says
                    code += "\nsecond = operator(*arguments, **options)"
                    words = f"{says}{', all arguments' if which is everywhere else f', argument {which[0]}' if which[0] else ''}{holes}"
                    yield Relation(
                        words, arguments, options, first, point.op, code, ulps=512.0, floor=1e-5, refusable=True
                    )


def _called(
    op: Any, change: Callable[[torch.Tensor], torch.Tensor], which: Sequence[int], *arguments: Any, **options: Any
) -> Any:
    """Return dense results of sparse arguments.

    Raises:
        UnusableError: the operator does not take them.
    """

    def made(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf

    try:
        results = op(*(tree_map(made, x) if n in which else x for n, x in enumerate(arguments)), **options)
    except Exception as error:
        raise UnusableError("it takes no such tensor") from error
    return tree_map(lambda leaf: leaf.to_dense() if isinstance(leaf, torch.Tensor) else leaf, results)


def _thinned(x: torch.Tensor) -> torch.Tensor:
    keep = torch.arange(x.numel(), device=x.device).view(x.shape) % 2 > 0
    return torch.where(keep, x, torch.zeros_like(x))

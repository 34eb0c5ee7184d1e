"""A failing sample as Python code that can be pasted: it needs torch alone, prints the errors, and ends with 1 if the fault is there.

Few numbers are written out, with their strides. Other samples (many numbers, callables, sparse tensors) are drawn again from
torch's operator database with the sweep's seed, which gives the same numbers in the same torch.
"""

from __future__ import annotations

from functools import reduce
from itertools import islice
from typing import Any

import torch

from stackproof.device.numerics import rule
from stackproof.operators.compare import word
from stackproof.operators.database import SEED, OpInfo, SampleInput, full_name, samples

_MOST_NUMBERS = 512

_HEAD = '''"""{title}"""
import sys

import torch
from torch import inf, nan
from torch.utils._pytree import tree_leaves, tree_map

device, dtype, backward, bound = torch.device("{device}"), torch.{dtype}, {backward}, {bound!r}
'''

_WRITTEN = """operator = {callable}
arguments = {arguments}
options = {options}
finish = lambda output: output
"""

_DRAWN = """
import random, numpy
from torch.testing._internal.common_methods_invocations import op_db


def seed(start):
    torch.default_generator.manual_seed(start), random.seed(start), numpy.random.seed(start)


# sample {index} of the operator database of torch {version}
operator = next(op for op in op_db if (op.name, op.variant_test_name) == {name!r})
seed({seed})
with torch.no_grad():
    made = iter(operator.sample_inputs_func(operator, "cpu", dtype, backward))
    for index in range({index} + 1):
        seed({seed} + index)
        sample = next(made)
arguments, options, finish = (sample.input, *sample.args), sample.kwargs, sample.output_process_fn_grad
"""

_TAIL = """

def moved(leaf, device, casts):
    if isinstance(leaf, torch.Tensor):
        flat, length = leaf.detach(), leaf.numel()
        if strided := leaf.layout is torch.strided:
            flat = flat.as_strided((leaf.untyped_storage().nbytes() // leaf.element_size(),), (1,), 0)
        flat = flat.to(device, casts.get(leaf.dtype, leaf.dtype), copy=True)
        view = flat.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset()) if strided else flat
        return view.requires_grad_(leaf.requires_grad)
    if isinstance(leaf, torch.dtype):
        return casts.get(leaf, leaf)
    return device if str(leaf) in ("cpu", "{device.type}") else leaf


def cotangent(root):
    steps = torch.arange(1, 2 * root.numel() + 1, dtype=torch.float64)
    parts = torch.frac(steps * 0.6180339887498949).mul_(2).sub_(0.9).to(dtype.to_real()).double()
    halves = parts[: root.numel()].reshape(root.shape), parts[root.numel() :].reshape(root.shape)
    return (torch.complex(*halves) if root.is_complex() else halves[0]).to(root.dtype).to(root.device)


def run(device, casts):
    given = tree_map(lambda leaf: moved(leaf, device, casts), (arguments, options))
    torch.default_generator.manual_seed({seed})
    with torch.set_grad_enabled(backward):
        found = [leaf for leaf in tree_leaves(finish(operator(*given[0], **given[1]))) if isinstance(leaf, torch.Tensor)]
    leaves = [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    roots = [root for root in found if root.requires_grad]
    if backward and roots and leaves:
        found += torch.autograd.grad(roots, leaves, list(map(cotangent, roots)), allow_unused=True)
    return [leaf.detach().cpu() for leaf in found if leaf is not None]


def error(actual, exact):
    if actual.shape != exact.shape:
        return inf
    left, right = (value.to_dense() if value.layout is not torch.strided else value for value in (actual, exact))
    finite = torch.isfinite(right)
    left, right = (value[finite].to(torch.complex128) for value in (left, right))
    gap, scale = float((left - right).norm()), float(right.norm())
    return gap / scale if scale >= {small!r} else gap


actual = run(device, {{}})
exact = run(torch.device("cpu"), {{dtype.to_real(): torch.float64, dtype.to_complex(): torch.complex128}})
errors = [error(left, right) for left, right in zip(actual, exact)]
for left, right, found in zip(actual, exact, errors):
    print(f"{{left.dtype}} {{tuple(left.shape)}} against {{right.dtype}} {{tuple(right.shape)}}: error {{found:.3g}}, bound {{bound}}")
sys.exit(len(actual) != len(exact) or not all(found <= bound for found in errors))
"""


class NotWritableError(Exception):
    """The value has no short expression in Python."""


def code(op: OpInfo, finding: Any, device: torch.device, dtype: torch.dtype) -> str:
    """Return the program that repeats the finding."""
    backward = dtype in op.supported_backward_dtypes(device.type)
    sample = next(islice(samples(op, dtype, backward), finding.sample, None))
    facts = {
        "title": finding.sentence.replace("\\", "/").replace('"', "'"),
        "device": device,
        "dtype": word(dtype),
        "backward": backward,
        "bound": finding.judgement.bound if finding.judgement else 0.0,
        "seed": SEED,
        "small": rule().caps[dtype.to_real()],
    }
    return _HEAD.format(**facts) + _inputs(op, sample, finding.sample) + _TAIL.format(**facts)


def _inputs(op: OpInfo, sample: SampleInput, index: int) -> str:
    try:
        return _written(op, sample)
    except NotWritableError:
        name = (op.name, op.variant_test_name)
        return _DRAWN.format(name=name, index=index, seed=SEED, version=torch.__version__)


def _written(op: OpInfo, sample: SampleInput) -> str:
    mark = object()
    if not _is_identity(sample.output_process_fn_grad, mark):
        raise NotWritableError
    arguments = "".join(f"\n    {literal(value)}," for value in (sample.input, *sample.args))
    return _WRITTEN.format(callable=path_of(op), arguments=f"({arguments}\n)", options=literal(dict(sample.kwargs)))


def _is_identity(function: Any, mark: object) -> bool:
    try:
        return function(mark) is mark
    except Exception:
        return False


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
    shape = f"reshape({tuple(tensor.shape)})" if contiguous else _strides(tensor)
    gradient = ".requires_grad_()" if tensor.requires_grad else ""
    return f"torch.tensor({flat.tolist()}, dtype={tensor.dtype}).{shape}{gradient}"


def _strides(tensor: torch.Tensor) -> str:
    return f"as_strided({tuple(tensor.shape)}, {tensor.stride()}, {tensor.storage_offset()})"

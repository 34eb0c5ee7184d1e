"""One sample of an operator carried to a device and computed there, forward and backward, in its own dtype or in float64."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from stackproof.operators.database import REFERENCE, OpInfo, SampleInput, seed

NO_MODE: AbstractContextManager[Any] = nullcontext()

Feed: TypeAlias = Callable[[torch.Tensor, torch.dtype], torch.Tensor]
"""Makes the gradient that is fed into an output, from the output and the dtype that is examined."""


def cotangent(root: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the gradient fed into an output: uneven, of both signs, the same numbers everywhere.

    A golden-ratio sequence: the all-ones of `sum().backward()` hides wrong broadcasting and gives exact zeros
    for softmax and norms.
    """
    parts = (
        torch.frac(torch.arange(1, 2 * root.numel() + 1, dtype=torch.float64) * 0.6180339887498949).mul_(2).sub_(0.9)
    )
    parts = parts.to(dtype.to_real() if dtype.is_floating_point or dtype.is_complex else torch.float32).double()
    halves = parts[: root.numel()].reshape(root.shape), parts[root.numel() :].reshape(root.shape)
    whole = torch.complex(*halves) if root.is_complex() else halves[0]
    return whole.to(root.dtype).to(root.device)


def compute(
    op: OpInfo,
    sample: SampleInput,
    device: torch.device,
    dtype: torch.dtype,
    backward: bool,
    wide: bool = False,
    mode: AbstractContextManager[Any] = NO_MODE,
    feed: Feed = cotangent,
    host: tuple[str, ...] = (),
) -> dict[str, torch.Tensor]:
    """Run one sample forward and, if asked, backward, and return outputs and gradients by name; in float64 if `wide`.

    `mode` is entered around the operator and its backward, not around what moves and prepares their arguments.
    `feed` makes the gradients that are fed in (`cotangent`); tensors of the dtypes `host` stay on the CPU.
    """
    casts = {dtype.to_real(): torch.float64, dtype.to_complex(): torch.complex128} if wide else {}  # exact ones

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            place = REFERENCE if str(leaf.dtype).removeprefix("torch.") in host else device
            return relocate(leaf, place, casts.get(leaf.dtype, leaf.dtype))
        if isinstance(leaf, torch.dtype):
            return casts.get(leaf, leaf)
        return device if _names_a_device(leaf) else leaf

    arguments = tree_map(move, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    seed()
    with torch.set_grad_enabled(backward), mode:
        output = op(arguments[0], *arguments[1], **arguments[2])
        values = labelled("output", sample.output_process_fn_grad(output), None if wide else dtype)
    leaves = {name: leaf for name, leaf in labelled("gradient of input", arguments).items() if leaf.requires_grad}
    roots, gradients = [value for value in values.values() if value.requires_grad], dict[str, torch.Tensor]()
    if backward and roots and leaves:
        fed = [feed(root, dtype) for root in roots]
        with mode:
            made = torch.autograd.grad(roots, list(leaves.values()), fed, allow_unused=True)
        gradients = {name: one for name, one in zip(leaves, made, strict=True) if one is not None}
    kept = {id(value) for value in values.values()}
    others = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor) and id(leaf) not in kept]
    return values | gradients | {f"the shape of part {n}": torch.tensor(leaf.shape) for n, leaf in enumerate(others)}


def labelled(what: str, tree: Any, dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """Name the tensors and numbers in a tree by position; numbers become tensors, of the dtype if they are floating, to be compared too."""
    leaves = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor | bool | int | float | complex)]
    names = [what] if len(leaves) == 1 else [f"{what} {n}" for n in range(len(leaves))]
    kinds = {float: dtype or torch.float64, complex: dtype or torch.complex128}
    return {
        name: leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf, dtype=kinds.get(type(leaf)))
        for name, leaf in zip(names, leaves, strict=True)
    }


def _names_a_device(leaf: Any) -> bool:
    """Tell whether an argument says where to compute: some samples name the host's own card, even where that is not examined."""
    if not isinstance(leaf, str):
        return isinstance(leaf, torch.device)
    try:
        return bool(torch.device(leaf).type)
    except RuntimeError:
        return False


def placed(tree: Any, device: torch.device | None = None) -> Any:
    """Return the tree with tensors that have no history, moved to a device if one is named.

    A copy to a card need not be waited for; on a card that many processes share each wait takes a time slice of all.
    """

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        moved = leaf.detach().to(device or leaf.device, non_blocking=leaf.is_cpu)
        return moved.requires_grad_(leaf.requires_grad)

    return tree_map(place, tree)


def relocate(tensor: torch.Tensor, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Copy a tensor as a leaf; a view keeps its strides, its offset and the storage around it."""
    source = tensor.detach()
    whole = tensor.layout is torch.strided and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize
    full = whole and tensor.is_contiguous()  # an expanded row of a matrix is as large as the matrix
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg() or full:
        return source.to(device, dtype, non_blocking=tensor.is_cpu, copy=True).requires_grad_(tensor.requires_grad)
    length = tensor.untyped_storage().nbytes() // tensor.itemsize
    storage = source.as_strided((length,), (1,), 0).to(device, dtype, non_blocking=tensor.is_cpu, copy=True)
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).requires_grad_(
        tensor.requires_grad
    )


class Redraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Seeds the CPU anew right before each kernel that torch tags as drawing random numbers.

    Seeding before the operator is not enough: the database wraps its random operators in `manual_seed(42)`.
    """

    def __init__(self, start: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.start, self.kernel = start, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.kernel = self.kernel or str(func)
            torch.default_generator.manual_seed(self.start)
        return func(*args, **(kwargs or {}))


def random_kernel(op: OpInfo, sample: SampleInput, dtype: torch.dtype) -> str:
    """Return the first kernel of the sample that draws random numbers, else an empty string.

    It must both carry torch's tag and give the float64 reference other numbers from another seed: fused
    attention is tagged for its dropout, and would be excused where it has none.
    """
    first: dict[str, torch.Tensor] = {}
    for start in range(16):  # a coin falls the same way a few times in a row
        with (redraws := Redraws(start)):
            values = compute(op, sample, REFERENCE, dtype, backward=False, wide=True)
        values = {name: torch.nan_to_num(value) for name, value in values.items()}  # a NaN in both is no draw
        first = first or values
        if not redraws.kernel or not all(torch.equal(first[name], value) for name, value in values.items()):
            return redraws.kernel
    return ""


class Narrow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds what each float64 kernel returns to the dtype: the operator as composed of exact kernels in that dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.narrow = dtype.to_real()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not any(value.alias_info and not value.alias_info.is_write for value in func._schema.returns):  # views
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
                    part = torch.view_as_real(leaf) if leaf.dtype is torch.complex128 else leaf
                    if part.dtype is torch.float64:
                        part.copy_(part.to(self.narrow).to(part.dtype))
        return result

"""Shapes and layouts that break real devices, for the operators that every model is made of.

Vectorised kernels break at their tails, tiled ones next to a power of two, both on views that start at an odd address or step over
numbers, read or written. torch's operator database has few sizes, mostly even ones below ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from stackproof.operators.database import SampleInput, full_name
from stackproof.operators.written import in_place, into, larger_half, like, turned

SIZES = (1, 2, 3, 4, 7, 28, 30, 31, 32, 33, 127, 128, 129)
_FEW = (1, 3, 31, 33, 128)
"""Of operators that only move numbers, and of those that are tried in every size in another form."""
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

Make = Callable[[torch.dtype], Iterator["Sample"]]


def _same(output: Any) -> Any:
    return output


@dataclass
class Sample:
    """One call, in the form that the operator database gives its own."""

    input: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    output_process_fn_grad: Callable[[Any], Any] = _same


@dataclass(frozen=True)
class ShapedOp:
    """An operator with its own samples, to be examined as the database's are."""

    name: str
    op: Callable[..., Any]
    make: Make
    differentiable: bool = True
    variant_test_name: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator."""
        return self.op(*args, **kwargs)

    def supported_dtypes(self, _: str) -> tuple[torch.dtype, ...]:
        """Return the dtypes that it is examined in, on every type of device."""
        return DTYPES

    def supported_backward_dtypes(self, _: str) -> tuple[torch.dtype, ...]:
        """Return those with a backward."""
        return DTYPES if self.differentiable else ()

    def sample_inputs_func(self, _op: Any, _device: str, dtype: torch.dtype, _gradients: bool) -> Iterator[SampleInput]:
        """Yield the samples, drawn from the CPU's generator."""
        return self.make(dtype)


def _numbers(*shape: int, dtype: torch.dtype, positive: bool = False) -> torch.Tensor:
    """Draw numbers of order one; of both signs and away from zero, or positive."""
    drawn = torch.rand(shape, dtype=torch.float64) * 1.5 + 0.25
    signs = 1 if positive else torch.randint(0, 2, shape) * 2 - 1
    return (drawn * signs).to(dtype)


def layouts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the same numbers stored in every way that fits the number of dimensions."""
    yield tensor
    last = tensor.shape[-1]
    for part in (slice(last), slice(1, last + 1), slice(1, None, 2)):  # padded, from an odd address, with steps
        wide = torch.full((*tensor.shape[:-1], 2 * last + 1), 9.0, dtype=tensor.dtype)
        yield wide[..., part].copy_(tensor)
    if tensor.dim() > 1:
        yield tensor.transpose(0, -1).contiguous().transpose(0, -1)
        yield tensor[:1].expand(tensor.shape)
    if tensor.dim() == 4:
        yield tensor.contiguous(memory_format=torch.channels_last)


def _ready(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_()


def _vectors(dtype: torch.dtype, positive: bool = False, sizes: tuple[int, ...] = SIZES) -> Iterator[torch.Tensor]:
    """Yield 0-dim, empty, and every size as a vector, a row and a column, in every layout."""
    draw = partial(_numbers, dtype=dtype, positive=positive)
    yield from (draw(), draw(0), draw(0, 3), draw(3, 0))
    for shape in _shapes(sizes):
        yield from layouts(draw(*shape))


def _shapes(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for size in sizes:
        yield from ((size,), (3, size), (size, 2))


def _unary(dtype: torch.dtype, positive: bool = False, sizes: tuple[int, ...] = SIZES) -> Iterator[Sample]:
    return (Sample(_ready(tensor)) for tensor in _vectors(dtype, positive, sizes))


def _binary(dtype: torch.dtype) -> Iterator[Sample]:
    draw = partial(_numbers, dtype=dtype)
    for tensor in _vectors(dtype):
        yield Sample(_ready(tensor), (_ready(draw(*tensor.shape)),))
    for size in SIZES:  # broadcast from either side
        yield Sample(_ready(draw(size, 1)), (_ready(draw(3)),))
        yield Sample(_ready(draw(3)), (_ready(draw(2, size, 1)),))
        yield Sample(_ready(draw(size)), (_ready(draw()),))


def _along(
    dtype: torch.dtype, *, empty: bool = True, dims: tuple[Any, ...] = (0, -1), sizes: tuple[int, ...] = SIZES
) -> Iterator[Sample]:
    """Yield reductions and normalisations along the first and the last dimension."""
    for tensor in _vectors(dtype, sizes=sizes):
        if tensor.dim() and (empty or tensor.numel()):
            yield from (Sample(_ready(tensor), (dim,)) for dim in dims)


def _whole(dtype: torch.dtype) -> Iterator[Sample]:
    return (sample for sample in _unary(dtype) if sample.input.numel())


def _products(
    dtype: torch.dtype, head: bool = False, batch: int = 0, sizes: tuple[int, ...] = SIZES
) -> Iterator[Sample]:
    """Yield matrix products in which one of the three sizes varies, in every layout of the left matrix."""
    draw = partial(_numbers, dtype=dtype)
    more = (batch,) if batch else ()
    for rows, inner, columns in ((0, 3, 2), (3, 0, 2), *_one_varies(sizes)):
        for left in layouts(draw(*more, rows, inner)):
            right = draw(*more, columns, inner).transpose(-1, -2)  # a weight is used transposed
            matrices = (_ready(left), _ready(right))
            first, *rest = (_ready(draw(*more, rows, columns)), *matrices) if head else matrices
            yield Sample(first, tuple(rest))


def _one_varies(sizes: tuple[int, ...] = SIZES) -> Iterator[tuple[int, int, int]]:
    for size in sizes:
        yield from ((size, 5, 4), (3, size, 4), (3, 5, size))


def _linear(dtype: torch.dtype) -> Iterator[Sample]:
    draw = partial(_numbers, dtype=dtype)
    for rows, inner, columns in _one_varies():
        for given in layouts(draw(rows, inner)):
            yield Sample(_ready(given), (_ready(draw(columns, inner)), _ready(draw(columns))))


def _convolutions(dtype: torch.dtype, dims: int, transposed: bool = False) -> Iterator[Sample]:
    draw = partial(_numbers, dtype=dtype)
    for size in SIZES:
        for shape, out in (
            ((2, 3, *[4] * (dims - 1), size), 4),
            ((1, size, *[5] * dims), 3),
            ((1, 2, *[4] * dims), size),
        ):
            for given in layouts(draw(*shape)):
                if not _thin(given):
                    yield _convolution(given, out, transposed)


def _thin(tensor: torch.Tensor) -> bool:
    """Tell whether strides do not show if a tensor of images is channels-last, because some size is 1."""
    return tensor.dim() == 4 and 1 in tensor.shape and tensor.is_contiguous(memory_format=torch.channels_last)


def _convolution(given: torch.Tensor, out: int, transposed: bool) -> Sample:
    channels = (given.shape[1], out) if transposed else (out, given.shape[1])
    weight = _numbers(*channels, *[3] * (given.dim() - 2), dtype=given.dtype)
    bias = _numbers(out, dtype=given.dtype)
    return Sample(_ready(given), (_ready(weight), _ready(bias)), {"padding": 1, "stride": 2})


def _thin_convolutions(dtype: torch.dtype, transposed: bool = False) -> Iterator[Sample]:
    """Yield images of width, height or both 1 in channels-last, whose layout cannot be told from their strides.

    Backends that guess it write a part of the weight's gradient (https://github.com/intel/torch-xpu-ops/issues/4756, and oneDNN in
    bfloat16 on CPUs); what the rest holds is chance, so the same is asked several times.
    """
    for repetition in range(24):
        for shape in ((2, 3, 4, 1), (2, 3, 1, 4), (2, 3 + repetition % 8, 1, 1)):
            image = _numbers(*shape, dtype=dtype).contiguous(memory_format=torch.channels_last)
            yield _convolution(image, 4, transposed)


def _images(dtype: torch.dtype, *args: Any, **kwargs: Any) -> Iterator[Sample]:
    draw = partial(_numbers, dtype=dtype)
    for size in SIZES:
        for shape in ((2, 3, 5, size), (1, size, 4, 6), (1, 2, size, 4)):
            yield from (Sample(_ready(given), args, kwargs) for given in layouts(draw(*shape)))


def _layer_norms(dtype: torch.dtype) -> Iterator[Sample]:
    draw = partial(_numbers, dtype=dtype)
    for size in SIZES[2:]:  # one number normalised is 0 and two are 1 and -1, whatever they were: no gradient is left
        for given in layouts(draw(3, size)):
            yield Sample(_ready(given), ((size,), _ready(draw(size)), _ready(draw(size))))


def _channel_norms(dtype: torch.dtype, groups: bool) -> Iterator[Sample]:
    draw = partial(_numbers, dtype=dtype)
    for size in SIZES:
        for given in layouts(draw(2, 4, 3, size)):
            scale = {"weight": _ready(draw(4)), "bias": _ready(draw(4))}
            yield (
                Sample(_ready(given), (2,), scale)
                if groups
                else Sample(_ready(given), (None, None), {**scale, "training": True})
            )


def _picked(dtype: torch.dtype, form: str) -> Iterator[Sample]:
    """Yield indexing along the last dimension: indices out of order, and with repetitions."""
    for tensor in _vectors(dtype):
        if tensor.dim() and tensor.shape[-1]:
            index = torch.randint(0, tensor.shape[-1], (tensor.shape[-1] + 1,))
            short = index[:-1]
            full, source = short.expand(tensor.shape), _numbers(*tensor.shape, dtype=dtype)
            given = {
                "index": (-1, index),
                "full": (-1, full),
                "add": (-1, full, _ready(source)),
                "index add": (-1, short, _ready(source)),
                "mask": (source > 0,),
            }
            yield Sample(_ready(tensor), given[form])


def _embedded(dtype: torch.dtype) -> Iterator[Sample]:
    for size in SIZES:
        for weight in layouts(_numbers(size, size, dtype=dtype)):
            yield Sample(torch.randint(0, size, (2, 5)), (_ready(weight),))


def _joined(dtype: torch.dtype) -> Iterator[Sample]:
    for tensor in _vectors(dtype):
        if tensor.dim():
            others = (_ready(_numbers(*tensor.shape, dtype=dtype)) for _ in range(2))
            yield Sample([_ready(tensor), *others], (-1,))


def _with_others(dtype: torch.dtype, count: int) -> Iterator[Sample]:
    """Yield every layout with so many others of its shape."""
    for tensor in _vectors(dtype, sizes=_FEW):
        yield Sample(_ready(tensor), tuple(_ready(_numbers(*tensor.shape, dtype=dtype)) for _ in range(count)))


def _masked(dtype: torch.dtype, fill: Any = None) -> Iterator[Sample]:
    """Yield a mask in every layout, with what stands where it holds: a number, or numbers of the same shape."""
    for shape in _shapes(_FEW):
        drawn = _numbers(*shape, dtype=dtype)
        masks, tensors = ([*layouts(_numbers(*shape, dtype=dtype) > 0)], [*layouts(drawn)])
        for mask, tensor in (*((mask, drawn) for mask in masks), *((masks[0], tensor) for tensor in tensors)):
            yield Sample(_ready(tensor), (mask, _ready(_numbers(*shape, dtype=dtype)) if fill is None else fill))


def _with_zeros(dtype: torch.dtype) -> Iterator[Sample]:
    for tensor in _vectors(dtype, sizes=_FEW):
        yield Sample(like(tensor).copy_(tensor.clamp(min=0)))


def _matrices(dtype: torch.dtype, *choices: tuple[Any, ...]) -> Iterator[Sample]:
    return (Sample(_ready(one), more) for one in _vectors(dtype, sizes=_FEW) if one.dim() == 2 for more in choices)


def _triangles(dtype: torch.dtype) -> Iterator[Sample]:
    return _matrices(dtype, (0,), (1,), (-1,))


def _permuted(dtype: torch.dtype, flat: bool = False) -> Iterator[Sample]:
    """Yield places along the last dimension, or of all numbers, each of them once and in another order."""
    for tensor in _vectors(dtype, sizes=_FEW):
        if tensor.dim() and tensor.numel():
            if flat:
                yield Sample(_ready(tensor), (torch.randperm(tensor.numel()),))
            else:
                source = _ready(_numbers(*tensor.shape, dtype=dtype))
                yield Sample(_ready(tensor), (-1, torch.randperm(tensor.shape[-1]), source))


_F = torch.nn.functional
_UNARY = ("exp", "tanh", "sigmoid", "sin", "neg", "abs", "relu", "square", "reciprocal", "erf", "clone")
_POSITIVE = ("sqrt", "rsqrt", "log", "log1p")
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "atan2")
_REDUCTIONS = ("sum", "mean", "var", "logsumexp", "cumsum", "prod")
_CHOICES = ("amax", "argmax", "argmin", "sort")
_IN_PLACE = ("exp_", "tanh_", "sigmoid_", "neg_", "relu_", "square_")
_IN_PLACE_OF_TWO = ("add_", "sub_", "mul_", "div_")

_UNARY_FEW, _ALONG_FEW = partial(_unary, sizes=_FEW), partial(_along, empty=False, sizes=_FEW)
_POOL: dict[str, Any] = {"kernel_size": 2, "padding": 1}


def _table() -> Iterator[ShapedOp]:
    yield from (ShapedOp(name, getattr(torch, name), _unary) for name in _UNARY)
    yield from (ShapedOp(name, getattr(torch, name), partial(_unary, positive=True)) for name in _POSITIVE)
    yield from (ShapedOp(name, getattr(torch, name), _binary) for name in _BINARY)
    yield from (ShapedOp(name, getattr(torch, name), partial(_along, empty=name != "var")) for name in _REDUCTIONS)
    yield from (ShapedOp(name, getattr(torch, name), partial(_along, empty=False)) for name in _CHOICES)
    for name in ("gelu", "silu", "leaky_relu", "softplus"):
        yield ShapedOp(f"nn.functional.{name}", getattr(_F, name), _unary)
    yield from (ShapedOp(f"nn.functional.{name}", getattr(_F, name), _along) for name in ("softmax", "log_softmax"))
    yield ShapedOp("nn.functional.layer_norm", _F.layer_norm, _layer_norms)
    yield ShapedOp("nn.functional.group_norm", _F.group_norm, partial(_channel_norms, groups=True))
    yield ShapedOp("nn.functional.batch_norm", _F.batch_norm, partial(_channel_norms, groups=False))
    yield ShapedOp("mm", torch.mm, _products)
    yield ShapedOp("bmm", torch.bmm, partial(_products, batch=3))
    yield ShapedOp("addmm", torch.addmm, partial(_products, head=True))
    yield ShapedOp("baddbmm", torch.baddbmm, partial(_products, head=True, batch=2))
    yield ShapedOp("nn.functional.linear", _F.linear, _linear)
    yield ShapedOp("nn.functional.conv1d", _F.conv1d, partial(_convolutions, dims=1))
    yield ShapedOp("nn.functional.conv2d", _F.conv2d, partial(_convolutions, dims=2))
    yield ShapedOp(
        "nn.functional.conv_transpose2d", _F.conv_transpose2d, partial(_convolutions, dims=2, transposed=True)
    )
    for name in ("conv2d", "conv_transpose2d"):
        make = partial(_thin_convolutions, transposed=name == "conv_transpose2d")
        yield ShapedOp(f"nn.functional.{name}", getattr(_F, name), make, variant_test_name="thin")
    yield ShapedOp("nn.functional.max_pool2d", _F.max_pool2d, partial(_images, **_POOL))
    yield ShapedOp("nn.functional.avg_pool2d", _F.avg_pool2d, partial(_images, **_POOL))
    yield ShapedOp("nn.functional.adaptive_avg_pool2d", _F.adaptive_avg_pool2d, lambda dtype: _images(dtype, 3))
    yield ShapedOp("nn.functional.interpolate", _F.interpolate, partial(_images, scale_factor=2, mode="nearest"))
    yield ShapedOp("nn.functional.pad", _F.pad, lambda dtype: _images(dtype, (1, 2, 0, 1)))
    yield ShapedOp("nn.functional.embedding", _F.embedding, _embedded)
    yield ShapedOp("index_select", torch.index_select, partial(_picked, form="index"))
    yield ShapedOp("gather", torch.gather, partial(_picked, form="full"))
    yield ShapedOp("scatter_add", torch.scatter_add, partial(_picked, form="add"))
    yield ShapedOp("index_add", torch.index_add, partial(_picked, form="index add"))
    yield ShapedOp("masked_select", torch.masked_select, partial(_picked, form="mask"))
    yield ShapedOp("cat", torch.cat, _joined)
    yield ShapedOp("flip", torch.flip, partial(_along, dims=((0,), (-1,))))
    yield ShapedOp("linalg.vector_norm", torch.linalg.vector_norm, _whole)
    yield from _chosen()
    yield from _writing()


def _chosen() -> Iterator[ShapedOp]:
    """Yield what moves or chooses numbers."""
    yield ShapedOp("cumprod", torch.cumprod, _ALONG_FEW)
    yield ShapedOp("topk", larger_half(torch.topk), _ALONG_FEW, differentiable=False)
    yield ShapedOp("kthvalue", larger_half(torch.kthvalue), _ALONG_FEW, differentiable=False)
    yield ShapedOp("roll", torch.roll, lambda dtype: _matrices(dtype, (1, 1), ((1, 2), (0, 1))))
    yield ShapedOp("tril", torch.tril, _triangles)
    yield ShapedOp("triu", torch.triu, _triangles)
    yield ShapedOp("trace", torch.trace, lambda dtype: _matrices(dtype, ()))
    yield ShapedOp("where", lambda tensor, mask, other: torch.where(mask, tensor, other), _masked)
    yield ShapedOp("masked_fill", torch.masked_fill, partial(_masked, fill=0.5))
    yield ShapedOp("masked_scatter", torch.masked_scatter, _masked)
    yield ShapedOp("nonzero", torch.nonzero, _with_zeros, differentiable=False)
    yield ShapedOp("take", torch.take, partial(_permuted, flat=True))
    yield ShapedOp("index_copy", torch.index_copy, _permuted)
    yield ShapedOp("lerp", torch.lerp, partial(_with_others, count=2))
    yield ShapedOp("addcmul", torch.addcmul, partial(_with_others, count=2))


def _writing() -> Iterator[ShapedOp]:
    """Yield what writes into views: in place, and into what is given."""
    yield from (ShapedOp(name, in_place(name), _UNARY_FEW) for name in _IN_PLACE)
    yield from (ShapedOp(name, in_place(name), partial(_with_others, count=1)) for name in _IN_PLACE_OF_TWO)
    yield ShapedOp("fill_", lambda tensor: like(tensor).fill_(0.5), _UNARY_FEW, differentiable=False)
    yield ShapedOp("masked_fill_", in_place("masked_fill_"), partial(_masked, fill=0.5))
    yield ShapedOp("masked_scatter_", in_place("masked_scatter_"), _masked)
    yield ShapedOp("index_copy_", in_place("index_copy_"), _permuted)
    yield ShapedOp("cumsum_", in_place("cumsum_"), _ALONG_FEW)
    out = partial(ShapedOp, differentiable=False, variant_test_name="out")
    yield from (out(name, into(getattr(torch, name)), _UNARY_FEW) for name in ("exp", "sigmoid"))
    yield out("add", into(torch.add), partial(_with_others, count=1))
    yield out("addcmul", into(torch.addcmul), partial(_with_others, count=2))
    yield out("cumsum", into(torch.cumsum), _ALONG_FEW)
    yield out("triu", into(torch.triu), _triangles)
    yield out("mm", into(torch.mm, turned), partial(_products, sizes=_FEW))
    yield out("bmm", into(torch.bmm, turned), partial(_products, batch=3, sizes=_FEW))


def operators() -> dict[str, ShapedOp]:
    """Return the operators by the names that the database gives them, or by name and variant."""
    return {full_name(op): op for op in _table()}

"""As it is defined: a function of torch.nn against torch's own reference for it, in float64, which shares no kernel with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from stackproof.operators.points import OperatorPoint
from stackproof.operators.relation import Relation, UnusableError

WHAT = "as it is defined"
DTYPES = (torch.float32, torch.float64)


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if eps is None:
        raise UnusableError("takes what its dtype rounds by")
    result = x / (x.square().mean(tuple(range(-len(shape), 0)), keepdim=True) + eps).sqrt()
    return result if weight is None else result * weight


def attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """As in https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html, without dropout.

    Raises:
        UnusableError: it would drop numbers at random.
    """
    if dropout_p:
        raise UnusableError("is random")
    if enable_gqa:
        k, v = (tensor.repeat_interleave(q.shape[-3] // tensor.shape[-3], -3) for tensor in (k, v))
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    mask = torch.ones(scores.shape[-2:], device=q.device).tril() > 0 if is_causal else attn_mask
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    return scores.softmax(-1) @ v


def _bag(
    weight: Any,
    indices: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    padding_idx: Any = None,
    per_sample_weights: Any = None,
    **more: Any,
) -> Any:
    if more.get("max_norm") is not None or more.get("include_last_offset") or mode == "max":
        raise UnusableError("has another definition")
    if offsets is not None:
        places = torch.bucketize(torch.arange(len(indices), device=indices.device), offsets, right=True) - 1
        count = len(offsets)
    else:
        count, length = indices.shape
        places = torch.arange(count, device=indices.device).repeat_interleave(length)
    index = indices.reshape(-1)
    shares = weight.new_ones(len(index)) if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding_idx is not None:
        shares = shares * (index != padding_idx % len(weight))
    total = (places == torch.arange(count, device=indices.device)[:, None]).to(weight.dtype) * shares
    return total @ weight[index] / (total.sum(1, keepdim=True).clamp(min=1) if mode == "mean" else 1)


def _convolved(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Correlate (N, C, ...) with (K, C / groups, ...), which is what deep learning calls a convolution."""
    sides = weight.dim() - 2
    steps, gaps = (
        [size] * sides if isinstance(size, int) else list(size) * (sides // len(size)) for size in (stride, dilation)
    )
    reach = [gap * (size - 1) for gap, size in zip(gaps, weight.shape[2:], strict=True)]
    if padding in ("same", "valid"):
        edges = [(span // 2, span - span // 2) if padding == "same" else (0, 0) for span in reach]
    else:
        edges = [(edge, edge) for edge in ([padding] * sides if isinstance(padding, int) else padding)]
    whole = x if x.dim() == weight.dim() else x[None]
    whole = torch.nn.functional.pad(whole, [edge for pair in reversed(edges) for edge in pair])
    for dim, (step, gap, span) in enumerate(zip(steps, gaps, reach, strict=True), 2):
        whole = whole.unfold(dim, span + 1, step)[..., ::gap]
    parts = zip(whole.chunk(groups, 1), weight.chunk(groups, 0), strict=True)
    axes = [1, *range(sides + 2, 2 * sides + 2)]
    result = torch.cat([torch.tensordot(part, kernel, (axes, [*range(1, sides + 2)])) for part, kernel in parts], -1)
    result = (result if bias is None else result + bias).movedim(-1, 1)
    return result if x.dim() == weight.dim() else result[0]


_WRITTEN: Mapping[str, Callable[..., Any]] = {
    "nn.functional.linear": lambda x, weight, bias=None: x @ weight.mT + (0 if bias is None else bias),
    **{f"nn.functional.conv{sides}d": _convolved for sides in (1, 2, 3)},
    "nn.functional.rms_norm": _rms_norm,
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.embedding_bag": _bag,
}
"""Where torch has none."""
_OPTIONS: Mapping[str, dict[str, Any]] = {
    "nn.functional.scaled_dot_product_attention": {"scale": 0.3},
    "nn.functional.layer_norm": {"eps": 0.5},
}
"""That no sample of the database has, or has at a size that shows."""


def definition(name: str) -> Callable[..., Any] | None:
    """Return an operator's reference, which runs in the dtype that it is given."""
    reference = torch._refs
    for part in name.split("."):
        reference = getattr(reference, part, None)  # type: ignore[assignment]
    own = _WRITTEN.get(name)
    return own or (reference if callable(reference) else None)


def suits(name: str, op: Any) -> bool:
    """Whether an operator of torch's database is a plain function of torch.nn.functional that has a reference."""
    import torch._refs.nn.functional  # noqa: F401 - takes a second, and only listing needs it

    return name.startswith("nn.functional.") and not op.variant_test_name and definition(name) is not None


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield drawn samples, with the options that they come with."""
    reference = definition(point.name)
    assert reference is not None
    code = f"# second: torch._refs.{point.name} or its definition, in float64\nfirst = second = operator(*arguments, **options)"
    extra = _OPTIONS.get(point.name, {})
    for sample in point.samples(24):
        for options in ({}, extra) if extra else ({},):
            inputs, named = (sample.input, *sample.args), {**sample.kwargs, **options}
            says = "as defined, in float64"
            yield Relation(says, inputs, named, point.op, reference, code, ulps=512.0, widened=True)

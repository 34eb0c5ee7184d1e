"""Normalisations, activations, tables and attention by their definitions, in NumPy: named and called as those of torch.nn.functional.

A definition that also changes what it was given (running statistics) returns a mapping, with what each is afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stackproof.operators import forms
from stackproof.operators.forms import Floats


def _shaped(values: Any, dims: int) -> Any:
    """Return a number for each channel so that it meets (N, C, ...)."""
    return values if values is None else values.reshape(1, -1, *[1] * (dims - 2))


def _scaled(values: Floats, weight: Any, bias: Any) -> Floats:
    found = values if weight is None else values * _shaped(weight, values.ndim)
    return found if bias is None else found + _shaped(bias, values.ndim)


def _ran(mean: Floats, variance: Floats, seen: Floats, spread: Floats, share: float) -> Mapping[str, Floats]:
    """Return the running statistics after a batch whose mean and unbiased variance were seen; `share` of them is taken."""
    return {
        "running_mean": (1 - share) * mean + share * seen,
        "running_var": (1 - share) * variance + share * spread,
    }


def batch_norm(
    given: Floats,
    running_mean: Floats,
    running_var: Floats,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Mapping[str, Floats]:
    """By the batch's biased variance, and the running one takes the unbiased; or by what ran so far (Ioffe and Szegedy, 2015)."""
    axes, count = (0, *range(2, given.ndim)), given.size // given.shape[1]
    mean, spread = (given.mean(axes), given.var(axes)) if training else (running_mean, running_var)
    normal = (given - _shaped(mean, given.ndim)) / np.sqrt(_shaped(spread, given.ndim) + eps)
    ran = _ran(running_mean, running_var, mean, spread * count / (count - 1), momentum if training else 0.0)
    return {"output": _scaled(normal, weight, bias), **ran}


def instance_norm(
    given: Floats,
    running_mean: Floats,
    running_var: Floats,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Mapping[str, Floats]:
    """Each picture by itself; the running statistics take the mean over the pictures (Ulyanov et al., 2016)."""
    axes = tuple(range(2, given.ndim))
    count = math.prod(given.shape[2:])
    own = (given.mean(axes, keepdims=True), given.var(axes, keepdims=True))
    mean, spread = own if use_input_stats else (_shaped(running_mean, given.ndim), _shaped(running_var, given.ndim))
    seen = [one.mean(0).reshape(-1) for one in own]
    share = momentum if use_input_stats else 0.0
    ran = _ran(running_mean, running_var, seen[0], seen[1] * count / (count - 1), share)
    return {"output": _scaled((given - mean) / np.sqrt(spread + eps), weight, bias), **ran}


def group_norm(given: Floats, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Floats:
    """By the mean and the variance of groups of channels of one picture (Wu and He, 2018)."""
    parts = given.reshape(len(given), num_groups, -1)
    normal = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + eps)
    return _scaled(normal.reshape(given.shape), weight, bias)


def layer_norm(
    given: Floats, normalized_shape: tuple[int, ...], weight: Any = 1.0, bias: Any = 0.0, eps: float = 1e-5
) -> Floats:
    """By the mean and the variance of the last dimensions."""
    return forms.layer_norm(given, weight, bias, eps, tuple(range(-len(normalized_shape), 0)))


def rms_norm(given: Floats, normalized_shape: tuple[int, ...], weight: Any = 1.0, eps: float = 1e-5) -> Floats:
    """By the root mean square of the last dimensions."""
    return forms.rms_norm(given, weight, eps, tuple(range(-len(normalized_shape), 0)))


def local_response_norm(given: Floats, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Floats:
    """By the squares of neighbouring channels (Krizhevsky et al., 2012)."""
    around = ((0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (given.ndim - 2))
    squares = np.pad(given**2, around)
    near = sum(squares[:, at : at + given.shape[1]] for at in range(size))
    found: Floats = given / (k + alpha / size * np.asarray(near)) ** beta
    return found


def normalize(given: Floats, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Floats:
    """By the p-norm along a dimension."""
    found: Floats = given / np.maximum((np.abs(given) ** p).sum(dim, keepdims=True) ** (1 / p), eps)
    return found


def cosine_similarity(x1: Floats, x2: Floats, dim: int = 1, eps: float = 1e-8) -> Floats:
    """The cosine of the angle between vectors along a dimension."""
    sizes = [np.maximum(np.sqrt((one**2).sum(dim)), eps) for one in (x1, x2)]
    return np.asarray((x1 * x2).sum(dim) / (sizes[0] * sizes[1]))


def pairwise_distance(x1: Floats, x2: Floats, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Floats:
    """The p-norm of the difference, to which eps is added."""
    found: Floats = (np.abs(x1 - x2 + eps) ** p).sum(-1, keepdims=keepdim) ** (1 / p)
    return found


def pdist(given: Floats, p: float = 2.0) -> Floats:
    """The p-norm of the difference of each row and each one after it."""
    first, second = np.triu_indices(len(given), 1)
    found: Floats = (np.abs(given[first] - given[second]) ** p).sum(-1) ** (1 / p)
    return found


def one_hot(given: Any, num_classes: int = -1) -> Floats:
    """One at each label's place, and zeros."""
    return np.asarray(given[..., None] == np.arange(num_classes), dtype=np.float64)


def linear(given: Floats, weight: Floats, bias: Any = 0.0) -> Floats:
    """X w' + b."""
    return np.asarray(given @ weight.T + bias)


def bilinear(input1: Floats, input2: Floats, weight: Floats, bias: Any = 0.0) -> Floats:
    """X W y + b for each matrix W."""
    return np.asarray(np.einsum("ni,kij,nj->nk", input1, weight, input2) + bias)


def embedding(given: Any, weight: Floats, max_norm: float | None = None, norm_type: float = 2.0, **_: Any) -> Any:
    """Rows of a table; those that are asked for and longer than `max_norm` are made as long first, in the table."""
    if max_norm is None:
        return np.asarray(weight[given])
    lengths = (np.abs(weight) ** norm_type).sum(1, keepdims=True) ** (1 / norm_type)
    asked = np.isin(np.arange(len(weight)), given)[:, None]
    weight = np.where(asked & (lengths > max_norm), weight * max_norm / (lengths + 1e-7), weight)
    return {"output": weight[given], "weight": weight}


def embedding_bag(
    given: Any, weight: Floats, mode: str = "mean", per_sample_weights: Any = None, padding_idx: Any = None
) -> Floats:
    """The sum, mean or largest of rows of a table, without those of the padding."""
    rows, counted = weight[given], (given != (-1 if padding_idx is None else padding_idx))[..., None]
    if mode == "max":
        return np.asarray(np.where(counted, rows, -np.inf).max(1))
    shares = 1.0 if per_sample_weights is None else per_sample_weights[..., None]
    total = (rows * counted * shares).sum(1)
    return np.asarray(total / counted.sum(1) if mode == "mean" else total)


def scaled_dot_product_attention(
    query: Floats,
    key: Floats,
    value: Floats,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Floats:
    """Softmax(q k' scale + mask) v; with `enable_gqa` neighbouring heads share keys and values."""
    if enable_gqa:
        key, value = (one.repeat(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
    scores = query @ key.swapaxes(-1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return np.asarray(softmax(scores, -1) @ value)


def softmax(given: Floats, dim: int) -> Floats:
    """e^x by its sum."""
    powers = np.exp(given - given.max(dim, keepdims=True))
    found: Floats = powers / powers.sum(dim, keepdims=True)
    return found


def _sloped(x: Floats, below: Any) -> Floats:
    return np.asarray(np.where(x > 0, x, below))


def _softplus(given: Floats, beta: float = 1.0, threshold: float = 20.0) -> Floats:
    return np.asarray(np.where(given * beta > threshold, given, np.logaddexp(0, given * beta) / beta))


def _same(given: Floats, **_: Any) -> Floats:
    return given


def _gated(given: Floats, dim: int = -1) -> Floats:
    first, second = np.split(given, 2, dim)
    return np.asarray(first / (1 + np.exp(-second)))


def _gelu(given: Floats, approximate: str = "none") -> Floats:
    if approximate == "none":
        return np.asarray(given * (1 + _TAILS(given / math.sqrt(2))) / 2)
    return np.asarray(given * (1 + np.tanh(math.sqrt(2 / math.pi) * (given + 0.044715 * given**3))) / 2)


_TAILS = np.vectorize(math.erf)
_ALPHA, _SCALE = 1.6732632423543772848, 1.0507009873554804934  # Klambauer et al., 2017

ACTIVATIONS: Mapping[str, Callable[..., Any]] = {
    "relu": lambda given: np.maximum(given, 0.0),
    "relu6": lambda given: np.clip(given, 0.0, 6.0),
    "sigmoid": lambda given: 1 / (1 + np.exp(-given)),
    "tanh": lambda given: np.tanh(given),  # numpy's own has no names for its arguments
    "elu": lambda given, alpha=1.0: _sloped(given, alpha * np.expm1(given)),
    "celu": lambda given, alpha=1.0: _sloped(given, alpha * np.expm1(given / alpha)),
    "selu": lambda given: _SCALE * _sloped(given, _ALPHA * np.expm1(given)),
    "leaky_relu": lambda given, negative_slope=0.01: _sloped(given, negative_slope * given),
    "rrelu": lambda given, lower=1 / 8, upper=1 / 3: _sloped(given, (lower + upper) / 2 * given),
    "prelu": lambda given, weight: _sloped(given, _shaped(weight, given.ndim) * given),
    "hardshrink": lambda given, lambd=0.5: np.where(np.abs(given) > lambd, given, 0.0),
    "softshrink": lambda given, lambd=0.5: np.sign(given) * np.maximum(np.abs(given) - lambd, 0.0),
    "hardtanh": lambda given, min_val=-1.0, max_val=1.0: np.clip(given, min_val, max_val),
    "hardsigmoid": lambda given: np.clip(given / 6 + 0.5, 0, 1),
    "hardswish": lambda given: given * np.clip(given / 6 + 0.5, 0, 1),
    "threshold": lambda given, threshold, value: np.where(given > threshold, given, value),
    "tanhshrink": lambda given: given - np.tanh(given),
    "softplus": _softplus,
    "softsign": lambda given: given / (1 + np.abs(given)),
    "logsigmoid": lambda given: -_softplus(-given),
    "mish": lambda given: given * np.tanh(_softplus(given)),
    "silu": lambda given: forms.silu(given),
    "gelu": _gelu,
    "glu": _gated,
    "softmax": softmax,
    "log_softmax": lambda given, dim: np.log(softmax(given, dim)),
    "softmin": lambda given, dim: softmax(-given, dim),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_alpha_dropout"), _same),
}

LAYERS: Mapping[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        batch_norm, instance_norm, group_norm, layer_norm, rms_norm, local_response_norm, normalize, cosine_similarity,
        pairwise_distance, pdist, one_hot, linear, bilinear, embedding, embedding_bag, scaled_dot_product_attention,
    )
}  # fmt: skip

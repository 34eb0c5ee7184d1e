"""Losses by their definitions, in NumPy: named and called as those of torch.nn.functional, for the table `data/forms.toml`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stackproof.operators.forms import Floats


def _reduced(values: Floats, reduction: str, count: float | None = None) -> Floats:
    """Return each, their sum, or their sum by their number (or by a sum of weights)."""
    if reduction == "none":
        return values
    total = values.sum()
    return np.asarray(total if reduction == "sum" else total / (values.size if count is None else count))


def _logs(scores: Floats) -> Floats:
    """Return log softmax over the classes, the second dimension."""
    shifted = scores - scores.max(1, keepdims=True)
    found: Floats = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return found


def _positive(values: Floats) -> Floats:
    return np.maximum(values, 0.0)


def nll_loss(
    given: Floats, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Floats:
    """Minus the number at each label, times its class's weight; the mean is over the weights of labels that count."""
    weights = np.ones(given.shape[1]) if weight is None else weight
    counted = target != ignore_index
    labels = np.where(counted, target, 0)
    share = weights[labels] * counted
    picked = np.take_along_axis(given, labels[:, None], 1)[:, 0]
    return _reduced(-picked * share, reduction, share.sum())


def cross_entropy(
    given: Floats,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Floats:
    """Minus log softmax at labels, or weighed by shares; smoothing spreads a part over all classes (Szegedy et al., 2016)."""
    logs, classes = _logs(given), given.shape[1]
    weights = np.ones(classes) if weight is None else weight
    shaped = weights.reshape(-1, *[1] * (given.ndim - 2))
    if target.dtype.kind == "f":
        shares = target * (1 - label_smoothing) + label_smoothing / classes
        return _reduced(-(shares * logs * shaped).sum(1), reduction, given.size / classes)
    counted = target != ignore_index
    total = (weights[np.where(counted, target, 0)] * counted).sum()
    hard = nll_loss(logs, target, weights, ignore_index, "none")
    smooth = -(logs * shaped).sum(1) * counted
    return _reduced((1 - label_smoothing) * hard + label_smoothing / classes * smooth, reduction, total)


def binary_cross_entropy(given: Floats, target: Floats, weight: Any = 1.0, reduction: str = "mean") -> Floats:
    """-(t log x + (1 - t) log(1 - x))."""
    return _reduced(-(target * np.log(given) + (1 - target) * np.log1p(-given)) * weight, reduction)


def binary_cross_entropy_with_logits(
    given: Floats, target: Floats, weight: Any = 1.0, reduction: str = "mean", pos_weight: Any = 1.0
) -> Floats:
    """The same of sigmoid(x), where the first term counts `pos_weight` times."""
    rising, falling = np.logaddexp(0, -given), np.logaddexp(0, given)
    return _reduced((pos_weight * target * rising + (1 - target) * falling) * weight, reduction)


def mse_loss(given: Floats, target: Floats, reduction: str = "mean", weight: Any = 1.0) -> Floats:
    """(x - t)^2."""
    return _reduced((given - target) ** 2 * weight, reduction)


def l1_loss(given: Floats, target: Floats, reduction: str = "mean", weight: Any = 1.0) -> Floats:
    """|x - t|."""
    return _reduced(np.abs(given - target) * weight, reduction)


def huber_loss(given: Floats, target: Floats, reduction: str = "mean", delta: float = 1.0) -> Floats:
    """A parabola up to delta and a line beyond it (Huber, 1964)."""
    off = np.abs(given - target)
    return _reduced(np.where(off < delta, off**2 / 2, delta * (off - delta / 2)), reduction)


def smooth_l1_loss(given: Floats, target: Floats, reduction: str = "mean", beta: float = 1.0) -> Floats:
    """Huber's loss by beta."""
    return huber_loss(given, target, reduction, beta) / beta


def kl_div(given: Floats, target: Floats, reduction: str = "mean", log_target: bool = False) -> Floats:
    """T (log t - x); `batchmean` is the sum by the number of rows."""
    values = np.exp(target) * (target - given) if log_target else target * (np.log(target) - given)
    return _reduced(values, "sum") / len(given) if reduction == "batchmean" else _reduced(values, reduction)


def poisson_nll_loss(
    given: Floats,
    target: Floats,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Floats:
    """e^x - t x, or x - t log x; `full` adds Stirling's terms where t is above 1."""
    values = np.exp(given) - target * given if log_input else given - target * np.log(given + eps)
    stirling = target * np.log(target) - target + np.log(2 * math.pi * target) / 2
    return _reduced(values + np.where(full & (target > 1), stirling, 0.0), reduction)


def gaussian_nll_loss(
    given: Floats, target: Floats, var: Floats, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Floats:
    """(log v + (x - t)^2 / v) / 2; `full` adds half the logarithm of 2 pi."""
    spread = np.maximum(var, eps)
    values = (np.log(spread) + (given - target) ** 2 / spread) / 2
    return _reduced(values + full * math.log(2 * math.pi) / 2, reduction)


def hinge_embedding_loss(given: Floats, target: Floats, margin: float = 1.0, reduction: str = "mean") -> Floats:
    """A distance where the label is 1, and what it lacks of the margin where it is -1."""
    return _reduced(np.where(target > 0, given, _positive(margin - given)), reduction)


def margin_ranking_loss(
    input1: Floats, input2: Floats, target: Floats, margin: float = 0.0, reduction: str = "mean"
) -> Floats:
    """max(0, -t (x - y) + margin)."""
    return _reduced(_positive(-target * (input1 - input2) + margin), reduction)


def cosine_embedding_loss(
    input1: Floats, input2: Floats, target: Floats, margin: float = 0.0, reduction: str = "mean"
) -> Floats:
    """1 - cos where the label is 1, max(0, cos - margin) where it is -1."""
    cosine = (input1 * input2).sum(1) / np.sqrt((input1**2).sum(1) * (input2**2).sum(1))
    return _reduced(np.where(target > 0, 1 - cosine, _positive(cosine - margin)), reduction)


def triplet_margin_loss(
    anchor: Floats,
    positive: Floats,
    negative: Floats,
    margin: float = 1.0,
    p: float = 2.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Floats:
    """max(0, d(a, p) - d(a, n) + margin); `swap` takes the nearer of d(a, n) and d(p, n)."""

    def distance(one: Floats, other: Floats) -> Floats:
        found: Floats = (np.abs(one - other + 1e-6) ** p).sum(-1) ** (1 / p)
        return found

    far = distance(anchor, negative)
    far = np.minimum(far, distance(positive, negative)) if swap else far
    return _reduced(_positive(distance(anchor, positive) - far + margin), reduction)


def multi_margin_loss(
    given: Floats, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Floats:
    """What each class comes nearer than the margin to the label's, to the power p, as a mean over the classes."""
    rows = np.arange(len(given))
    short = _positive(margin - given[rows, target][:, None] + given) ** p
    short[rows, target] = 0
    share = np.ones(len(given)) if weight is None else weight[target]
    return _reduced(short.sum(1) * share / given.shape[1], reduction)


def multilabel_margin_loss(given: Floats, target: Any, reduction: str = "mean") -> Floats:
    """What each class that is no label comes nearer than 1 to each label's, as a mean over the classes."""
    others = ~(target[:, :, None] == np.arange(given.shape[1])).any(1)
    named = np.take_along_axis(given, target, 1)
    short = _positive(1 - named[:, :, None] + given[:, None]) * others[:, None]
    return _reduced(short.sum((1, 2)) / given.shape[1], reduction)


def soft_margin_loss(given: Floats, target: Floats, reduction: str = "mean") -> Floats:
    """log(1 + e^(-t x))."""
    return _reduced(np.logaddexp(0, -target * given), reduction)


def multilabel_soft_margin_loss(given: Floats, target: Floats, weight: Any = 1.0, reduction: str = "mean") -> Floats:
    """Binary cross entropy of scores, as a mean over the classes."""
    return _reduced((binary_cross_entropy_with_logits(given, target, weight, "none")).mean(-1), reduction)


def ctc_loss(
    log_probs: Floats,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
) -> Floats:
    """Minus log of the probability of all alignments with blanks, (time, batch, classes) (Graves et al., 2006)."""
    found = [
        -_aligned(log_probs[: int(times), row], targets[row, : int(length)], blank)
        for row, (times, length) in enumerate(zip(input_lengths, target_lengths, strict=True))
    ]
    each = np.array(found)
    return np.asarray((each / target_lengths).mean()) if reduction == "mean" else _reduced(each, reduction)


def _aligned(logs: Floats, labels: Any, blank: int) -> float:
    path = [blank]
    for label in labels.tolist():
        path += [label, blank]
    ways = np.full(len(path), -np.inf)
    ways[:2] = logs[0, path[:2]]
    for now in logs[1:]:
        before = ways.copy()
        for place, label in enumerate(path):
            from_here = [before[place]] + ([before[place - 1]] if place else [])
            if place > 1 and label not in (blank, path[place - 2]):
                from_here.append(before[place - 2])
            ways[place] = np.logaddexp.reduce(from_here) + now[label]
    return float(np.logaddexp(ways[-1], ways[-2]))


LOSSES: Mapping[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        nll_loss, cross_entropy, binary_cross_entropy, binary_cross_entropy_with_logits, mse_loss, l1_loss, huber_loss,
        smooth_l1_loss, kl_div, poisson_nll_loss, gaussian_nll_loss, hinge_embedding_loss, margin_ranking_loss,
        cosine_embedding_loss, triplet_margin_loss, multi_margin_loss, multilabel_margin_loss,
        soft_margin_loss, multilabel_soft_margin_loss, ctc_loss,
    )
} | {"triplet_margin_with_distance_loss": triplet_margin_loss}  # fmt: skip

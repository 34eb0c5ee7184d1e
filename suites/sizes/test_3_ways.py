"""Full sizes by other ways: products with a bias, in a batch and from the other side, and attention that sees every place."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from stackproof.device.kinds import Device
from stackproof.operators.arrays import Array
from stackproof.operators.projection import fold, product, signs, unit
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import SEED
from suites.sizes.held import drawn, hold, rounding
from suites.sizes.table import DTYPES, row_of, rows

_BATCH = 2
_PRODUCTS = [name for name, row in rows()["product"].items() if row["gib"] < 1]
"""A batch of vocabularies would take a CPU ten seconds."""
_PADDING = 37
"""Places at the end that a mask hides."""
_OWN = ("output", "query's gradient")
_SHARED = ("key's gradient", "value's gradient")
"""What each head has for itself, and what its group shares."""


@pytest.mark.deadline(300)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", _PRODUCTS)
def test_product(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """A product with a bias, in a batch, added to one in a batch, and from the other side: every number, in sums of 256."""
    kind = DTYPES[dtype]
    row = row_of("product", name, kind, stack, device)
    shapes = ((row["rows"], row["inner"]), (row["outer"], row["inner"]))
    given, weight = (drawn(shape, kind, 1.0, turn)[0] for turn, shape in enumerate(shapes))
    bias, _ = drawn((row["outer"],), kind, 1.0, 2)
    left, right, added = (one.to(device.torch) for one in (given, weight.T, bias))
    lefts, rights = (one.expand(_BATCH, *one.shape) for one in (left, right))
    flips, turned = signs(row["outer"], SEED), signs(row["rows"], SEED)
    plain, other = product(given, weight.T, flips), product(weight, given.T, turned)
    base = fold(bias[None], flips)
    seen = {
        "with a bias": (fold(torch.addmm(added, left, right), flips) - base, plain),
        "of a layer with a bias": (fold(functional.linear(left, right.T, added), flips) - base, plain),
        "from the other side": (fold(torch.mm(right.T, left.T), turned), other),
    }
    for place in range(_BATCH):
        seen[f"number {place} of a batch"] = (fold(torch.bmm(lefts, rights)[place], flips), plain)
        sums = torch.baddbmm(added.expand(_BATCH, 1, -1), lefts, rights)[place]
        seen[f"number {place} of a batch with a bias"] = (fold(sums, flips) - base, plain)
    judged = {
        what: expected.judge(found, unit(kind, row["inner"]), f"{name}: the product {what}").worst
        for what, (found, expected) in seen.items()
    }
    figures |= judged
    figures["summary"] = f"{len(seen)} ways to one product, worst sum {max(judged.values()):.1f} units of rounding"


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["whole_attention"])
def test_attention(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Attention of every place to every place, its output and gradients: every number of every head and row."""
    row, kind = row_of("whole_attention", name, DTYPES[dtype], stack, device), DTYPES[dtype]
    shape = (1, row["heads"], row["length"], row["width"])
    made = [drawn(shape, kind, 1.0, turn) for turn in range(4)]
    query, key, value, fed = (one.to(device.torch) for one, _ in made)
    leaves = [one.requires_grad_() for one in (query, key, value)]
    output = functional.scaled_dot_product_attention(query, key, value)
    gradients = torch.autograd.grad(output, leaves, fed)
    names = ("output", "query's gradient", "key's gradient", "value's gradient")
    for head in range(row["heads"]):
        exact = _attended(kind, None, *(one[0, head] for _, one in made))
        wanted = dict(zip(names, exact, strict=True))
        found = {what: one[0, head] for what, one in zip(names, (output, *gradients), strict=True)}
        hold(f"{name}, head {head}", found, wanted, figures)
    figures["summary"] = f"{4 * query.numel()} numbers of 4 results in {row['heads']} heads"


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["grouped_attention"])
def test_grouped(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Heads that share keys behind a mask of padding and of what comes later, as a language model asks: every number."""
    row, kind = row_of("grouped_attention", name, DTYPES[dtype], stack, device), DTYPES[dtype]
    length, shared = row["length"], row["heads"] // row["groups"]
    shapes = [(1, row[count], length, row["width"]) for count in ("heads", "groups", "groups", "heads")]
    made = [drawn(shape, kind, 1.0, turn) for turn, shape in enumerate(shapes)]
    query, key, value, fed = (one.to(device.torch) for one, _ in made)
    leaves = [one.requires_grad_() for one in (query, key, value)]
    keys, values = (one.repeat_interleave(shared, 1) for one in (key, value))
    seen = np.tri(length, dtype=bool) & (np.arange(length) < length - _PADDING)
    allowed = torch.from_numpy(seen).to(device.torch)
    added = torch.zeros(seen.shape, dtype=kind, device=device.torch).masked_fill(~allowed, torch.finfo(kind).min)
    found = {}
    for way, mask in (("a mask of truths", allowed), ("a mask that is added", added)):
        output = functional.scaled_dot_product_attention(query, keys, values, mask)
        found[way] = (output, *torch.autograd.grad(output, leaves, fed, retain_graph=True))
    for group in range(row["groups"]):
        heads = range(group * shared, (group + 1) * shared)
        whole = [
            _attended(kind, seen, *(one[0, at] for (_, one), at in zip(made, (head, group, group, head), strict=True)))
            for head in heads
        ]
        for way, results in found.items():
            hold(f"{name}, group {group}, {way}", _of_group(results, group, heads), _expected(whole, heads), figures)
    numbers = sum(one.numel() for results in found.values() for one in results)
    figures["summary"] = f"{numbers} numbers of 4 results behind 2 masks"


def _of_group(results: tuple[torch.Tensor, ...], group: int, heads: range) -> dict[str, torch.Tensor]:
    """Return what a group of heads gave, by the names of `_expected`."""
    own = {f"{what} of head {head}": one[0, head] for what, one in zip(_OWN, results, strict=False) for head in heads}
    return own | {what: one[0, group] for what, one in zip(_SHARED, results[2:], strict=True)}


def _expected(whole: list[list[tuple[Array, Array]]], heads: range) -> dict[str, tuple[Array, Array]]:
    """Return what is expected of a group: outputs and queries' gradients by heads, and what the heads add up to for their key and value."""
    own = {
        f"{what} of head {head}": one[at]
        for at, what in enumerate(_OWN)
        for head, one in zip(heads, whole, strict=True)
    }
    return own | {what: _summed([one[at] for one in whole]) for at, what in enumerate(_SHARED, len(_OWN))}


def _summed(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the sum of what several heads give, and of what each may be off by."""
    return np.sum([one for one, _ in parts], 0), np.sum([allowed for _, allowed in parts], 0)


def _attended(
    kind: torch.dtype, seen: Array | None, query: Array, key: Array, value: Array, fed: Array
) -> list[tuple[Array, Array]]:
    """Return the output and the gradients of query, key and value of one head, each with what it may be off by.

    `seen`: which keys each place sees, (length, length); all without it.
    """
    scale = 1 / math.sqrt(query.shape[-1])
    scores = query @ key.T * scale
    scores = scores if seen is None else np.where(seen, scores, -np.inf)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    parts = powers / powers.sum(1, keepdims=True)
    risen = fed @ value.T
    inner = (parts * risen).sum(1, keepdims=True)
    slope, size = parts * (risen - inner) * scale, parts * (np.abs(risen) + np.abs(inner) + 1) * scale
    return [
        _product(parts, value, parts, kind),
        _product(slope, key, size, kind),
        _product(slope.T, query, size.T, kind),
        _product(parts.T, fed, parts.T, kind),
    ]


def _product(left: Array, right: Array, size: Array, kind: torch.dtype) -> tuple[Array, Array]:
    """Return a product, and what it may be off by where its left factors were rounded by so much of `size` and summed in float32."""
    exact, eps = left @ right, torch.finfo(kind).eps
    strayed = 8 * eps * np.sqrt((size * size) @ (right * right))
    return exact, strayed + 4 * rounding(len(right), torch.float32) * (size @ np.abs(right)) + 2 * eps * np.abs(exact)

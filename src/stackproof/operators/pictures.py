"""Convolutions, pooling, resizing and padding by their definitions, in NumPy: named and called as those of torch.nn.functional."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from stackproof.operators.forms import Floats


def _each(value: Any, dims: int) -> tuple[int, ...]:
    """Return a number for each dimension."""
    return tuple(value) if isinstance(value, tuple) else (int(value),) * dims


def _windows(
    values: Floats, kernel: Any, stride: Any, padding: Any, dilation: Any, fill: float, ceil_mode: bool = False
) -> Floats:
    """Return what each place of a kernel meets: (*kernel, N, C, *output), where outside the numbers there is `fill`."""
    dims = values.ndim - 2
    kernel, stride, padding, dilation = (_each(one, dims) for one in (kernel, stride, padding, dilation))
    up = math.ceil if ceil_mode else math.floor
    places, wide = [], []
    for size, k, s, p, d in zip(values.shape[2:], kernel, stride, padding, dilation, strict=True):
        count = up((size + 2 * p - d * (k - 1) - 1) / s) + 1
        count -= ceil_mode and (count - 1) * s >= size + p  # a window must begin within the numbers or before them
        places.append(count)
        wide.append((p, max(p, (count - 1) * s + d * (k - 1) + 1 - size - p)))
    padded = np.pad(values, ((0, 0), (0, 0), *wide), constant_values=fill)
    found = []
    for where in itertools.product(*map(range, kernel)):
        met = zip(where, dilation, places, stride, strict=True)
        cut: Any = (..., *(slice(at * d, at * d + (n - 1) * s + 1, s) for at, d, n, s in met))
        found.append(padded[cut])
    return np.stack(found).reshape(*kernel, *found[0].shape)


def _convolution(dims: int) -> Callable[..., Floats]:
    def convolve(
        given: Floats,
        weight: Floats,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Floats:
        kernel, letters = weight.shape[2:], "xyz"[:dims]
        windows = _windows(given, kernel, stride, padding, dilation, 0.0)
        shape = (*kernel, len(given), groups, given.shape[1] // groups, *windows.shape[dims + 2 :])
        found = np.einsum(
            f"{letters}ngc...,gkc{letters}->ngk...",
            windows.reshape(shape),
            weight.reshape(groups, -1, *weight.shape[1:]),
            optimize=True,
        )
        whole: Floats = found.reshape(len(given), len(weight), *found.shape[3:])
        return whole if bias is None else np.asarray(whole + bias.reshape(-1, *[1] * dims))

    return convolve


def _transposed(dims: int) -> Callable[..., Floats]:
    def spread(
        given: Floats,
        weight: Floats,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Floats:
        """Each number of the input adds the kernel, times itself, to the output."""
        stride, padding, more, dilation = (_each(one, dims) for one in (stride, padding, output_padding, dilation))
        count, _, *sides = given.shape
        _, outer, *kernel = weight.shape
        whole = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(sides, stride, dilation, kernel, strict=True)]
        found = np.zeros((count, groups, outer, *(one + extra for one, extra in zip(whole, more, strict=True))))
        parts, kernels = given.reshape(count, groups, -1, *sides), weight.reshape(groups, -1, outer, *kernel)
        for where in itertools.product(*map(range, kernel)):
            met = zip(where, dilation, sides, stride, strict=True)
            cut: Any = (..., *(slice(at * d, at * d + (n - 1) * s + 1, s) for at, d, n, s in met))
            at_place: Any = (..., *where)
            found[cut] += np.einsum("ngc...,gck->ngk...", parts, kernels[at_place])
        room = found.shape[3:]
        ends: Any = (..., *(slice(p, size - p) for p, size in zip(padding, room, strict=True)))
        found = found.reshape(count, groups * outer, *room)[ends]
        return found if bias is None else np.asarray(found + bias.reshape(-1, *[1] * dims))

    return spread


def _maximum(dims: int) -> Callable[..., Floats]:
    def pool(
        given: Floats,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Floats:
        windows = _windows(given, kernel_size, stride or kernel_size, padding, dilation, -np.inf, ceil_mode)
        return np.asarray(windows.max(tuple(range(dims))))

    return pool


def _average(dims: int) -> Callable[..., Floats]:
    def pool(
        given: Floats,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Floats:
        kernel, axes = _each(kernel_size, dims), tuple(range(dims))
        step = stride or kernel_size
        total = _windows(given, kernel, step, padding, 1, 0.0, ceil_mode).sum(axes)
        if divisor_override:
            return np.asarray(total / divisor_override)
        inside, around = np.ones_like(given), 0 if count_include_pad else padding
        if count_include_pad:  # padding counts, what `ceil_mode` adds does not
            edges = [(one, one) for one in _each(padding, dims)]
            inside = np.pad(inside, ((0, 0), (0, 0), *edges), constant_values=1.0)
        counts = _windows(inside, kernel, step, around, 1, 0.0, ceil_mode).sum(axes)
        return np.asarray(total / counts)

    return pool


def _root_of_powers(dims: int) -> Callable[..., Floats]:
    def pool(given: Floats, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Floats:
        """The p-norm of each window."""
        windows = _windows(given**norm_type, kernel_size, stride or kernel_size, 0, 1, 0.0, ceil_mode)
        return np.asarray(windows.sum(tuple(range(dims))) ** (1 / norm_type))

    return pool


def _adaptive(take: Callable[[Floats], Floats]) -> Callable[..., Floats]:
    def pool(given: Floats, output_size: Any) -> Floats:
        sides = given.shape[2:]
        wanted = _each(output_size, len(sides))
        found = np.empty((*given.shape[:2], *wanted))
        for place in itertools.product(*map(range, wanted)):
            met = zip(place, sides, wanted, strict=True)
            cut: Any = (..., *(slice(i * n // k, -(-(i + 1) * n // k)) for i, n, k in met))
            at: Any = (..., *place)
            found[at] = take(given[cut].reshape(*given.shape[:2], -1))
        return found

    return pool


# ---- resizing: one dimension after the other


def _cubic(offset: float, a: float = -0.75) -> float:
    """Return Keys' kernel (Keys, 1981)."""
    x = abs(offset)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def _shares(mode: str, place: int, size: int, wanted: int, scale: float, corners: bool) -> Iterator[tuple[int, float]]:
    """Yield what one number of the result takes from which of a row."""
    if mode == "area":
        first, last = place * size // wanted, -(-(place + 1) * size // wanted)
        yield from ((at, 1 / (last - first)) for at in range(first, last))
    elif mode.startswith("nearest"):
        yield min(int((place + 0.5 * (mode == "nearest-exact")) * scale), size - 1), 1.0
    else:
        at = place * (size - 1) / max(wanted - 1, 1) if corners else (place + 0.5) * scale - 0.5
        at = at if mode == "bicubic" else max(at, 0.0)
        low = math.floor(at)
        reach = range(low - 1, low + 3) if mode == "bicubic" else range(low, low + 2)
        for near in reach:
            share = _cubic(at - near) if mode == "bicubic" else 1 - abs(at - near)
            yield min(max(near, 0), size - 1), share


def _smoothed(mode: str, place: int, size: int, scale: float) -> Iterator[tuple[int, float]]:
    """Yield shares of a kernel that is as wide as what becomes one pixel, as Pillow resizes; its cubic has a = -0.5."""
    wide, middle = max(scale, 1.0), (place + 0.5) * scale
    reach = wide * (2 if mode == "bicubic" else 1)
    near = range(max(int(middle - reach + 0.5), 0), min(int(middle + reach + 0.5), size))
    offsets = [(at - middle + 0.5) / wide for at in near]
    shares = [_cubic(one, -0.5) if mode == "bicubic" else max(1 - abs(one), 0.0) for one in offsets]
    yield from ((at, share / sum(shares)) for at, share in zip(near, shares, strict=True))


def interpolate(
    given: Floats,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
) -> Floats:
    """Resize pictures; without `align_corners` the middles of pixels are their places."""
    found = given
    for dim, old in enumerate(given.shape[2:], 2):
        factor = None if scale_factor is None else _real(scale_factor, dim - 2)
        new = math.floor(old * factor) if factor else _each(size, given.ndim - 2)[dim - 2]
        scale = 1 / factor if factor else old / new
        matrix = np.zeros((new, old))
        for place in range(new):
            shares = (
                _smoothed(mode, place, old, scale)
                if antialias
                else _shares(mode, place, old, new, scale, align_corners)
            )
            for at, share in shares:
                matrix[place, at] += share
        found = np.moveaxis(np.tensordot(matrix, found, (1, dim)), 0, dim)
    return found


def _real(value: Any, dim: int) -> float:
    return float(value[dim] if isinstance(value, tuple) else value)


def pad(given: Floats, pad: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Floats:
    """Pad from the last dimension on."""
    edges = [(0, 0)] * (given.ndim - len(pad) // 2) + [(pad[at], pad[at + 1]) for at in range(len(pad) - 2, -1, -2)]
    if mode == "constant":
        return np.pad(given, edges, constant_values=value)
    how: Any = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return np.pad(given, edges, mode=how)


def unfold(given: Floats, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Floats:
    """Write what each place of a kernel meets one under another."""
    windows = _windows(given, kernel_size, stride, padding, dilation, 0.0)
    return windows.transpose(2, 3, 0, 1, 4, 5).reshape(len(given), -1, int(np.prod(windows.shape[4:])))


def fold(
    given: Floats, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Floats:
    """Add up what `unfold` wrote one under another, each number where it came from."""
    (rows, columns), (high, wide) = _each(output_size, 2), _each(kernel_size, 2)
    places = np.arange(rows * columns, dtype=np.float64).reshape(1, 1, rows, columns)
    met = _windows(places, kernel_size, stride, padding, dilation, -1.0).reshape(high * wide, -1).astype(int)
    parts = given.reshape(len(given), -1, high * wide, given.shape[-1])
    found = np.zeros((*parts.shape[:2], rows * columns + 1))  # the last takes what was padding
    for at in range(high * wide):
        for number, place in enumerate(met[at]):
            found[..., place] += parts[:, :, at, number]
    return np.asarray(found[..., :-1].reshape(*parts.shape[:2], rows, columns))


def affine_grid(theta: Floats, size: Any, align_corners: bool = False) -> Floats:
    """Where each pixel of (N, C, H, W) is taken from: matrices (N, 2, 3) times its place (x, y, 1) between -1 and 1."""
    lines = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in size[2:]]
    y, x = np.meshgrid(*lines, indexing="ij")
    return np.asarray(np.einsum("nij,hwj->nhwi", theta, np.stack([x, y, np.ones_like(x)], -1)))


def channel_shuffle(given: Floats, groups: int) -> Floats:
    """The first channel of each group, then the second of each (Zhang et al., 2018)."""
    parts = given.reshape(len(given), groups, -1, *given.shape[2:])
    return np.asarray(parts.swapaxes(1, 2).reshape(given.shape))


def pixel_shuffle(given: Floats, upscale_factor: int) -> Floats:
    """Channels become pixels (Shi et al., 2016)."""
    count, _, rows, columns = given.shape
    parts = given.reshape(count, -1, upscale_factor, upscale_factor, rows, columns)
    return parts.transpose(0, 1, 4, 2, 5, 3).reshape(count, -1, rows * upscale_factor, columns * upscale_factor)


def pixel_unshuffle(given: Floats, downscale_factor: int) -> Floats:
    """Pixels become channels."""
    count, channels, rows, columns = given.shape
    by = downscale_factor
    parts = given.reshape(count, channels, rows // by, by, columns // by, by)
    return parts.transpose(0, 1, 3, 5, 2, 4).reshape(count, -1, rows // by, columns // by)


def grid_sample(
    given: Floats, grid: Floats, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Floats:
    """Take pictures at places between -1 and 1, (N, H, W, 2) as x and y (Jaderberg et al., 2015)."""
    sides = given.shape[:1:-1]  # columns, rows
    places = [
        (grid[..., axis] + 1) / 2 * (side - 1) if align_corners else ((grid[..., axis] + 1) * side - 1) / 2
        for axis, side in enumerate(sides)
    ]
    if padding_mode == "border":
        places = [np.clip(one, 0, side - 1) for one, side in zip(places, sides, strict=True)]
    rows = np.arange(len(given))[:, None, None]
    found = np.zeros((*grid.shape[:3], given.shape[1]))
    if mode == "nearest":
        return _inside(given, rows, *(np.rint(one).astype(int) for one in places)).transpose(0, 3, 1, 2)
    lows = [np.floor(one).astype(int) for one in places]
    for right, down in itertools.product((0, 1), repeat=2):
        x, y = lows[0] + right, lows[1] + down
        share = (1 - np.abs(places[0] - x)) * (1 - np.abs(places[1] - y))
        found += share[..., None] * _inside(given, rows, x, y)
    return found.transpose(0, 3, 1, 2)


def _inside(pictures: Floats, rows: Any, x: Any, y: Any) -> Floats:
    """Return pixels, and zeros outside."""
    height, width = pictures.shape[2:]
    there = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    taken = pictures[rows, :, np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)]
    return np.asarray(taken * there[..., None])


PICTURES: Mapping[str, Callable[..., Any]] = {
    **{f"conv{dims}d": _convolution(dims) for dims in (1, 2, 3)},
    **{f"max_pool{dims}d": _maximum(dims) for dims in (1, 2, 3)},
    **{f"avg_pool{dims}d": _average(dims) for dims in (1, 2, 3)},
    **dict.fromkeys((f"adaptive_avg_pool{dims}d" for dims in (1, 2, 3)), _adaptive(lambda part: part.mean(-1))),
    **dict.fromkeys((f"adaptive_max_pool{dims}d" for dims in (1, 2, 3)), _adaptive(lambda part: part.max(-1))),
    **{f"conv_transpose{dims}d": _transposed(dims) for dims in (1, 2, 3)},
    **{f"lp_pool{dims}d": _root_of_powers(dims) for dims in (1, 2)},
    "interpolate": interpolate,
    "pad": pad,
    "unfold": unfold,
    "fold": fold,
    "affine_grid": affine_grid,
    "channel_shuffle": channel_shuffle,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "grid_sample": grid_sample,
}

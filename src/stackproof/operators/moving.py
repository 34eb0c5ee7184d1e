"""What only moves numbers, and what chooses some of a matrix or a picture that is turned in memory: it changes no bit of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch.nn import functional

from stackproof.operators.arrays import Array, Expected
from stackproof.operators.trials import Trial


def moved(flat: Array, given: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    """Return what only moves numbers, which changes no bit of them: not a subnormal one, not a zero's sign."""
    square = flat[:289].reshape(17, 17)
    matrix = given[:289].reshape(17, 17)
    for name, call, wanted in (
        ("cat", lambda x: torch.cat((x, x.flip(0))), np.concatenate((square, square[::-1]))),
        ("stack", lambda x: torch.stack((x, x.t())), np.stack((square, square.T))),
        ("roll", lambda x: torch.roll(x, (1, 2), (0, 1)), np.roll(square, (1, 2), (0, 1))),
        ("repeat", lambda x: x.repeat(2, 1), np.tile(square, (2, 1))),
        ("repeat_interleave", lambda x: torch.repeat_interleave(x, 2, 1), np.repeat(square, 2, 1)),
        ("pad", lambda x: functional.pad(x, (1, 2), value=1), np.pad(square, ((0, 0), (1, 2)), constant_values=1)),
        ("contiguous of transposed", lambda x: x.t().contiguous(), square.T),
        ("copy_ into strided", lambda x: torch.empty_like(x).t().copy_(x), square),
        ("clone", torch.clone, square),
    ):
        yield Trial(name, partial(call, matrix), Expected(wanted, zero_sign=dtype.is_floating_point), dtype)


def turned(flat: Array, given: torch.Tensor, dtype: torch.dtype) -> Iterator[Trial]:
    """Return what is chosen from a matrix that is turned in memory, and pictures in channels-last order that are moved."""
    square, some = flat[:289].reshape(17, 17).T, np.array([3, 16, 3, 0])
    mask, index = square.astype(bool), torch.from_numpy(some).to(given.device)
    matrix, pictures = given[:289].reshape(17, 17).t(), flat[:240].reshape(2, 6, 4, 5)
    channels = given[:240].reshape(2, 6, 4, 5).contiguous(memory_format=torch.channels_last)
    chosen = torch.from_numpy(mask).to(given.device)
    for name, call, source, wanted in (
        ("masked_select of turned", lambda x: torch.masked_select(x, chosen), matrix, square[mask]),
        ("index_select of turned", lambda x: torch.index_select(x, 0, index), matrix, square[some]),
        ("getitem of turned", lambda x: x[index], matrix, square[some]),
        ("take of turned", lambda x: torch.take(x, index), matrix, square.reshape(-1)[some]),
        ("flip of turned", lambda x: torch.flip(x, (0, 1)), matrix, square[::-1, ::-1]),
        ("where of turned", lambda x: torch.where(chosen, x, x.t()), matrix, np.where(mask, square, square.T)),
        ("cat of channels-last", lambda x: torch.cat((x, x), 1), channels, np.concatenate((pictures, pictures), 1)),
        ("flip of channels-last", lambda x: torch.flip(x, (1, 3)), channels, pictures[:, ::-1, :, ::-1]),
        ("chunk of channels-last", lambda x: torch.chunk(x, 3, 1)[2].contiguous(), channels, pictures[:, 4:]),
        (
            "index_select of channels-last",
            lambda x: torch.index_select(x, 1, index % 6),
            channels,
            pictures[:, some % 6],
        ),
        ("roll of channels-last", lambda x: torch.roll(x, 2, 1), channels, np.roll(pictures, 2, 1)),
    ):
        yield Trial(name, partial(call, source), Expected(wanted, zero_sign=dtype.is_floating_point), dtype)
    places = np.stack(np.nonzero(mask), 1)
    yield Trial("nonzero of turned", partial(torch.nonzero, matrix), Expected(places), torch.int64)

"""Every way to draw random numbers: how it is called, and what its numbers must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from stackproof.operators import traits
from stackproof.operators.distributions import (
    FLOATS,
    Draw,
    Make,
    binomial,
    counted,
    gamma,
    geometric,
    normal,
    poisson,
    uniform,
)
from stackproof.operators.traits import PER_CENT, Trait

_F = torch.nn.functional
_WHOLE = ("int64",)
_WIDE = ("float32", "float64")  # the database lists them for no other dtype on the CPU
_FAN = 64
_SIDE = 256


def _empty(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
    return torch.empty(n, dtype=dtype, device=device)


def _full(value: float) -> Make:
    return lambda device, dtype, n: torch.full((n,), value, dtype=dtype, device=device)


def _filled(function: Callable[[torch.Tensor], torch.Tensor]) -> Make:
    """Return a draw into memory that is there."""
    return lambda device, dtype, n: function(_empty(device, dtype, n))


def _initialised(function: Callable[[torch.Tensor], torch.Tensor]) -> Make:
    """Return a weight of 64 inputs as torch.nn.init draws it."""
    return lambda d, t, n: function(_empty(d, t, -(-n // _FAN) * _FAN).view(-1, _FAN)).flatten()[:n]


def _laid(make: Callable[..., torch.nn.Module], of: int, what: str = "weight") -> Make:
    """Return what so many layers' worth of outputs start from: `of` numbers an output, as the layer's own constructor draws them."""

    def drawn(device: torch.device, dtype: torch.dtype, count: int) -> torch.Tensor:
        found: torch.Tensor = getattr(make(-(-count // of), device=device, dtype=dtype), what)
        return found.detach().flatten()[:count]

    return drawn


def _squares(function: Callable[[torch.Tensor], torch.Tensor]) -> Make:
    """Return weights of as many inputs as outputs, as torch.nn.init draws them."""
    return lambda d, t, n: torch.cat(
        [function(_empty(d, t, _SIDE**2).view(_SIDE, _SIDE)).flatten() for _ in range(-(-n // _SIDE**2))]
    )[:n]


def _chosen(out: torch.Tensor, kept: float, dropped: float = 0.0, room: float = 0.0) -> torch.Tensor:
    """Return one for each number that was kept and zero for each that was dropped; what is neither leaves the range."""
    units = room * torch.finfo(out.dtype).eps
    near = [(out - torch.tensor(value, dtype=out.dtype)).abs() <= units * abs(value) for value in (kept, dropped)]
    return torch.where(
        near[0], torch.ones_like(out), torch.where(near[1], torch.zeros_like(out), torch.full_like(out, 9))
    )


def _survivors(function: Callable[[torch.Tensor], torch.Tensor], chance: float) -> Make:
    """Return which of many ones a dropout of this chance leaves; what it leaves is 1 / (1 - chance) to the bit."""

    def make(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
        return _chosen(function(torch.ones(1, n, 1, dtype=dtype, device=device)).flatten(), 1 / (1 - chance))

    return make


def _gradient(given: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a dropout, or what leaves the range where it is not the mask that was used."""
    leaf = given.requires_grad_()
    out = _F.dropout(leaf, 0.5)
    found = torch.autograd.grad(out, leaf, torch.ones_like(out))[0]
    return torch.where(found == out, found, torch.full_like(found, 9))


def _selfnormalising(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
    """Return which of many ones alpha dropout leaves; the numbers are those of Klambauer et al. (2017), section 3."""
    chance, low = 0.5, 1.7580993408473766
    scale = ((1 - chance) * (1 + chance * low**2)) ** -0.5
    out = _F.alpha_dropout(torch.ones(n, dtype=dtype, device=device), chance, training=True)
    return _chosen(out, scale * (1 + low * chance), scale * low * (chance - 1), room=8 if dtype.itemsize > 2 else 3)


def _attended(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
    """Return which weights the dropout of attention leaves: equal ones, in front of an identity."""
    chance, size = 0.5, 64
    zero = torch.zeros(-(-n // size**2), 1, size, size, dtype=dtype, device=device)
    value = torch.eye(size, dtype=dtype, device=device).expand_as(zero).contiguous()
    out = _F.scaled_dot_product_attention(zero, zero, value, dropout_p=chance)
    return _chosen(out.flatten()[:n] * size, 1 / (1 - chance), room=8 if dtype.itemsize > 2 else 0.75)


def _permuted(device: torch.device, _: torch.dtype, n: int) -> torch.Tensor:
    """Return the first half of a permutation; twice the length, so that n numbers are left."""
    return torch.randperm(2 * n, device=device)[:n]


def _stayed(x: torch.Tensor) -> torch.Tensor:
    """Return which numbers of a permutation are within one per cent of where they were."""
    parts = 200 * x.numel() ** -1 / 4
    return ((x * parts).floor() == (torch.arange(x.numel(), dtype=x.dtype) * parts).floor()).double()


def _picked(dtype: torch.dtype, replacement: bool) -> Make:
    """Return categories that are drawn by weights of a dtype, together or one by one."""

    def make(device: torch.device, _: torch.dtype, n: int) -> torch.Tensor:
        weights = torch.tensor(_WEIGHTS, dtype=dtype, device=device)
        if replacement:
            return torch.multinomial(weights, n, replacement=True)
        return torch.multinomial(weights.expand(n, -1), 1).flatten()

    return make


def _second(device: torch.device, _: torch.dtype, n: int) -> torch.Tensor:
    """Return the second of two categories that are drawn without putting the first back; what comes twice leaves the range."""
    pairs = torch.multinomial(torch.tensor(_UNEQUAL, device=device).expand(n, -1), 2)
    return torch.where(pairs[:, 0] == pairs[:, 1], 9, pairs[:, 1])


def _lots(draw: Callable[[int], torch.Tensor], sizes: tuple[int, ...], n: int) -> torch.Tensor:
    """Return numbers that are drawn a few at a time, by calls of these sizes in turn: kernels have other ways for what fills no vector."""
    turns = -(-n // sum(sizes))
    return torch.cat([draw(size) for _ in range(turns) for size in sizes])[:n]


def _moved(device: torch.device, _: torch.dtype, n: int) -> torch.Tensor:
    """Return how far each number of many short permutations was moved, round the end; neighbours are of different ones."""
    size = 40
    orders = torch.stack([torch.randperm(size, device=device) for _ in range(-(-n // size))])
    return ((orders - torch.arange(size, device=device)) % size).T.flatten()[:n]


def _split(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
    """Return the first of two shares that add up to one."""
    pairs = torch._sample_dirichlet(torch.full((n, 2), 2.0, dtype=dtype, device=device))
    whole = (pairs.sum(-1) - 1).abs() < 8 * torch.finfo(dtype).eps
    return torch.where(whole, pairs[:, 0], torch.full_like(pairs[:, 0], 9))


def _hardened(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
    logits = torch.tensor(_WEIGHTS, dtype=dtype, device=device)[[0, 2]].log().expand(n, -1)
    return _F.gumbel_softmax(logits, hard=True)[:, 1]


def _even(name: str, make: Make, low: float, high: float, dtypes: tuple[str, ...] = FLOATS, **more: Any) -> Draw:
    told = {"traits": traits.even(low, high), "ends": True, **more}
    return Draw(name, make, uniform(low, high), low, high, dtypes=dtypes, **told)


def _integers(name: str, make: Make, low: int, high: int, dtypes: tuple[str, ...] = _WHOLE) -> Draw:
    """Return a draw of whole numbers from `low` to `high`, both included."""
    trait = traits.even(low - 0.5, high + 0.5)[0]
    exact = Trait(trait.parameter, trait.of, trait.mean, trait.deviation, trait.moved)
    cdf = uniform(low - 1, high)
    return Draw(name, make, lambda x: cdf(x.floor()), low, high, True, dtypes, (exact,), ends=True)


def _bells(name: str, make: Make, centre: float, deviation: float, dtypes: tuple[str, ...] = FLOATS) -> Draw:
    return Draw(name, make, normal(centre, deviation), dtypes=dtypes, traits=traits.gauss(centre, deviation))


def _coins(name: str, make: Make, chance: float, parameter: str = "chance", dtypes: tuple[str, ...] = FLOATS) -> Draw:
    """Return a draw of ones with this chance, else zeros."""
    told = traits.share(chance, parameter)
    return Draw(name, make, counted([1 - chance, chance]), 0, 1, True, dtypes, told)


def _dropped(name: str, make: Make, chance: float = 0.5, dtypes: tuple[str, ...] = FLOATS) -> Draw:
    """Return a draw of ones that survive a dropout of this chance."""
    told = traits.share(chance, "chance", lambda x: 1 - x)
    return Draw(name, make, counted([chance, 1 - chance]), 0, 1, True, dtypes, told)


_WEIGHTS = [2.0, 0.0, 3.0]
_UNEQUAL = [1.0, 2.0, 3.0]
_SECOND = [0.25, 0.4, 0.35]  # of one, two and three sixths, without the first
_HALF = 1 << 19
_WIDEST = 1 << 62


def _categories(name: str, make: Make) -> Draw:
    told = traits.shares([weight / sum(_WEIGHTS) for weight in _WEIGHTS])
    return Draw(name, make, counted(_WEIGHTS), 0, 2, True, _WHOLE, told)


def _complex(device: torch.device, dtype: torch.dtype, n: int) -> torch.Tensor:
    """Return the parts of complex numbers, whose variance is one together."""
    return torch.view_as_real(torch.randn(-(-n // 2), dtype=dtype.to_complex(), device=device)).flatten()[:n]


DRAWS = (
    _even("rand", lambda d, t, n: torch.rand(n, dtype=t, device=d), 0, 1, half_open=True),
    _even("rand_like", _filled(torch.rand_like), 0, 1, half_open=True),
    _even("uniform_", _filled(lambda x: x.uniform_(4.0, 8.0)), 4, 8, traits=traits.even(4, 8, 0.5)),
    _even("uniform_ around zero", _filled(lambda x: x.uniform_(-2.0, 6.0)), -2, 6),
    _even("init.kaiming_uniform_", _initialised(torch.nn.init.kaiming_uniform_), -(6 / _FAN) ** 0.5, (6 / _FAN) ** 0.5, _WIDE),
    _even("Linear, its weight", _laid(lambda n, **k: torch.nn.Linear(64, n, **k), 64), -1 / 8, 1 / 8, _WIDE),
    _even("Linear, its bias", _laid(lambda n, **k: torch.nn.Linear(4, n, **k), 1, "bias"), -1 / 2, 1 / 2, _WIDE),
    _even("Conv2d, its weight", _laid(lambda n, **k: torch.nn.Conv2d(4, n, 4, **k), 64), -1 / 8, 1 / 8, _WIDE),
    _even("Conv2d, its bias", _laid(lambda n, **k: torch.nn.Conv2d(1, n, 2, **k), 1, "bias"), -1 / 2, 1 / 2, _WIDE),
    _bells("Embedding, its weight", _laid(lambda n, **k: torch.nn.Embedding(n, 64, **k), 64), 0, 1, _WIDE),
    _even("rrelu", lambda d, t, n: -_F.rrelu(-torch.ones(n, dtype=t, device=d), 0.25, 0.75, training=True), 0.25, 0.75, _WIDE),
    _bells("randn", lambda d, t, n: torch.randn(n, dtype=t, device=d), 0, 1),
    _bells("randn_like", _filled(torch.randn_like), 0, 1),
    _bells("randn, few at a time", lambda d, t, n: _lots(lambda size: torch.randn(size, dtype=t, device=d), (7, 15, 37), n), 0, 1,
           ("float32",)),
    _even("rand, few at a time", lambda d, t, n: _lots(lambda size: torch.rand(size, dtype=t, device=d), (3, 5, 21), n), 0, 1,
          ("float32",), half_open=True),
    _even("rand, its lower bits", lambda d, t, n: (torch.rand(n, dtype=t, device=d) * (1 << 24)).frac(), 0, 1, ("float64",)),
    _bells("randn, complex", _complex, 0, 0.5**0.5, _WIDE),
    _bells("normal", lambda d, t, n: torch.normal(_full(-3.0)(d, t, n), _full(2.0)(d, t, n)), -3, 2),
    _bells("normal of a mean", lambda d, t, n: torch.normal(_full(2.0)(d, t, n), 1.5), 2, 1.5),
    _bells("normal of a deviation", lambda d, t, n: torch.normal(1.0, _full(0.5)(d, t, n)), 1, 0.5),
    _bells("normal_", _filled(lambda x: x.normal_(4.0, 3.0)), 4, 3),
    _even("init.xavier_uniform_", _squares(torch.nn.init.xavier_uniform_), -(3 / _SIDE) ** 0.5, (3 / _SIDE) ** 0.5, _WIDE),
    _bells("init.xavier_normal_", _squares(torch.nn.init.xavier_normal_), 0, _SIDE**-0.5, _WIDE),
    Draw("init.trunc_normal_", _filled(lambda x: torch.nn.init.trunc_normal_(x, 0.0, 1.0)), traits.cut_normal, -2, 2, dtypes=_WIDE,
         ends=True, traits=traits.cut()),
    _bells("init.kaiming_normal_", _initialised(torch.nn.init.kaiming_normal_), 0, (2 / _FAN) ** 0.5, _WIDE),
    Draw("exponential_", _filled(lambda x: x.exponential_(0.5)), lambda x: -torch.expm1(-0.5 * x), 0,
         traits=traits.mean(2, 2, "rate")),
    Draw("cauchy_", _filled(lambda x: x.cauchy_(1.0, 0.5)), lambda x: 0.5 + torch.atan(2 * x - 2) / math.pi,
         traits=traits.cauchy(1.0, 0.5)),
    Draw("log_normal_", _filled(lambda x: x.log_normal_(1.0, 0.5)), lambda x: torch.special.ndtr(2 * x.log() - 2), 0,
         traits=traits.gauss(1.0, 0.5, torch.log)),
    Draw("geometric_", _filled(lambda x: x.geometric_(0.3)), geometric, 1, whole=True,
         traits=traits.mean(1 / 0.3, 0.7**0.5 / 0.3, "chance")),
    _coins("bernoulli", lambda d, t, n: torch.bernoulli(_full(0.25)(d, t, n)), 0.25),
    _coins("bernoulli of a chance", lambda d, t, n: torch.bernoulli(_full(1.0)(d, t, n), 0.5), 0.5),
    _coins("bernoulli_", _filled(lambda x: x.bernoulli_(0.5)), 0.5, dtypes=(*FLOATS, "bool", "int64")),
    _coins("bernoulli_ of chances", lambda d, t, n: _empty(d, t, n).bernoulli_(_full(0.75)(d, t, n)), 0.75),
    Draw("poisson", lambda d, t, n: torch.poisson(_full(4.0)(d, t, n)), poisson(4), 0, whole=True, traits=traits.mean(4, 2)),
    Draw("poisson of many", lambda d, t, n: torch.poisson(_full(100.0)(d, t, n)), poisson(100), 0, whole=True, traits=traits.mean(100, 10)),
    Draw("binomial", lambda d, t, n: torch.binomial(_full(10.0)(d, t, n), _full(0.25)(d, t, n)), binomial(10, 0.25), 0, 10, True,
         _WIDE, traits.mean(2.5, (10 * 0.25 * 0.75) ** 0.5, "chance")),
    Draw("binomial of many", lambda d, t, n: torch.binomial(_full(200.0)(d, t, n), _full(0.75)(d, t, n)), binomial(200, 0.75), 0, 200, True,
         _WIDE, traits.mean(150, (200 * 0.25 * 0.75) ** 0.5, "chance")),
    Draw("_standard_gamma", lambda d, t, n: torch._standard_gamma(_full(2.0)(d, t, n)), gamma(2), 0, dtypes=_WIDE,
         traits=traits.mean(2, 2**0.5, "shape")),
    Draw("_standard_gamma below one", lambda d, t, n: torch._standard_gamma(_full(0.5)(d, t, n)), gamma(0.5), 0, dtypes=_WIDE,
         traits=traits.mean(0.5, 0.5**0.5, "shape")),
    Draw("_sample_dirichlet", _split, lambda x: x * x * (3 - 2 * x), 0, 1, dtypes=_WIDE, traits=traits.split(2.0)),
    _dropped("dropout", _survivors(lambda x: _F.dropout(x, 0.25), 0.25), 0.25),
    _dropped("dropout, gradient", _survivors(_gradient, 0.5)),
    _dropped("native_dropout", _survivors(lambda x: torch.native_dropout(x.view(-1, 4), 0.5, True)[0], 0.5)),
    _dropped("feature_dropout", _survivors(lambda x: _F.dropout1d(x, 0.5), 0.5)),
    _dropped("alpha_dropout", _selfnormalising),
    _dropped("scaled_dot_product_attention", _attended),
    _integers("randint", lambda d, t, n: torch.randint(-300, 700, (n,), dtype=t, device=d), -300, 699, ("int64", "int32", "float32")),
    _even("randint of a wide range", lambda d, t, n: torch.randint(-_WIDEST, _WIDEST, (n,), dtype=t, device=d), -_WIDEST, _WIDEST, _WHOLE),
    _integers("randint of a wide range, modulo 1000",
              lambda d, t, n: torch.randint(0, _WIDEST // 1000 * 1000, (n,), dtype=t, device=d) % 1000, 0, 999),
    _integers("random_ of bytes", _filled(lambda x: x.random_(0, 256)), 0, 255, ("uint8",)),
    _integers("randint_like", _filled(lambda x: torch.randint_like(x, -300, 700)), -300, 699),
    _integers("random_", _filled(lambda x: x.random_(1000)), 0, 999),
    _integers("random_ of a range", _filled(lambda x: x.random_(-300, 700)), -300, 699, ("int64", "float32")),
    Draw("randperm", _permuted, uniform(0, 2 * _HALF), 0, 2 * _HALF - 1, dtypes=_WHOLE, ends=True, distinct=True, least=_HALF,
         traits=(*traits.even(0, 2 * _HALF), Trait("share that stays", _stayed, PER_CENT, 0.0995, 0.99 * PER_CENT))),
    _integers("randperm of 40", _moved, 0, 39),
    _categories("multinomial", _picked(torch.float32, replacement=True)),
    _categories("multinomial of float64", _picked(torch.float64, replacement=True)),
    _categories("multinomial one by one", _picked(torch.float32, replacement=False)),
    Draw("multinomial, the second of two", _second, counted(_SECOND), 0, 2, True, _WHOLE, traits.shares(_SECOND)),
    _coins("gumbel_softmax", _hardened, 0.6, "weight", ("float32",)),
)  # fmt: skip

"""Random numbers are what they are said to be: their ranks under their own distribution function are spread evenly from 0 to 1.

What holds of every draw is asked of the ranks alone, whatever was drawn: their mean, their spread, 61 equal parts, both ends, neighbours,
stretches that come again. A whole number takes a rank at random within its step, and a number of 16 bits one within its rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stackproof.base.text import error_line
from stackproof.operators.points import FLOATS, OperatorPoint
from stackproof.operators.relation import Relation, UnusableError

WHAT = "drawn as it is said"
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool)
COUNT = 1 << 20
"""One per cent of the rate of an exponential, the weakest of all parameters, is nine standard deviations of the mean rank."""
_FEW = COUNT // 16
"""Of which neighbours are asked, and what a seed says: a block of 4,096 that comes again is a sixteenth of them."""
_SURE = 6.6
"""Standard deviations that a right device exceeds once in 10^10 draws; of the parts' sum of squares, which has a longer tail, 9."""
_BEHIND, _PARTS, _RUN, _SEED = 25.0, 61, 256, 20240229
_FLOATS, _WIDE, _WHOLE = ("float32", "float64", "bfloat16", "float16"), ("float32", "float64"), ("int64",)
_TOPS = (3, 255, 257, 65_537, 2**24 + 3, 2**31 - 1, 3 * 10**9, 2**32, 2**32 + 2**31, 3 * 2**40, 3 * 2**61)
_LENGTHS = (1, 15, 16, 17, 31, 1031)
_FAN, _SIDE = 64, 256
_WEIGHTS, _UNEQUAL = [2.0, 0.0, 3.0], [1.0, 2.0, 3.0]
_F, _I = torch.nn.functional, torch.nn.init
Rank = Callable[[torch.Tensor], torch.Tensor]
Make = Callable[[torch.Tensor], torch.Tensor]
"""Takes memory of the device, the dtype and as many numbers as are wanted, and returns drawn ones."""


@dataclass(frozen=True)
class Draw:
    """How numbers are drawn, their distribution function (of float64), and the range that they stay in."""

    make: Make
    rank: Rank
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    dtypes: tuple[str, ...] = _FLOATS
    open: str = ""
    """Which ends themselves are none of the numbers: `low`, `high` or both."""
    floored: bool = False
    """Numbers of 16 bits are cut, not rounded: they may lie half a last place low."""


def _counted(weights: list[float], first: int = 0) -> Rank:
    """Return the function of whole numbers that have these weights."""
    sums = torch.tensor([0.0, *weights], dtype=torch.float64).cumsum(0) / sum(weights)
    return lambda x: sums[(x - first + 1).clamp(0, len(weights)).long()]


def _poisson(mean: float) -> Rank:
    return _counted(
        [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(int(mean + 12 * mean**0.5 + 30))]
    )


def _binomial(trials: int, chance: float) -> Rank:
    return _counted([math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)])


def _gamma(shape: float) -> Rank:
    return lambda x: torch.special.gammainc(torch.full_like(x, shape), x)


def _cut(x: torch.Tensor) -> torch.Tensor:
    """Return the function of normal numbers between two deviations on both sides."""
    end = torch.special.ndtr(torch.tensor(-2.0, dtype=x.dtype))
    result: torch.Tensor = (torch.special.ndtr(x) - end) / (1 - 2 * end)
    return result


def _even(make: Make, low: float, high: float, dtypes: tuple[str, ...] = _FLOATS, **more: Any) -> Draw:
    return Draw(make, lambda x: (x - low) / (high - low), low, high, dtypes=dtypes, **more)


def _integers(make: Make, low: int, high: int, dtypes: tuple[str, ...] = _WHOLE) -> Draw:
    """Return a draw of whole numbers from `low` to below `high`."""
    return Draw(make, lambda x: (x + 1 - low) / (high - low), low, high - 1, True, dtypes)


def _bells(make: Make, mean: float, deviation: float, dtypes: tuple[str, ...] = _FLOATS) -> Draw:
    return Draw(make, lambda x: torch.special.ndtr((x - mean) / deviation), dtypes=dtypes)


def _counts(make: Make, weights: list[float], dtypes: tuple[str, ...] = _FLOATS, first: int = 0) -> Draw:
    return Draw(make, _counted(weights, first), first, first + len(weights) - 1, True, dtypes)


def _of(x: torch.Tensor) -> dict[str, Any]:
    return {"dtype": x.dtype, "device": x.device}


def _chosen(out: torch.Tensor, kept: float, dropped: float = 0.0, room: float = 0.0) -> torch.Tensor:
    """Return one for each number that was kept and zero for each that was dropped; what is neither leaves the range."""
    units = room * torch.finfo(out.dtype).eps
    near = [(out - torch.tensor(value, dtype=out.dtype)).abs() <= units * abs(value) for value in (kept, dropped)]
    marks = torch.full_like(out, 9).masked_fill(near[1], 0.0).masked_fill(near[0], 1.0)
    return marks.reshape(-1)


def _dropped(function: Make, chance: float, form: tuple[int, ...] = (1, -1, 1)) -> Draw:
    """Return which of many ones a dropout leaves; what it leaves is 1 / (1 - chance) to the bit."""
    return _counts(lambda x: _chosen(function(torch.ones_like(x).view(form)), 1 / (1 - chance)), [chance, 1 - chance])


def _gradient(x: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a dropout, and 9, which is out of range, where it is not the mask that was used."""
    out = _F.dropout(leaf := x.requires_grad_(), 0.5)
    gradient = torch.autograd.grad(out, leaf, torch.ones_like(out))[0]
    return torch.where(gradient == out, gradient, torch.full_like(gradient, 9))


def _selfnormalising(x: torch.Tensor) -> torch.Tensor:
    """Return which of many ones alpha dropout leaves; the numbers are those of Klambauer et al. (2017), section 3."""
    chance, low = 0.5, 1.7580993408473766
    scale = ((1 - chance) * (1 + chance * low**2)) ** -0.5
    out = _F.alpha_dropout(torch.ones_like(x), chance, training=True)
    return _chosen(out, scale * (1 + low * chance), scale * low * (chance - 1), room=8 if x.dtype.itemsize > 2 else 3)


def _attended(x: torch.Tensor) -> torch.Tensor:
    """Return which weights the dropout of attention leaves: equal ones, in front of an identity."""
    size = 64
    zero = torch.zeros(x.numel() // size**2, 1, size, size, **_of(x))
    value = torch.eye(size, **_of(x)).expand_as(zero).contiguous()
    out = _F.scaled_dot_product_attention(zero, zero, value, dropout_p=0.5) * size
    return _chosen(out, 2.0, room=8 if x.dtype.itemsize > 2 else 0.75)


def _permuted(x: torch.Tensor, size: int) -> torch.Tensor:
    """Return how far permutations moved each number, round the end, neighbours of different ones; twice or staying is out of range."""
    if x.numel() < min(size, _FEW):
        raise UnusableError("fewer numbers than an order has")
    size = min(size, x.numel())
    orders = torch.stack([torch.randperm(size, device=x.device) for _ in range(x.numel() // size)])
    places = torch.arange(size, device=x.device)
    orders = torch.where((orders.sort(-1).values == places).all(-1, keepdim=True), orders, size + places)
    moved = (orders - places) % size
    fixed = len(orders) > 8 and (moved == moved[0]).all(0).any()
    orders = size + orders if fixed else orders  # no place is the same in so many orders
    return torch.where(orders < size, moved, size).T.flatten()


def _second(x: torch.Tensor) -> torch.Tensor:
    """Return the second of two categories drawn without putting the first back; what comes twice, of all too, leaves the range."""
    pairs = torch.multinomial(torch.tensor(_UNEQUAL, device=x.device).expand(x.numel() // 4, -1), 2)
    orders = torch.multinomial(torch.ones(8, 129, device=x.device), 129).sort(-1).values
    every = (orders == torch.arange(129, device=x.device)).all()
    return torch.where((pairs[:, 0] != pairs[:, 1]) & every, pairs[:, 1], 9)


def _split(x: torch.Tensor) -> torch.Tensor:
    """Return the first of two shares that add up to one."""
    pairs = torch._sample_dirichlet(torch.full((x.numel(), 2), 2.0, **_of(x)))
    return torch.where((pairs.sum(-1) - 1).abs() < 8 * torch.finfo(x.dtype).eps, pairs[:, 0], 9.0)


def _hardened(x: torch.Tensor) -> torch.Tensor:
    return _F.gumbel_softmax(torch.tensor([2.0, 3.0], **_of(x)).log().expand(x.numel(), -1), hard=True)[:, 1]


def _layer(kind: str, *sizes: int, per: int, what: str = "weight") -> Make:
    """Return what a layer's own constructor draws; the number of outputs comes before or after `sizes`, as in `kind`."""

    def make(x: torch.Tensor) -> torch.Tensor:
        outputs, (first, *more) = x.numel() // per, sizes
        order = (outputs, first) if kind == "Embedding" else (first, outputs, *more)
        return getattr(getattr(torch.nn, kind)(*order, **_of(x)), what).detach().flatten()  # type: ignore[no-any-return]

    return make


def _initialised(name: str, side: int = _FAN, **more: Any) -> Make:
    return lambda x: torch.cat([getattr(_I, name)(matrix, **more).flatten() for matrix in x.view(-1, side, side)])


_BELOW: Mapping[str, Callable[[int, torch.Tensor], torch.Tensor]] = {
    "randint": lambda top, x: torch.randint(0, top, x.shape, device=x.device),
    "randint_like": lambda top, x: torch.randint_like(x, top),
    "random_": lambda top, x: x.random_(0, top),
}


@cache
def subjects() -> Mapping[str, Draw]:
    """Return every way to draw, by name."""
    full, few, kaiming, pairs = torch.full_like, ("float32",), (6 / _FAN) ** 0.5, torch.view_as_real
    return {
        "rand": _even(lambda x: torch.rand(x.shape, **_of(x)), 0, 1, open="high", floored=True),
        "rand_like": _even(torch.rand_like, 0, 1, open="high", floored=True),
        "rand, its lower bits": _even(lambda x: (torch.rand(x.shape, **_of(x)) * (1 << 24)).frac(), 0, 1, ("float64",)),
        "uniform_": _even(lambda x: x.uniform_(4.0, 8.0), 4, 8, floored=True),
        "uniform_ around zero": _even(lambda x: x.uniform_(-2.0, 6.0), -2, 6, floored=True),
        "rrelu": _even(lambda x: -_F.rrelu(full(x, -1), 0.25, 0.75, training=True), 0.25, 0.75, _WIDE),
        "init.kaiming_uniform_": _even(_initialised("kaiming_uniform_"), -kaiming, kaiming, _WIDE),
        "init.kaiming_normal_": _bells(_initialised("kaiming_normal_"), 0, (2 / _FAN) ** 0.5, _WIDE),
        "init.xavier_uniform_": _even(_initialised("xavier_uniform_", _SIDE), -((3 / _SIDE) ** 0.5), (3 / _SIDE) ** 0.5, _WIDE),
        "init.xavier_normal_": _bells(_initialised("xavier_normal_", _SIDE), 0, _SIDE**-0.5, _WIDE),
        "init.trunc_normal_": Draw(lambda x: _I.trunc_normal_(x, 0.0, 1.0), _cut, -2, 2, dtypes=_WIDE),
        "Linear, its weight": _even(_layer("Linear", 64, per=64), -1 / 8, 1 / 8, _WIDE),
        "Linear, its bias": _even(_layer("Linear", 4, per=1, what="bias"), -1 / 2, 1 / 2, _WIDE),
        "Conv2d, its weight": _even(_layer("Conv2d", 4, 4, per=64), -1 / 8, 1 / 8, _WIDE),
        "Conv2d, its bias": _even(_layer("Conv2d", 1, 2, per=1, what="bias"), -1 / 2, 1 / 2, _WIDE),
        "Embedding, its weight": _bells(_layer("Embedding", 64, per=64), 0, 1, _WIDE),
        "randn": _bells(lambda x: torch.randn(x.shape, **_of(x)), 0, 1),
        "randn_like": _bells(torch.randn_like, 0, 1),
        "randn, complex": _bells(lambda x: pairs(torch.randn(len(x) // 2, **_of(x[:0] * 1j))).flatten(), 0, 0.5**0.5, _WIDE),
        "normal": _bells(lambda x: torch.normal(full(x, -3), full(x, 2)), -3, 2),
        "normal of a mean": _bells(lambda x: torch.normal(full(x, 2), 1.5), 2, 1.5),
        "normal of a deviation": _bells(lambda x: torch.normal(1.0, full(x, 0.5)), 1, 0.5),
        "normal_": _bells(lambda x: x.normal_(4.0, 3.0), 4, 3),
        "exponential_": Draw(lambda x: x.exponential_(0.5), lambda x: -torch.expm1(-0.5 * x), 0, open="low"),
        "cauchy_": Draw(lambda x: x.cauchy_(1.0, 0.5), lambda x: 0.5 + torch.atan(2 * x - 2) / math.pi),
        "log_normal_": Draw(lambda x: x.log_normal_(1.0, 0.5), lambda x: torch.special.ndtr(2 * x.log() - 2), 0, open="low"),
        "geometric_": Draw(lambda x: x.geometric_(0.3), lambda x: -torch.expm1(math.log(0.7) * x), 1, whole=True),
        "bernoulli": _counts(lambda x: torch.bernoulli(full(x, 0.25)), [0.75, 0.25]),
        "bernoulli of a chance": _counts(lambda x: torch.bernoulli(full(x, 1), 0.5), [0.5, 0.5]),
        "bernoulli_": _counts(lambda x: x.bernoulli_(0.5), [0.5, 0.5], (*_FLOATS, "bool", "int64")),
        "bernoulli_ of chances": _counts(lambda x: x.bernoulli_(full(x, 0.75)), [0.25, 0.75]),
        "poisson": Draw(lambda x: torch.poisson(full(x, 4)), _poisson(4), 0, whole=True),
        "poisson of many": Draw(lambda x: torch.poisson(full(x, 100)), _poisson(100), 0, whole=True),
        "binomial": Draw(lambda x: torch.binomial(full(x, 10), full(x, 0.25)), _binomial(10, 0.25), 0, 10, True, _WIDE),
        "binomial of many": Draw(lambda x: torch.binomial(full(x, 200), full(x, 0.75)), _binomial(200, 0.75), 0, 200, True, _WIDE),
        "_standard_gamma": Draw(lambda x: torch._standard_gamma(full(x, 2)), _gamma(2), 0, dtypes=_WIDE, open="low"),
        "_standard_gamma below one": Draw(lambda x: torch._standard_gamma(full(x, 0.5)), _gamma(0.5), 0, dtypes=_WIDE, open="low"),
        "_sample_dirichlet": Draw(_split, lambda x: x * x * (3 - 2 * x), 0, 1, dtypes=_WIDE),
        "dropout": _dropped(lambda x: _F.dropout(x, 0.25), 0.25),
        "dropout, gradient": _dropped(_gradient, 0.5),
        "native_dropout": _dropped(lambda x: torch.native_dropout(x, 0.5, True)[0], 0.5, (-1, 4)),
        "feature_dropout": _dropped(lambda x: _F.dropout1d(x, 0.5), 0.5),
        "alpha_dropout": _counts(_selfnormalising, [0.5, 0.5]),
        "scaled_dot_product_attention": _counts(_attended, [0.5, 0.5]),
        "randint": _integers(lambda x: torch.randint(-300, 700, x.shape, **_of(x)), -300, 700, ("int64", "int32", "float32")),
        "randint of a wide range": _integers(lambda x: torch.randint(-(2**62), 2**62, x.shape, device=x.device), -(2**62), 2**62),
        "randint, its lower digits": _integers(lambda x: torch.randint(0, 2**62 // 1000 * 1000, x.shape, device=x.device) % 1000, 0, 1000),
        "random_ of bytes": _integers(lambda x: x.random_(0, 256), 0, 256, ("uint8",)),
        "random_ of a range": _integers(lambda x: x.random_(-300, 700), -300, 700, ("int64", "float32")),
        **{f"{name} below {top}": _integers(partial(make, top), 0, top) for name, make in _BELOW.items() for top in _TOPS},
        "randperm": _integers(partial(_permuted, size=COUNT // 12), 0, COUNT // 12),
        "randperm of 40": _integers(partial(_permuted, size=40), 0, 40),
        "multinomial": _counts(lambda x: torch.multinomial(x.new_tensor(_WEIGHTS), len(x), True), _WEIGHTS, _WIDE),
        "multinomial one by one": _counts(lambda x: torch.multinomial(x.new_tensor(_WEIGHTS).expand(len(x), -1), 1)[:, 0], _WEIGHTS, few),
        "multinomial, the second of two": _counts(_second, [0.25, 0.4, 0.35], few),
        "gumbel_softmax": _counts(_hardened, [0.4, 0.6], few),
    }  # fmt: skip


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield what holds of a draw in one dtype."""
    draw: Draw = point.op
    if str(point.dtype)[6:] not in draw.dtypes:
        return

    def drawn(room: torch.Tensor, seed: int = _SEED) -> torch.Tensor:
        torch.manual_seed(seed)
        return draw.make(torch.empty_like(room))

    def repeats(room: torch.Tensor) -> list[bool]:
        first, more = drawn(room), draw.make(torch.empty_like(room))
        return [torch.equal(first, other) for other in (more, drawn(room), drawn(room, _SEED + 1))]

    def few(room: torch.Tensor) -> torch.Tensor:
        """Draw a few at a time: kernels have other ways for what fills no vector, and for what is left behind the last."""
        parts = []
        for size in _LENGTHS * (len(room) // sum(_LENGTHS)):
            try:
                parts.append(draw.make(torch.empty_like(room[:size])))
            except Exception as error:
                raise UnusableError(f"it does not draw {size} numbers") from error
            if len(parts[-1]) != size:
                raise UnusableError(f"it does not draw {size} numbers")
            pairs = parts[-1].unfold(0, min(size, 2), 1)
            if room.dtype.itemsize > 2 and not draw.whole and len(torch.unique(pairs, dim=0)) < len(pairs):
                raise RuntimeError(f"of {size} numbers two come again, one after the other")
        return torch.cat(parts)

    def ones(room: torch.Tensor) -> list[torch.Tensor]:
        with suppress(Exception):  # it does not draw so few
            return [draw.make(torch.empty_like(room[:1])) for _ in range(3)]
        return []

    def default(room: torch.Tensor) -> dict[str, Any]:
        numbers = [drawn(room), *ones(room)]
        return {
            "the numbers": torch.cat([x.flatten() for x in numbers]),
            "the generator": _state(point.device),
            "another generator": True,
        }

    def given(room: torch.Tensor) -> dict[str, Any]:
        """Draw from another generator than the device's, which stays as it was."""
        other = torch.Generator(point.device).manual_seed(_SEED)
        torch.manual_seed(_SEED + 1)
        before = _state(point.device)
        with _Given(other) as mode:
            numbers = [draw.make(torch.empty_like(room)), *ones(room)]
        if mode.lacking or not mode.used:
            raise UnusableError("it takes no generator")
        return {
            "the numbers": torch.cat([x.flatten() for x in numbers]),
            "the generator": other.get_state(),
            "another generator": torch.equal(before, _state(point.device)),
        }

    def right(way: Make) -> Callable[[torch.Tensor], bool]:
        def run(room: torch.Tensor) -> bool:
            try:
                numbers = way(room)
            except (NotImplementedError, TypeError) as error:
                raise UnusableError(error_line(error, 120)) from error
            if wrong := fault(numbers, draw, point.dtype):
                raise RuntimeError(wrong)
            return True

        return run

    code = f"# torch.manual_seed({_SEED}); {point.name}, {COUNT} numbers in {point.dtype}\nfirst = second = None"
    room = (torch.empty(COUNT, dtype=point.dtype, device=point.device),)
    for says, numbers, way in (
        ("as its distribution says", room, drawn),
        ("a few at a time", (room[0][: 8 * sum(_LENGTHS)],), few),
    ):
        yield Relation(says, numbers, {}, right(way), lambda _: True, code, reducible=False)
    yield Relation("from a generator that is given", (room[0][:1031],), {}, given, default, code, exact=True)
    says = "other numbers in the next call and of another seed, the same after the seed"
    yield Relation(says, (room[0][:_FEW],), {}, repeats, lambda _: [False, True, False], code)


def _state(device: torch.device) -> torch.Tensor:
    module: Any = getattr(torch, device.type)
    made: torch.Tensor = getattr(module, "get_rng_state", torch.get_rng_state)()  # torch.cpu has none of its own
    return made


class _Given(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Gives a generator to every kernel that draws."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator, self.used, self.lacking = generator, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        other = f"{func._overloadname}_generator".removeprefix("default_")
        func = getattr(func.overloadpacket, other) if other in func.overloadpacket.overloads() else func
        places = [place for place, argument in enumerate(func._schema.arguments) if argument.name == "generator"]
        self.used += len(places)
        self.lacking += not places and torch.Tag.nondeterministic_seeded in func.tags
        if places and places[0] < len(args):
            return func(*args[: places[0]], self.generator, *args[places[0] + 1 :], **(kwargs or {}))
        return func(*args, **(kwargs or {}), **({"generator": self.generator} if places else {}))


def fault(values: torch.Tensor, draw: Draw, dtype: torch.dtype) -> str:
    """Say what is wrong with drawn numbers; empty if nothing is."""
    if not draw.whole and values.dtype is not dtype:
        return f"returns {values.dtype} instead of {dtype}"
    wide = values.detach().cpu().double()
    low, high = float(wide.min()), float(wide.max())
    if not low >= draw.low or not high <= draw.high:  # NaN is neither
        return f"numbers from {low:.6g} to {high:.6g} leave the range from {draw.low:g} to {draw.high:g}"
    for end, reached, last in (("low", low, draw.low), ("high", high, draw.high)):
        if end in draw.open and reached == last:
            return f"{int((wide == last).sum())} of {wide.numel()} numbers are {last:g}, which the range leaves out"
    ranks, narrow = _ranks(wide, draw, dtype), dtype.itemsize < 4 and not draw.whole
    messages = (*_spread(ranks, draw, dtype, narrow), _neighbours(ranks[:_FEW]), _twice(wide[: COUNT // 4]))
    return next(filter(None, messages), "")


@cache
def _dice() -> torch.Tensor:
    return torch.rand(COUNT, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _ranks(wide: torch.Tensor, draw: Draw, dtype: torch.dtype) -> torch.Tensor:
    """Return where in its distribution each number stands, at random within its step or its rounding."""
    within = _dice()[: wide.numel()]
    if draw.whole:
        left, right = draw.rank(wide - 1), draw.rank(wide)
    elif dtype.itemsize < 4:
        eps = torch.tensor(torch.finfo(dtype).eps, dtype=torch.float64)
        step = torch.ldexp(eps, torch.frexp(wide).exponent - 1) / 2
        left, right = (draw.rank((wide + way * step).clamp(draw.low, draw.high)) for way in (-1, 1))
    else:
        return draw.rank(wide)
    return left + within * (right - left)


def _spread(ranks: torch.Tensor, draw: Draw, dtype: torch.dtype, narrow: bool) -> Iterator[str]:
    """Say what is not even about the ranks."""
    count, eps = len(ranks), torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    cut = eps / 2 if narrow and draw.floored else 0.0
    for what, off, deviation in (
        ("mean", float(ranks.mean()) - 1 / 2, 12**-0.5),
        ("spread", float((ranks - 1 / 2).square().mean()) - 1 / 12, 180**-0.5),
    ):
        if not abs(off) <= (allowed := _SURE * deviation / count**0.5 + cut):
            yield f"the {what} of the ranks of {count} numbers is {off:.2g} off, {allowed:.2g} allowed"
    left, right = float(ranks.min()), 1 - float(ranks.max())
    ended = math.isfinite(draw.high - draw.low)
    if (ended or not narrow) and max(left, right) > (allowed := 2 * _BEHIND / count + 2 * eps * (0.5 if ended else 0)):
        yield f"{count} numbers leave out {max(left, right):.2g} at one end of their distribution, {allowed:.2g} allowed"
    if not narrow:
        bins = (ranks * _PARTS).long().clamp(0, _PARTS - 1).bincount(minlength=_PARTS).double()
        squares = float((bins - count / _PARTS).square().sum() / (count / _PARTS))
        if squares > (allowed := _PARTS + 9 * (2 * _PARTS) ** 0.5):
            at = int((bins - count / _PARTS).abs().argmax())
            yield f"{int(bins[at])} of {count} numbers lie in part {at} of {_PARTS}: {squares:.0f} squared, {allowed:.0f} allowed"


def _neighbours(ranks: torch.Tensor) -> str:
    """Say that numbers know of those in the next place, row or block, whose lengths are powers of two."""
    ranks = ranks - ranks.mean()
    for apart in (1 << power for power in range(15)):
        if (count := len(ranks) - apart) > apart:
            share = float((ranks[apart:] * ranks[:-apart]).mean() / ranks.square().mean().clamp_min(1e-12))
            if abs(share) > _SURE / count**0.5:
                return f"numbers that are {apart} apart correlate by {share:.2g}, {_SURE / count**0.5:.2g} allowed"
    return ""


def _twice(values: torch.Tensor) -> str:
    """Say that a stretch of the numbers comes again, however far away; five are looked for."""
    last = values.numel() - _RUN
    for start in range(0, last, max(last // 4, 1)):
        places = (values[: last + 1] == values[start]).nonzero().flatten()
        for step in range(1, _RUN):
            if len(places) == 1:
                break
            places = places[values[places + step] == values[start + step]]
        if len(places) > 1:
            return f"{_RUN} numbers from {start} on come again at {next(int(x) for x in places if int(x) != start)}"
    return ""

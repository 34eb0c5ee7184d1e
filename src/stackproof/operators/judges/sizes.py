"""Whole as in pieces: an operator at any size gives, gradients too, what float64 gives for blocks of its arguments.

A row of `data/sizes.toml` says by letters what an operator does to dimensions: along a capital one its results may be cut, and what
shares no such dimension adds up; along a small one numbers come together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from itertools import pairwise, product
from typing import Any

import torch
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from stackproof import DATA
from stackproof.base.text import error_line
from stackproof.base.toml import Table
from stackproof.device.devices import HOST
from stackproof.operators.judges.again import threads
from stackproof.operators.judges.references import attention
from stackproof.operators.points import OperatorPoint
from stackproof.operators.projection import has_float64
from stackproof.operators.relation import Relation, UnusableError, apart, moved, numeric, widened

WHAT = "whole as in pieces"
DTYPES = (torch.float32, torch.bfloat16, torch.uint8)
LADDER = (0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 512)
LONG = (4097, 65_537, 2**20 + 1)
CARDS = " on cards"
"""Ends the names of rows with sizes that take an accelerator's memory and speed."""
_BLOCK, _SMALL, _MOST = 2**22, 2**16, 2**22
"""Numbers of a tensor's block, of all that is drawn where no letter is long, and where one is."""
_HOSTS = 2**28
"""Multiplications that the host does in float64 for others; more are done where the operator runs."""
_POOL = 1_048_573
"""Numbers that are drawn, and repeated where a tensor has more: a prime, so that no two rows begin alike."""
_TOO_MANY = 2**30
"""Numbers from which on gradients are left out."""
_THREADS = torch.get_num_threads()


@dataclass(frozen=True)
class SizedForm:
    """A row: "Ri, iO -> RO" multiplies matrices.

    What letters and marks mean stands in the file; a number is an argument, and letters in parentheses are their sizes.
    """

    operators: tuple[str, ...]
    form: str
    name: str = ""
    sizes: tuple[Mapping[str, int], ...] = ()
    cards: tuple[Mapping[str, int], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    ladder: bool = True
    beyond: bool = False

    @property
    def arguments(self) -> list[str]:
        """Return the words before the arrow."""
        return [word.strip() for word in self.form.partition("->")[0].split(",")]

    @property
    def results(self) -> list[str]:
        """Return the words after the arrow, and the arguments that the call writes into."""
        written = [word.rstrip("!") for word in self.arguments if word.endswith("!")]
        return [word.strip() for word in self.form.partition("->")[2].split(",")] + written

    @property
    def letters(self) -> list[str]:
        return sorted({letter for word in self.arguments for letter in word if letter.isalpha()})

    @property
    def path(self) -> str:
        """Return the name under which anybody reaches the function."""
        return f"torch.{self.operators[0]}"


@cache
def subjects() -> Mapping[str, SizedForm]:
    """Return the rows by name, and again by another where cards have sizes of their own."""
    forms = {}
    for row in Table.load(DATA / "sizes.toml").rows("form", SizedForm):
        for operator in row.operators:
            name = row.name or operator
            forms[name] = replace(row, name=name, operators=(operator,))
            if row.cards:
                other = replace(forms[name], name=name + CARDS, sizes=row.cards)
                forms[name + CARDS] = replace(other, ladder=False, beyond=True)
    return forms


def needed(row: SizedForm) -> int:
    """Return the bytes of memory that the largest size takes, about."""
    width: int = min(getattr(torch, name).itemsize for name in row.dtypes)
    return max(_numbers(row, sizes) for sizes in row.sizes) * width * 4


def _tensors(row: SizedForm) -> list[str]:
    return [_dims(word) for word in (*row.arguments, *row.results) if word[0].isalpha()]


def _side(letter: str, sizes: Mapping[str, int]) -> int:
    return int(letter) if letter.isdigit() else sizes.get(letter, 1)


def _dims(word: str) -> str:
    return word.partition(":")[0].rstrip("?!+")


def _count(dims: str, sizes: Mapping[str, int]) -> int:
    return math.prod(_side(letter, sizes) for letter in dims)


def _numbers(row: SizedForm, sizes: Mapping[str, int]) -> int:
    return sum(_count(dims, sizes) for dims in _tensors(row))


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield the row's own sizes, and some of a ladder: all small, and each letter in turn as long as can be afforded."""
    row: SizedForm = point.op
    if str(point.dtype)[6:] not in row.dtypes:
        return
    host = point.device == HOST.torch
    for sizes in row.sizes if point.dtype.itemsize != 2 or not host else ():
        yield _relation(point, row, sizes)
    for place in range(6 if row.ladder else 0):
        yield _relation(point, row, _drawn(point, row, place))


def _drawn(point: OperatorPoint, row: SizedForm, place: int) -> Mapping[str, int]:
    letters = row.letters
    sizes = {letter: point.draw.choice(LADDER[1:] if letter.islower() else LADDER) for letter in letters}
    long = letters[place // 2 % len(letters)] if place % 2 else ""
    if long:
        sizes |= {letter: point.draw.choice((1, 2, 3, 5)) for letter in letters if letter != long}
        fitting = [size for size in LONG if _work(row, {**sizes, long: size}) <= _MOST]
        sizes[long] = point.draw.choice(fitting) if fitting else 513
    while not long and _work(row, sizes) > _SMALL:
        largest = max(sizes, key=lambda letter: sizes[letter])
        sizes[largest] = LADDER[LADDER.index(sizes[largest]) - 1]
    return sizes


def _work(row: SizedForm, sizes: Mapping[str, int]) -> int:
    return max(_count("".join(row.letters), sizes), _numbers(row, sizes))


def _relation(point: OperatorPoint, row: SizedForm, sizes: Mapping[str, int]) -> Relation:
    says = " ".join(f"{letter}={size}" for letter, size in sizes.items())
    code = f"# {row.form}, {says}\nfirst = operator(*arguments, **options)\n# second: the same in float64, of blocks along capital letters"
    op: Any = reduce(getattr, row.operators[0].split("."), torch)
    added = [_count("".join(set(row.letters) - set(dims)), sizes) for dims in _tensors(row)]
    terms = max([1, *added, *(sizes[letter] for letter in row.letters if letter.islower())])
    single = torch.finfo(torch.float32).eps
    floating = point.dtype.is_floating_point
    few = any(letter.islower() and sizes[letter] < 3 for letter in row.letters)  # formulas cancel
    sums = 8 * single * (4 + math.log2(terms) + terms**0.5 / 16)
    tolerance = sums + 4 * torch.finfo(point.dtype).eps if floating else 0.0
    second = _DEFINED.get(row.operators[0], op)
    return _Pieces(
        f"{row.name} of {says}", _made(point, row, sizes), dict(row.options), op, second, code, ulps=0.0, tolerance=tolerance,
        floor=tolerance if few or terms == 1 else 0.0, elementwise=terms == 1, widened=True, row=row, sizes=sizes, device=point.device,
        reducible=False,
    )  # fmt: skip


def _made(point: OperatorPoint, row: SizedForm, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """Return the arguments; numbers that the call writes into are positive."""
    arguments: list[Any] = []
    for word in row.arguments:
        if word.startswith("("):
            arguments.append(tuple(sizes[letter] for letter in word[1:-1]))
        elif not word[0].isalpha():
            arguments.append(int(word))
        else:
            shape = tuple(_side(letter, sizes) for letter in _dims(word))
            below = sizes[word.partition(":")[2]] if ":" in word else 0
            arguments.append(_filled(point, shape, below, word[-1]))
    return tuple(arguments)


def _filled(point: OperatorPoint, shape: tuple[int, ...], below: int, mark: str) -> torch.Tensor:
    count, seed = math.prod(shape), point.draw.randrange(1 << 30)
    pool = torch.randn(min(count, _POOL), generator=torch.Generator().manual_seed(seed))
    if below:
        line = (pool * 1e6).long().remainder(below)
        line[:2] = torch.tensor([below - 1, 0])[: len(line)]
    elif mark == "?":
        line = pool > -1
    elif mark in "!+":
        line = (pool.abs() + 0.1).to(point.dtype)
    else:
        line = pool.to(point.dtype) if point.dtype.is_floating_point else (pool * 1e4).long().to(point.dtype)
    whole = _repeated(line, torch.empty(shape, dtype=line.dtype, device=point.device))
    if mark == "?" and count:
        whole[..., 0] = True  # each row sees something
    return whole


def _repeated(line: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return so many numbers, repeated as often as it takes."""
    times = -(-like.numel() // max(1, len(line)))
    return line.to(like.device, like.dtype).repeat(times)[: like.numel()].reshape(like.shape)


@dataclass(frozen=True)
class _Pieces(Relation):
    """A large call, compared block by block with the same block in float64."""

    row: SizedForm = field(kw_only=True)
    sizes: Mapping[str, int] = field(kw_only=True)
    device: torch.device = field(kw_only=True)

    def wrong(self) -> str:
        """Return the first block in which a result or a gradient is another."""
        fed: dict[int, torch.Tensor] = {}
        with threads(_THREADS):
            try:
                whole = self._results(self.first, self.arguments, fed, {})
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                try:
                    self.second(*widened(self.arguments), **self.options)
                except Exception as wide:
                    raise UnusableError(error_line(wide, 120)) from wide  # the trusted way does not take them either
                refused = "not implemented" in str(error) or 0 in self.sizes.values()
                return "" if refused else f"raises {error_line(error, 150)}"
            for slot, slices, expected in self._pieces(fed):
                actual = whole[slot][slices].to(expected.device)
                if self._near(actual, expected) or not apart(actual, expected, self, ()):
                    continue
                moves = [self._pieces(fed, draw) for draw in range(4)]
                others = [next(piece for at, where, piece in move if (at, where) == (slot, slices)) for move in moves]
                if wrong := apart(actual, expected, self, others):
                    where = ", ".join(str(part.start or 0) for part in slices)
                    count = len(self.row.results)
                    what = f"result {slot}" if slot < count else f"gradient of argument {self._places[slot - count]}"
                    return f"{what}, from [{where}] on: {wrong}"
        return ""

    def _near(self, actual: torch.Tensor, expected: torch.Tensor) -> bool:
        """Whether two blocks plainly agree: most do, and the full comparison takes several copies."""
        if not numeric(actual):
            return actual.dtype is expected.dtype and torch.equal(actual, expected)
        if actual.shape != expected.shape or not numeric(expected):
            return False
        gap, room = actual.to(expected.dtype).sub_(expected).abs_(), expected.abs()
        if not self.elementwise and room.numel():
            return float(gap.max()) <= self.tolerance * float(room.max()) < torch.inf
        return bool((gap <= room.mul_(self.tolerance)).all())

    @property
    def _places(self) -> list[int]:
        """Which arguments have gradients."""
        plain = {place for place, word in enumerate(self.row.arguments) if word[-1] in "!?" or ":" in word}
        return [place for place, leaf in enumerate(self.arguments) if numeric(leaf) and place not in plain]

    def _results(
        self, way: Any, arguments: Any, fed: dict[int, torch.Tensor], block: Mapping[str, slice]
    ) -> list[torch.Tensor]:
        """Return results, what was written into, and gradients; `fed` keeps what each whole result is weighed by."""
        words = self.row.arguments
        inputs = [leaf.clone() if word[-1] == "!" else leaf for leaf, word in zip(arguments, words, strict=True)]
        places = self._places if _numbers(self.row, self.sizes) < _TOO_MANY else []
        for place in places:
            inputs[place] = inputs[place].detach().requires_grad_()
        with torch.set_grad_enabled(bool(places)):
            results = [leaf for leaf in tree_leaves(way(*inputs, **self.options)) if isinstance(leaf, torch.Tensor)]
        written = [leaf for leaf, word in zip(inputs, words, strict=True) if word[-1] == "!"]
        kept = [tensor.detach() for tensor in (*results, *written)]
        roots = {slot: root for slot, root in enumerate(results) if root.requires_grad}
        weights = []
        for slot, root in roots.items():
            if slot not in fed:
                fed[slot] = _repeated(torch.randn(_POOL, generator=torch.Generator().manual_seed(slot)), root)
            weights.append(fed[slot][_slices(self.row.results[slot], block)].to(root.device, root.dtype))
        if not roots:
            return kept
        return [*kept, *torch.autograd.grad([*roots.values()], [inputs[place] for place in places], weights)]

    def _pieces(
        self, fed: dict[int, torch.Tensor], draw: int | None = None
    ) -> Iterator[tuple[int, tuple[slice, ...], torch.Tensor]]:
        """Yield blocks in float64: of which result, where it stands, and its numbers; those that add up come last.

        `draw`: of arguments each of whose numbers moved by a unit in the last place.
        """
        home = self.device if _work(self.row, self.sizes) > _HOSTS and has_float64(str(self.device)) else HOST.torch
        cuts, forms = self._cuts(), self.row.results + [self.row.arguments[place] for place in self._places]
        shared: dict[int, torch.Tensor] = {}
        for chosen in product(*cuts.values()):
            block = dict(zip(cuts, chosen, strict=True))
            pairs = zip(self.arguments, self.row.arguments, strict=True)
            cut = [x[_slices(word, block)].to(home) if isinstance(x, torch.Tensor) else x for x, word in pairs]
            inputs = widened(cut)
            if draw is not None:
                eps = max((torch.finfo(leaf.dtype).eps for leaf in self.arguments if numeric(leaf)), default=0.0)
                inputs = moved(inputs, eps, draw)
            for slot, result in enumerate(self._results(self.second, inputs, fed, block)):
                dims = _dims(forms[slot])
                slices = _slices(dims, block)
                if all(letter in dims or len(cuts[letter]) == 1 for letter in cuts) or not numeric(result):
                    yield slot, slices, result
                    continue
                if slot not in shared:
                    whole = [_side(letter, self.sizes) for letter in dims]
                    shared[slot] = torch.zeros(whole, dtype=result.dtype, device=home)
                shared[slot][slices] += result
        for slot, result in shared.items():
            rows = max(1, _BLOCK // max(1, result[:1].numel()))
            for start in range(0, max(1, len(result)), rows):
                yield slot, (slice(start, start + rows),), result[start : start + rows]

    def _cuts(self) -> dict[str, list[slice]]:
        """Return the slices of each letter: the first capital one is cut at least in two, the others until blocks are small."""
        capitals = [letter for letter in dict.fromkeys("".join(_tensors(self.row))) if letter.isupper()]
        count = {letter: 1 + (place == 0 and self.sizes[letter] > 1) for place, letter in enumerate(capitals)}

        def size(letter: str) -> int:
            return -(-_side(letter, self.sizes) // count.get(letter, 1))

        for dims in _tensors(self.row):
            while math.prod(map(size, dims)) > _BLOCK and (
                able := [letter for letter in dims if letter in count and size(letter) > 1]
            ):
                count[max(able, key=size)] *= 2
        slices = {}
        for letter in capitals:
            edges = [round(self.sizes[letter] * place / count[letter]) for place in range(count[letter] + 1)]
            slices[letter] = [slice(*pair) for pair in pairwise(edges)]
        return slices


def _slices(word: str, block: Mapping[str, slice]) -> tuple[slice, ...]:
    return tuple(block.get(letter, slice(None)) for letter in _dims(word))


def _batch_norm(x: Any, mean: Any, var: Any, weight: Any, bias: Any, *, momentum: float, eps: float, **_: Any) -> Any:
    if x[:, :1].numel() < 2:
        raise UnusableError("no variance")
    shape = (1, -1, 1, 1)
    own = x.mean((0, 2, 3)), x.var((0, 2, 3))
    for kept, statistic in zip((mean, var), own, strict=True):
        kept.lerp_(statistic.detach(), momentum)
    spread = (x.var((0, 2, 3), correction=0) + eps).sqrt()
    return (x - own[0].view(shape)) / spread.view(shape) * weight.view(shape) + bias.view(shape)


def _max_pool(x: Any, kernel: int, stride: int, padding: int) -> Any:
    for dim, edges in ((3, (padding, padding)), (2, (0, 0, padding, padding))):
        windows = functional.pad(x, edges, value=-torch.inf).unfold(dim, kernel, stride).unbind(-1)
        x = reduce(lambda best, other: torch.where(best >= other, best, other), windows)
    return x


def _resized(x: Any, scale_factor: float, mode: str) -> Any:
    if max(x.shape) > 4096:
        raise UnusableError("takes a matrix as large as the square of a side")
    mode = {"bilinear": "linear"}.get(mode, mode)
    eyes = [torch.eye(side, dtype=x.dtype, device=x.device)[None] for side in x.shape[2:]]
    down, across = (functional.interpolate(eye, scale_factor=scale_factor, mode=mode)[0] for eye in eyes)
    return down.mT @ x @ across


def _sorted(x: Any, dim: int, descending: bool, **_: Any) -> Any:
    places = torch.from_numpy((-x if descending else x).detach().cpu().numpy().argsort(dim, kind="stable"))
    places = places.to(x.device)
    return x.gather(dim, places), places


_DEFINED: Mapping[str, Callable[..., Any]] = {
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.batch_norm": _batch_norm,
    "nn.functional.max_pool2d": _max_pool,
    "nn.functional.interpolate": _resized,
    "nn.functional.embedding": lambda index, table: table[index],
    "mean": lambda x, dim: x.sum(dim) / x.shape[dim],
    "sort": _sorted,
}
"""Where the operator in float64 would be the same kernel, or one that sizes decide about."""

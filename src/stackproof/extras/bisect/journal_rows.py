"""What a row of a journal may say, by its key: a table of shapes, so that what was edited or damaged is refused and never believed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from stackproof.api.gate import Observed
from stackproof.api.record import Verdict
from stackproof.extras.bisect.attempts import WORDS

_Holds = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _word(value: Any) -> bool:
    return value in WORDS


def _table(inside: _Holds) -> _Holds:
    return lambda value: isinstance(value, dict) and all(_text(key) and inside(one) for key, one in value.items())


def _list(inside: _Holds) -> _Holds:
    return lambda value: isinstance(value, list) and all(map(inside, value))


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _observed(value: Any) -> bool:
    """Whether it is what a launch saw of one side: nothing but its own fields, and times that can be."""
    known = {one.name for one in fields(Observed)}
    return (
        isinstance(value, dict)
        and set(value) <= known
        and _list(_time)(value.get("blocks"))
        and all(isinstance(value.get(name, {}), dict) for name in ("quantities", "counters", "computed"))
    )


def _time(value: Any) -> bool:
    return _number(value) and value > 0


def _hello(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("facts"), dict)
        and isinstance(value.get("subjects"), (list, dict))
    )


def _places(value: Any) -> bool:
    return _table(_number)(value) and all(re.fullmatch(r"-1|\d+", at) for at in value)


def _loss(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(("subject", "side", "verdict", "reason"))
        and all(map(_text, value))
        and value[2] in {one.value for one in Verdict}
    )


@dataclass(frozen=True)
class RowShape:
    """What rows of some keys hold: all of `must`, of `may` nothing or all, and nothing else."""

    keys: str
    must: Mapping[str, _Holds]
    may: Mapping[str, _Holds]

    def fits(self, key: str, told: Mapping[str, Any]) -> bool:
        """Whether a row is one of these."""
        known = {**self.must, **self.may}
        return (
            re.fullmatch(self.keys, key) is not None
            and set(self.must) <= set(told) <= set(known)
            and all(known[name](value) for name, value in told.items())
        )


_ENDS, _LINES = r"(good|bad) \d+( again \d+)?", r"commits \w+ \d+"
_RUNS = rf"(set \w+|ending) \d+|{_LINES}"
SHAPES = (
    RowShape(f"{_ENDS}|{_RUNS}", {"word": _word, "reason": _text}, {}),
    RowShape(_RUNS, {"seen": _number}, {"level": _number}),
    RowShape(_RUNS, {"none": _text}, {}),
    RowShape(_LINES, {"levels": _places}, {}),
    RowShape(_LINES, {"none": _table(_text)}, {}),
    RowShape("handshake", {"told": _table(_hello)}, {}),
    RowShape("handshake", {"ended": _text}, {}),
    RowShape("deadline", {"scale": _number}, {}),
    RowShape(
        r"ends \d+|good alone",
        {"seen": _table(_table(_observed)), "counted": _flag, "lost": _list(_loss)},
        {},
    ),
)


def fits(key: str, told: Mapping[str, Any]) -> bool:
    """Whether a row says what one of its key may say."""
    return any(shape.fits(key, told) for shape in SHAPES)

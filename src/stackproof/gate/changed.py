"""Do two sides compute the same: equal to the bit, equal within rounding, or CHANGED? Needs no torch.

Of subjects any two fingerprints of `computed` are compared: of a gate's sides, of two steps of a bisection, of two nights. Of commands it
is figures such as losses: each position of the run with the same one of the other side, over all launches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackproof.base.rpc import Message
from stackproof.jobs import metrics
from stackproof.record.records import CellWord

ROUNDING = 1e-9
"""Of a tensor's norm, in float64: about ten million times what one operation rounds, and a hundredth of what any fault is worth."""
_FLOOR = 1e-13
"""Of the largest norm of the group: a gradient that is zero but for rounding has no size of its own."""
TIMED = "timed"
_BUFFER = "buffer"
_LOOSE = {"float64": 1e-9, "float32": 1e-3, "uint8": 0.0}
_LOOSEST = 3e-2
"""What work may differ by in the precision that it is timed in: kernels round differently, and tf32 and half precision do so coarsely."""
_SIZES = 0.1
"""What the size of a whole update may differ by there."""
_SHOWN = 3
_CAUSES = {
    "settings": "the settings are not the same", "worth": "a run is not worth the same", "data": "the data are not the same",
    "initial weights": "training does not start from the same weights", TIMED: "the timed runs from the same seeds differ",
}  # fmt: skip
Series = Sequence[Sequence[float]]
"""One sequence of values for each launch of a side."""
_ENOUGH = 5
"""Launches of each side from which on it is no chance (below 1 %) that all of one lie above all of the other: 2 / C(2n, n)."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same: in which group, and what in words."""

    group: str
    words: str


@dataclass(frozen=True)
class Sameness:
    """How two fingerprints compare; `differences` hold what is beyond rounding, in the order in which causes come before effects."""

    compared: int
    unequal: int
    """So many are not equal to the bit."""
    worst: float
    """The largest relative difference that rounding explains."""
    differences: tuple[Difference, ...]

    @property
    def changed(self) -> bool:
        """Whether the sides compute different things."""
        return bool(self.differences)

    def sentence(self) -> str:
        """Return the word first, then what was seen."""
        if not self.changed:
            near = f"within rounding, {self.unequal} of them differ by at most {self.worst:.1e}"
            how = near if self.unequal else "to the bit"
            return f"SAME {how}: {self.compared} losses, outputs, gradients, updates and settings from equal seeds"
        first = self.differences[0].group
        shown = [each.words for each in self.differences if each.group == first][:_SHOWN]
        also = [group for group in dict.fromkeys(each.group for each in self.differences) if group != first]
        cause, tail = _CAUSES.get(first, f"from the same seeds the {first} differs"), "; so do: " if also else ""
        many = f"{len(self.differences)} of {self.compared} tensors and settings differ"
        return f"CHANGED {cause}: {'; '.join(shown)} ({many}){tail}{', '.join(also)}"


def compare(base: Message, head: Message) -> Sameness:
    """Compare two fingerprints; what only one of them has is a difference, but for a buffer and a group that an older one lacks."""
    diffs = [*_exact("settings", base["settings"], head["settings"]), *_exact("worth", base["worth"], head["worth"])]
    compared, unequal, worst = len(base["settings"]) + len(base["worth"]), 0, 0.0
    for group in dict.fromkeys((*base["groups"], *head["groups"])):
        if (group in base["groups"]) is not (group in head["groups"]):
            continue  # an older side says nothing of it
        before, after = (side["groups"][group] for side in (base, head))
        largest = max((norm for row in before.values() if math.isfinite(norm := row.get("norm", 0.0))), default=0.0)
        compared += len({*before, *after})
        for name in dict.fromkeys((*before, *after)):
            old, new = before.get(name), after.get(name)
            if group == _BUFFER and (old is None or new is None):
                continue  # what it is for shows in what is computed with it
            if old and new and (old["shape"], old["digest"]) == (new["shape"], new["digest"]):
                continue
            unequal += 1
            share = _share(old, new, _FLOOR / ROUNDING * largest if group != TIMED else 0.0)
            if share <= _allowed(group, name, base["dtype"]):
                worst = max(worst, share)
            else:
                diffs.append(Difference(group, _words(group, name, old, new, share)))
    return Sameness(compared, unequal, worst, tuple(diffs))


def timed_alike(fields: Message, other: Message, dtype: str) -> bool:
    """Whether two sketches of timed work are equal within what its precision rounds."""
    bare = [{"settings": {}, "worth": {}, "dtype": dtype, "groups": {TIMED: each}} for each in (fields, other)]
    return not compare(*bare).changed


def _exact(group: str, base: Mapping[str, Any], head: Mapping[str, Any]) -> Iterator[Difference]:
    """Settings that only one version of a library knows are no difference: what they do shows in the updates."""
    for name in base.keys() & head.keys():
        if base[name] != head[name]:
            yield Difference(group, f"{name} is {head[name]} and was {base[name]}")


def _allowed(group: str, name: str, dtype: str) -> float:
    if group != TIMED:
        return ROUNDING
    return max(_SIZES, _LOOSE.get(dtype, _LOOSEST)) if name.startswith("size") else _LOOSE.get(dtype, _LOOSEST)


def _share(base: Message | None, head: Message | None, floor: float) -> float:
    """Return the distance of two tensors by their sketches, as a share of the base's norm."""
    if base is None or head is None or base["shape"] != head["shape"] or "sketch" not in base or "sketch" not in head:
        return math.inf
    squares = [(after - before) ** 2 for before, after in zip(base["sketch"], head["sketch"], strict=True)]
    distance, size = math.sqrt(sum(squares) / len(squares)), max(base["norm"], floor)
    if not math.isfinite(distance) or not math.isfinite(size):
        return math.inf
    return distance / size if size > 0 else (math.inf if distance > 0 else 0.0)


def _words(group: str, name: str, fields: Message | None, other: Message | None, share: float) -> str:
    if fields is None or other is None:
        return f"only the {'head' if fields is None else 'base'} has '{name}'"
    if fields["shape"] != other["shape"]:
        return f"'{name}' has shape {other['shape']} and had {fields['shape']}"
    label = name if name in group or group == TIMED else f"{group} '{name}'"
    if "sketch" not in fields:
        return f"{label} is not the same"
    if math.prod(fields["shape"]) == 1:
        return f"{label} {other['norm']:.6g} against {fields['norm']:.6g} ({_percent(share)})"
    return f"{label} by {_percent(share)} of its norm"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if math.isfinite(share) else "not finite"


def units(base: Mapping[str, int], head: Mapping[str, int]) -> str:
    """Return in what the work that was done in the timed blocks differs; nothing if it is the same to the unit."""
    names = [name for name in dict.fromkeys((*base, *head)) if base.get(name) != head.get(name)]
    return "; ".join(f"{name}: {base.get(name, 'none')} -> {head.get(name, 'none')}" for name in names)


def of_callback(steps: Path) -> dict[str, list[float]]:
    """Return the figures that a callback wrote beside the seconds, such as the loss of every step."""
    groups: dict[str, list[float]] = {}
    for row in metrics.rows_of(steps):
        for name, value in row.items():
            if name not in ("seconds", "step"):  # what is no finite number is a word there
                groups.setdefault(name, []).append(float(value))
    return groups


def compare_figures(base: Series, head: Series, within: float = 0.0) -> tuple[CellWord, str]:
    """Compare all values of a figure and return the word and why; `within`: a relative difference that is allowed, 0 for none.

    Where each side says the same in every launch, so must both. One that varies by itself can only be seen to have moved: its
    means over a run of all launches of one side lie beyond all of the other's.
    """
    if any(len(set(map(len, series))) > 1 for series in (base, head)):
        return CellWord.NOT_JUDGED, "one side gives now more and now fewer values of it by itself"
    many, other = len(base[0]), len(head[0])
    if many != other:
        return CellWord.CHANGED, f"CHANGED the base gives {many} values of it, the head {other}"
    bad = next((value for values in (*base, *head) for value in values if not math.isfinite(value)), None)
    if bad is not None:
        return CellWord.CHANGED, f"CHANGED a value is {bad}"
    own = max(_spread(base), _spread(head))
    if own > within:
        return _varying(base, head, own)
    befores, afters = base[0], head[0]
    shares = [_distance(before, after) for before, after in zip(befores, afters, strict=True)]
    worst = max(shares)
    allowed = f"within {100 * within:.3g} %" if within else "to the digit"
    if worst <= within:
        return CellWord.SAME, f"SAME {allowed}: {many} values, the last is {afters[-1]:g}"
    at = next(number for number, share in enumerate(shares) if share > within)
    first = f"value {at + 1} of {many} is {afters[at]:.8g} and was {befores[at]:.8g}"
    return CellWord.CHANGED, f"CHANGED {first}; the largest difference is {100 * worst:.3g} %"


def _varying(base: Series, head: Series, own: float) -> tuple[CellWord, str]:
    sides = [[sum(values) / len(values) for values in series] for series in (base, head)]
    before, after = (sum(side) / len(side) for side in sides)
    seen = f"means over a run are {before:.6g} and {after:.6g}"
    apart = max(sides[0]) < min(sides[1]) or max(sides[1]) < min(sides[0])
    if apart and min(map(len, sides)) >= _ENOUGH:
        return CellWord.CHANGED, f"CHANGED beyond what varies by itself ({100 * own:.3g} %): {seen}"
    return CellWord.NOT_JUDGED, f"it varies by {100 * own:.3g} % by itself from launch to launch; {seen}"


def _spread(series: Series) -> float:
    return max((_distance(min(values), max(values)) for values in zip(*series, strict=True)), default=0.0)


def _distance(before: float, after: float) -> float:
    size = max(abs(before), abs(after))
    return abs(after - before) / size if size else 0.0

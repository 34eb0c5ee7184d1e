"""Pictures as SVG without scripts, whose text is always text: a strip of ratios, a line with its band."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from stackproof.api.base import statistics, text

_TICKS = 4


def escaped(value: object) -> Markup:
    """Return anything as markup; an escaping of jinja2's own would let through what a terminal or a reader obeys."""
    return value if isinstance(value, Markup) else Markup(text.in_html(str(value)))  # noqa: S704 - it is escaped


def el(tag: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` is class, `data_x` is data-x, an attribute of None is left out."""
    present = {key: value for key, value in attributes.items() if value is not None}
    words = "".join(_attribute(key, value) for key, value in present.items())
    return Markup(f"<{tag}{words}>{''.join(escaped(child) for child in children)}</{tag}>")  # noqa: S704 - each part is escaped above


def _attribute(key: str, value: object) -> str:
    return f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'


def strip(
    interval: tuple[float, float, float], ratios: Sequence[float], effect: float, width: float, height: float
) -> Markup:  # fmt: skip
    """Return a ratio between its bounds (low, ratio, high): a dot for each launch's ratio, the minimum effect shaded."""
    place, middle = statistics.strip_scale(effect, width), height / 2
    low, ratio, high = map(place, interval)
    left, right = place(1 / (1 + effect)), place(1 + effect)
    paths: dict[str, tuple[str, dict[str, object]]] = {
        "same": (f"M{place(1.0)} 0v{height}", {"stroke": "#999"}),
        "reach": (f"M{low} {middle}H{max(high, low + 1)}", {"stroke_width": height / 3, "opacity": 0.35}),
        "dots": ("".join(f"M{place(value)} {middle}h0" for value in ratios if value > 0), {"stroke_width": height / 5, "opacity": 0.6}),
        "mark": (f"M{ratio} {middle}h0", {"stroke_width": height / 3}),
    }  # fmt: skip
    return el(
        "g",
        el("rect", x=left, width=round(right - left, 1), height=height, fill="#eef1f4", class_="effect"),
        *(
            el("path", d=path, class_=name, **({"stroke": "#555", "stroke_linecap": "round", "fill": "none"} | dress))
            for name, (path, dress) in paths.items()
            if path
        ),
    )


def line(points: Sequence[tuple[int, int]]) -> str:
    """Return a path from point to point; one point alone is a dot where the style has round ends."""
    return _path(points) + ("h0" if len(points) == 1 else "")


def band(upper: Sequence[tuple[int, int]], lower: Sequence[tuple[int, int]]) -> str:
    """Return the path around what lies between two lines."""
    return f"{_path([*upper, *reversed(lower)])}z"


def _path(corners: Sequence[tuple[int, int]]) -> str:
    """Return a path in steps from corner to corner: they are shorter to write than the corners."""
    (x, y), *rest = corners
    path = f"M{x} {y}"
    for number, (to_x, to_y) in enumerate(rest):
        across, down = str(to_x - x), str(to_y - y)
        gap = "l" if not number else "" if across.startswith("-") else " "
        path += f"{gap}{across}{'' if down.startswith('-') else ' '}{down}"
        x, y = to_x, to_y
    return path


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two ends, a few of them."""
    rough = (high - low) / _TICKS or 1.0
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]

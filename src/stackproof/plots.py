"""Pictures of a benchmark's record, as PNG and SVG: bandwidth by size, and how the samples of each subject are spread.

matplotlib comes with ultralytics into most stacks' environments; where it is not, the refusal says what to install. It is imported
inside the functions that draw.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import Refusal
from .records import Measurement, Record
from .summary import label
from .units import shown

_INK, _FAINT, _ACCENT, _SECOND = "#1f2933", "#9aa5b1", "#0b69a3", "#c65d21"
_FORMATS = ("png", "svg")
_MOST_STRIPS = 24
_TAIL = 0.02
_STYLE: Any = {
    "font.family": "sans-serif", "font.size": 9, "axes.edgecolor": _FAINT, "axes.labelcolor": _INK, "text.color": _INK,
    "xtick.color": _INK, "ytick.color": _INK, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
    "svg.hashsalt": "stackproof", "figure.dpi": 120, "savefig.bbox": "tight", "text.usetex": False, "text.parse_math": False,
}  # fmt: skip


def require() -> None:
    """Refuse at once where nothing could be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Refusal(
            "--plots needs matplotlib, which is not installed here; `python -m pip install matplotlib`, or leave --plots out"
        )


def draw(record: Record, folder: Path) -> list[Path]:
    """Draw what the record has figures for and return the files; they replace those of an earlier run.

    Raises:
        Refusal: matplotlib is not there, the folder cannot be written, or the record has nothing to draw.
    """
    require()
    import matplotlib as mpl

    mpl.use("agg")
    with mpl.rc_context(_STYLE):
        drawn = {"bandwidth": _bandwidth(record), "distribution": _distribution(record)}
        made = {name: figure for name, figure in drawn.items() if figure is not None}
        if not made:
            raise Refusal(
                "--plots: this record holds no samples of benchmarks; run `bench` without --only, or with another profile"
            )
        return [path for name, figure in made.items() for path in _saved(figure, folder / f"{record.stack}-{name}")]


def _saved(figure: Any, stem: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in _FORMATS]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        for path in paths:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise Refusal(
            f"{stem.parent}: nothing can be drawn there ({error.strerror}); choose another folder with --plots"
        ) from error
    finally:
        plt.close(figure)
    return paths


def _subtitle(record: Record) -> str:
    """Return what every picture must say: which stack, device, driver and when."""
    facts = record.provenance
    device = next(
        (str(value) for name, value in facts.items() if name.endswith(".name")), str(facts.get("machine", ""))
    )
    words = (label(record), device, f"torch {facts.get('torch', '')}", record.started[:10])
    return " · ".join(word for word in words if word.strip())


def _bandwidth(record: Record) -> Any:
    """Draw bus bandwidth against size, a line for each collective and number of ranks; None without two sizes of one."""
    curves = {name: sorted(points) for name, points in _curves(record).items() if len(points) > 1}
    if not curves:
        return None
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for colour, (name, points) in zip(_colours(len(curves)), curves.items(), strict=True):
        sizes, middles, lows, highs = zip(*points, strict=True)
        axes.fill_between(sizes, lows, highs, color=colour, alpha=0.15, linewidth=0)
        axes.plot(sizes, middles, color=colour, marker="o", markersize=4, linewidth=1.5)
        axes.annotate(f" {name}", (sizes[-1], middles[-1]), color=colour, va="center", annotation_clip=False)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    ticks = sorted({point[0] for points in curves.values() for point in points})
    axes.set_xticks(ticks, [_size(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color=_FAINT, alpha=0.3, linewidth=0.6)
    axes.set_xlabel("size of the whole tensor")
    axes.set_ylabel("GB/s busbw")
    _head(axes, "Bus bandwidth by size", record)
    return figure


def _curves(record: Record) -> dict[str, list[tuple[float, float, float, float]]]:
    """Return (bytes, bandwidth, its low, its high) by collective and ranks."""
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    for row in record.measurements:
        gigabytes, factor = row.figures.get("one run, GB"), row.figures.get("one run, GB over a link")
        if (
            row.metric == "collective"
            and isinstance(gigabytes, float)
            and isinstance(factor, float)
            and row.unit == "s/GB"
        ):
            share, low, high = factor / gigabytes, float(row.figures["low"]), float(row.figures["high"])
            name = f"{row.figures.get('call', row.workload)}, {row.world_size} ranks"
            found.setdefault(name, []).append((gigabytes * 1e9, share / row.value, share / high, share / low))
    return found


def _distribution(record: Record) -> Any:
    """Draw a strip for each subject: its samples against their median, so that a tail or a second mode is seen."""
    rows = [row for row in record.measurements if row.version and len(row.samples) >= 8][:_MOST_STRIPS]
    if not rows:
        return None
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 0.7 + 0.34 * len(rows)))
    for place, row in enumerate(reversed(rows)):
        _strip(axes, place, row)
    axes.axvline(1.0, color=_FAINT, linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(rows)), [row.workload for row in reversed(rows)])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.6, len(rows) - 0.2)
    low, high = axes.get_xlim()
    axes.set_xlim(max(low, 0.5), min(max(high, 1.05), 2.0))
    axes.set_xlabel("time of a sample / median (left is faster; the line is the median's 95 % interval)")
    _head(axes, "How the samples are spread", record)
    return figure


def _strip(axes: Any, place: int, row: Measurement) -> None:
    """Draw one subject: the density of its samples, its interval, its rate at the right."""
    ordered, middle = sorted(row.samples), row.value
    kept = [sample / middle for sample in ordered[: max(1, int(len(ordered) * (1 - _TAIL)))]]
    low, high = (float(row.figures.get(name, middle)) / middle for name in ("low", "high"))
    bins = max(8, min(40, round(math.sqrt(len(kept)) * 2)))
    counts, edges = _histogram(kept, bins)
    heights = [0.8 * count / max(counts) for count in counts]
    axes.stairs(
        [place - 0.35 + height for height in heights],
        edges,
        baseline=place - 0.35,
        fill=True,
        color=_ACCENT,
        alpha=0.55,
    )
    axes.plot([low, high], [place - 0.35] * 2, color=_SECOND, linewidth=2.5, solid_capstyle="butt")
    axes.annotate(
        shown(row.value, row.unit), (1.01, place - 0.1), xycoords=("axes fraction", "data"), va="center", fontsize=8
    )


def _histogram(values: Sequence[float], bins: int) -> tuple[list[int], list[float]]:
    low, high = min(values), max(values)
    width = (high - low) / bins or 1e-6
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / width))] += 1
    return counts, [low + width * number for number in range(bins + 1)]


def _head(axes: Any, title: str, record: Record) -> None:
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=18)
    axes.annotate(
        _subtitle(record),
        (0, 1),
        xytext=(0, 5),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8,
        color=_FAINT,
    )


def _colours(count: int) -> list[Any]:
    import matplotlib as mpl

    return [mpl.colormaps["viridis"](0.05 + 0.8 * number / max(1, count - 1)) for number in range(count)]


def _size(value: float) -> str:
    size = round(value)
    for step, word in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= step:
            return f"{size / step:g} {word}"
    return f"{size} B"

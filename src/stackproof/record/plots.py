"""Pictures of a benchmark's record, as PNG and SVG: bandwidth by size, and how the samples of each subject are spread.

matplotlib comes with ultralytics into most stacks' environments; where it is not, the refusal says what to install. It is imported
inside the functions that draw.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stackproof.base import advice
from stackproof.base.errors import Refusal
from stackproof.base.units import shown
from stackproof.record.console import label
from stackproof.record.records import Measurement, Record

_INK, _FAINT, _ACCENT, _SECOND = "#1f2933", "#9aa5b1", "#0b69a3", "#c65d21"
_FORMATS = ("png", "svg")
_MOST_STRIPS = 60
_FEWEST_SAMPLES, _FEWEST_SIZES = 8, 2
_TAIL = 0.02
_BINS = 80
_STYLE: Any = {
    "font.family": "sans-serif", "font.size": 9, "axes.edgecolor": _FAINT, "axes.labelcolor": _INK, "text.color": _INK,
    "xtick.color": _INK, "ytick.color": _INK, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
    "svg.hashsalt": "stackproof", "figure.dpi": 120, "savefig.bbox": "tight", "text.usetex": False, "text.parse_math": False,
}  # fmt: skip


def require() -> None:
    """Refuse at once where nothing could be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Refusal(
            f"--plots needs matplotlib, which is not installed here; `{advice.install('matplotlib')}`, or leave --plots out"
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
    curves = {name: sorted(points) for name, points in _curves(record).items() if len(points) >= _FEWEST_SIZES}
    if not curves:
        return None
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    places = _apart({name: points[-1][1] for name, points in curves.items()}, curves)
    for colour, (name, points) in zip(_colours(len(curves)), curves.items(), strict=True):
        sizes, middles, lows, highs = zip(*points, strict=True)
        axes.fill_between(sizes, lows, highs, color=colour, alpha=0.15, linewidth=0)
        axes.plot(sizes, middles, color=colour, marker="o", markersize=4, linewidth=1.5)
        axes.annotate(f"  {name}", (sizes[-1], places[name]), color=colour, va="center", annotation_clip=False)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ticks = sorted({point[0] for points in curves.values() for point in points})
    axes.set_xticks(ticks, [_size(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color=_FAINT, alpha=0.3, linewidth=0.6)
    axes.set_xlabel("size of the whole tensor")
    axes.set_ylabel("GB/s busbw")
    _head(axes, "Bus bandwidth by size", record)
    return figure


def _apart(ends: dict[str, float], curves: dict[str, list[tuple[float, float, float, float]]]) -> dict[str, float]:
    """Return where the curves' names stand: at their ends, but far enough from one another to be read."""
    values = [point[1] for points in curves.values() for point in points]
    gap = (max(values) / min(values)) ** 0.06
    found: dict[str, float] = {}
    for name in sorted(ends, key=lambda one: ends[one]):
        found[name] = max(ends[name], max(found.values()) * gap) if found else ends[name]
    pushed = (max(found.values()) / max(ends.values())) ** 0.5
    return {name: place / pushed for name, place in found.items()}


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
    rows = _strips(record)[:_MOST_STRIPS]
    if not rows:
        return None
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 0.7 + 0.34 * len(rows)))
    window = _window(rows)
    for place, row in enumerate(reversed(rows)):
        _strip(axes, place, row, window)
    axes.axvline(1.0, color=_FAINT, linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(rows)), [row.workload for row in reversed(rows)])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.6, len(rows) - 0.2)
    axes.set_xlim(*window)
    axes.set_xlabel("time of a sample / median (left is faster; the line is the median's 95 % interval)")
    _head(axes, "How the samples are spread", record)
    return figure


def _strips(record: Record) -> list[Measurement]:
    return [row for row in record.measurements if row.version and len(row.samples) >= _FEWEST_SAMPLES]


def not_drawn(record: Record) -> list[str]:
    """Return a sentence for each figure of a benchmark that no picture shows, with the reason: nobody looks for what is not there."""
    strips = _strips(record)
    drawn = {row.workload for row in strips[:_MOST_STRIPS]}
    found = [f"{row.workload}: beyond the {_MOST_STRIPS} that one picture holds" for row in strips[_MOST_STRIPS:]]
    found += [
        f"{row.workload}: {len(row.samples)} samples, and a strip needs {_FEWEST_SAMPLES}"
        for row in record.measurements
        if row.version and row.workload not in drawn and len(row.samples) < _FEWEST_SAMPLES
    ]
    few = {name for name, points in _curves(record).items() if len(points) < _FEWEST_SIZES}
    return [
        *dict.fromkeys(found),
        *(f"bandwidth of {name}: one size only, and a curve needs {_FEWEST_SIZES}" for name in sorted(few)),
    ]


def _window(rows: Sequence[Measurement]) -> tuple[float, float]:
    """Return the part of the axis that holds nearly all samples of all subjects, at least 5 % and at most a factor of 2 either side."""
    low = min(_quantile(row, _TAIL) for row in rows)
    high = max(_quantile(row, 1 - _TAIL) for row in rows)
    return max(0.5, min(low, 0.95)) - 0.01, min(2.0, max(high, 1.05)) + 0.01


def _quantile(row: Measurement, share: float) -> float:
    ordered = sorted(row.samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / row.value


def _strip(axes: Any, place: int, row: Measurement, window: tuple[float, float]) -> None:
    """Draw one subject: the density of its samples, its interval, its rate at the right."""
    counts, edges = _histogram([sample / row.value for sample in row.samples], window)
    low, high = (float(row.figures.get(name, row.value)) / row.value for name in ("low", "high"))
    base, most = place - 0.35, max(counts) or 1
    heights = [base + 0.8 * count / most for count in counts]
    axes.stairs(heights, edges, baseline=base, fill=True, color=_ACCENT, alpha=0.55)
    axes.plot([low, high], [base] * 2, color=_SECOND, linewidth=2.5, solid_capstyle="butt")
    axes.annotate(
        shown(row.value, row.unit), (1.01, place - 0.1), xycoords=("axes fraction", "data"), va="center", fontsize=8
    )


def _histogram(values: Sequence[float], window: tuple[float, float]) -> tuple[list[int], list[float]]:
    """Count values in equal bins over the window; the few beyond it are left out."""
    low, width = window[0], (window[1] - window[0]) / _BINS
    counts = [0] * _BINS
    for value in values:
        if window[0] <= value < window[1]:
            counts[int((value - low) / width)] += 1
    return counts, [low + width * number for number in range(_BINS + 1)]


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

    return [mpl.colormaps["viridis"](0.05 + 0.7 * number / max(1, count - 1)) for number in range(count)]


def _size(value: float) -> str:
    size = round(value)
    for step, word in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= step:
            return f"{size / step:g} {word}"
    return f"{size} B"

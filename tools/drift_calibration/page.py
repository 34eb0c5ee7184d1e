"""The page of a calibration of nights: tables for `docs/drift.md`, each figure with its interval, and one drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from stackproof.extras.nights.drift.rules import Cause
from tools.gate_calibration.calibrate import Share
from tools.gate_calibration.page import put

if TYPE_CHECKING:
    from tools.drift_calibration.__main__ import Quiet, Step

_SHOWN = 30


@dataclass(frozen=True)
class Results:
    """All that was measured; `blamed`: first causes of planted steps, None where nothing was suspected."""

    quiets: Sequence[Quiet]
    steps: Sequence[Step]
    blamed: Mapping[tuple[Cause, float], Sequence[Cause | None]]
    seconds: float


def tables(results: Results) -> str:
    """Return the tables as Markdown."""
    parts = [
        "Nothing happens: suspicions and told changes for each 1,000 series-nights (95 % interval), and alarms of others:",
        "",
    ]
    parts += [
        *_quiet(results.quiets),
        "",
        "A step on night 91: share found within 30 nights (95 %), median nights until then (1: the first night):",
        "",
    ]
    parts += [
        *_steps(results.steps),
        "",
        "The first cause of the first suspicion after a planted step, of those that were suspected within 15 nights:",
        "",
    ]
    parts += [
        *_causes(results.blamed),
        "",
        f"Tonight's look at 10,000 series of 300 nights takes {results.seconds:.1f} s of a processor.",
    ]
    return "\n".join(parts)


def rate(count: int, total: int) -> str:
    """Return how many of 1,000, between the bounds of 95 %."""
    low, high = Share(count, total).interval
    return f"{1000 * count / total:.2f} [{1000 * low:.2f}, {1000 * high:.2f}]" if total else "-"


def share(count: int, total: int) -> str:
    """Return a share between its bounds of 95 %."""
    low, high = Share(count, total).interval
    return f"{count / total:.0%} [{low:.0%}, {high:.0%}]" if total else "-"


def _names(rows: Sequence[Quiet] | Sequence[Step]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.rivals))


def _quiet(rows: Sequence[Quiet]) -> list[str]:
    names = _names(rows)
    lines = [f"| series | suspected | told | gates | {' | '.join(names)} |", f"|---|{'---:|' * (3 + len(names))}"]
    for row in rows:
        suspected, told = (sum(map(len, those)) for those in (row.seen.suspected, row.seen.told))
        others = [rate(*row.rivals[name]) if name in row.rivals else "" for name in names]
        first = [row.world, rate(suspected, row.nights), rate(told, row.nights), rate(row.seen.gates, row.nights)]
        lines.append(f"| {' | '.join([*first, *others])} |")
    suspected, told = (sum(sum(map(len, each)) for each in those) for those in _both(rows))
    nights = sum(row.nights for row in rows)
    return [*lines, f"| **all** | {rate(suspected, nights)} | **{rate(told, nights)}** | |{' |' * len(names)}"]


def _both(rows: Sequence[Quiet]) -> tuple[list[list[list[int]]], list[list[list[int]]]]:
    return [row.seen.suspected for row in rows], [row.seen.told for row in rows]


def _steps(rows: Sequence[Step]) -> list[str]:
    names = _names(rows)
    lines = [
        f"| series | step | suspected | nights | first night | told | nights | first night | {' | '.join(names)} |",
        f"|---|---:|{'---:|' * (6 + len(names))}",
    ]
    for row in rows:
        ramp = f", over {row.ramp} nights" if row.ramp else ""
        others = [_found(*row.rivals[name]) if name in row.rivals else "" for name in names]
        both = [cell for those in (row.suspected, row.told) for cell in _cells(those, row.series)]
        lines.append(f"| {' | '.join([row.world, f'{row.size:.0%}{ramp}', *both, *others])} |")
    return lines


def _cells(found: Sequence[int], series: int) -> tuple[str, str, str]:
    return share(len(found), series), _nights(found), share(found.count(1), series)


def _nights(found: Sequence[int]) -> str:
    return f"{median(found):g}" if found else "-"


def _found(nights: Sequence[int], series: int) -> str:
    return f"{share(len(nights), series)}, {_nights(nights)}"


def _causes(blamed: Mapping[tuple[Cause, float], Sequence[Cause | None]]) -> list[str]:
    lines = ["| planted | step | suspected | right | wrong ones |", "|---|---:|---:|---:|---|"]
    for (cause, size), found in blamed.items():
        told = [one for one in found if one is not None]
        wrong = ", ".join(sorted({one.value for one in told if one is not cause})) or "none"
        right = share(told.count(cause), len(told))
        lines.append(f"| {cause.value} | {size:.0%} | {share(len(told), len(found))} | {right} | {wrong} |")
    whole = [(cause, one) for (cause, _), found in blamed.items() for one in found if one is not None]
    right = share(sum(cause is one for cause, one in whole), len(whole))
    return [*lines, f"| **all** | | | **{right}** | |"]


def draw(results: Results, path: Path) -> None:
    """Draw the share of planted steps that are found against the nights since, ours by size and the others' at 2 %."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    white = [row for row in results.steps if row.world == "white" and not row.ramp]
    for row in white:
        _line(axes, row.suspected, row.series, f"ours, {row.size:.0%}", "-", 2.0)
    for row in white:
        for name, (nights, series) in row.rivals.items() if row.size == 0.02 else ():
            _line(axes, nights, series, f"{name}, 2%", ":", 1.2)
    axes.set_xlabel("nights since the step, the first is 1")
    axes.set_ylabel("series in which it is found, per cent")
    axes.set_ylim(-2, 102)
    axes.set_title("Steps found at 1 % noise after 90 quiet nights", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def _line(axes: object, nights: Sequence[int], series: int, label: str, style: str, width: float) -> None:
    shares = [100 * sum(night <= until for night in nights) / max(series, 1) for until in range(1, _SHOWN + 1)]
    axes.plot(range(1, _SHOWN + 1), shares, style, label=label, linewidth=width)  # type: ignore[attr-defined]


__all__ = ["Results", "draw", "put", "rate", "share", "tables"]

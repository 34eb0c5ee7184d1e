"""The page of a calibration: tables for `docs/how-good.md`, and figures as PNG and SVG. What was not measured says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from stackproof.base.errors import Refusal
from stackproof.gate import plan
from tools.gate_calibration import drawing
from tools.gate_calibration.calibrate import OURS, Share, Trial, by_others, failing, found, unsure
from tools.gate_calibration.doses import Calibration
from tools.gate_calibration.drawing import Drawn
from tools.gate_calibration.others import JUDGES

BEGIN, END = "<!-- calibration: begin -->", "<!-- calibration: end -->"
_NONE = "not yet measured"
_KIND = "cpu"
_DRAWN, _BETWEEN = 1000, (0.04, 0.06, 0.10)


def tables(calibration: Calibration, trials: Sequence[Trial], curve: Sequence[Drawn] = ()) -> str:
    """Return the tables as Markdown: whole gates by dose and by tool, single cells by dose, drawn gates, and what a gate costs."""
    rows = {dose.name: [trial for trial in trials if trial.dose == dose.name] for dose in calibration.doses}
    parts = [
        _where(trials),
        "",
        "Gates that fail, of so many (95 % interval), each tool on the same seconds:",
        "",
        *_whole(rows),
    ]
    parts += [
        "",
        "Cells that are called SLOWER, by subject, and the median of the minimum detectable effect with equal sides:",
        "",
    ]
    parts += [*_cells(calibration, rows), *_drawn(curve), "", "What a gate costs:", "", *_costs(rows)]
    return "\n".join(parts)


def _where(trials: Sequence[Trial]) -> str:
    if not trials:
        return f"**{_NONE}**: run `nox -s gate-calibration` on a quiet machine."
    load = max(float(trial.facts.get("load", 0.0)) for trial in trials)
    places = Counter(_place(trial) for trial in trials)
    rows = "".join(f"\n- {many} on {place}" for place, many in sorted(places.items()))
    return f"{len(trials)} gates; what did not belong to them used at most {load:.0%} of a host's cores.\n{rows}"


def _place(trial: Trial) -> str:
    facts = trial.facts
    told = [
        facts.get("cpu.name", "a CPU without a name"),
        f"torch {facts.get('torch', 'unknown')}",
        facts.get("at once"),
    ]
    return ", ".join(str(one) for one in told if one)


def _whole(rows: Mapping[str, list[Trial]]) -> list[str]:
    lines = [f"| planted | {OURS} | it cannot say | {' | '.join(JUDGES)} |", f"|---|{'---|' * (len(JUDGES) + 2)}"]
    for name, trials in rows.items():
        others = [str(by_others(trials, judge)) if trials else _NONE for judge in JUDGES]
        lines.append(f"| {name} | {failing(trials)} | {unsure(trials)} | {' | '.join(others)} |")
    return lines


def _cells(calibration: Calibration, rows: Mapping[str, list[Trial]]) -> list[str]:
    lines = [
        f"| planted | {' | '.join(calibration.gate.subjects)} |",
        f"|---|{'---|' * len(calibration.gate.subjects)}",
    ]
    for name, trials in rows.items():
        lines.append(f"| {name} | {' | '.join(str(found(trials, subject)) for subject in calibration.gate.subjects)} |")
    equal = rows[calibration.doses[0].name]
    seen = [_visible(equal, subject) for subject in calibration.gate.subjects]
    return [*lines, f"| sees from | {' | '.join(seen)} |"]


def drawn(calibration: Calibration, trials: Sequence[Trial]) -> list[Drawn]:
    """Draw gates of each known loss from the launches of equal sides; none where those are too few for a gate and its like."""
    declared = plan.load()
    launches = drawing.pool(
        [trial for trial in trials if trial.dose == calibration.doses[0].name], declared.design.looks[0]
    )
    if len(launches) < 2 * declared.design.looks[-1]:
        return []
    losses = [dose.worse for dose in calibration.doses if dose.worse is not None]
    return [drawing.draw(launches, worse, declared, _KIND, _DRAWN) for worse in sorted({*losses, *_BETWEEN})]


def _drawn(curve: Sequence[Drawn]) -> list[str]:
    if not curve:
        return []
    told = (
        f"{_DRAWN} gates of each loss, drawn from the launches of those with equal sides "
        "(their times alone; they share launches):"
    )
    table = [f"| {one.worse:.1%} | {one.failed:.1%} | {one.unsure:.1%} |" for one in curve]
    return ["", told, "", "| added to the head's seconds | fail | cannot say, or blind |", "|---:|---:|---:|", *table]


def _visible(trials: Sequence[Trial], subject: str) -> str:
    values = [trial.visible[f"{subject}::time"] for trial in trials if f"{subject}::time" in trial.visible]
    return f"{median(values):.1%}" if values else _NONE


def _costs(rows: Mapping[str, list[Trial]]) -> list[str]:
    lines = ["| planted | median minutes | longest | median launches |", "|---|---:|---:|---:|"]
    for name, trials in rows.items():
        minutes = [trial.seconds / 60 for trial in trials]
        told = (
            f"{median(minutes):.1f} | {max(minutes):.1f} | {median(trial.launches for trial in trials):g}"
            if trials
            else " | ".join([_NONE] * 3)
        )
        lines.append(f"| {name} | {told} |")
    return lines


def put(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page; the rest is people's own."""
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Refusal(f"{page}: has no '{BEGIN}' and '{END}' to put the tables between; add both lines")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def draw(calibration: Calibration, trials: Sequence[Trial], stem: Path, curve: Sequence[Drawn] = ()) -> list[Path]:
    """Draw the share of gates that fail against what was planted, a line for each tool; nothing without two doses of known size."""
    points = {
        dose.worse: [trial for trial in trials if trial.dose == dose.name]
        for dose in calibration.doses
        if dose.worse is not None
    }
    known = {worse: rows for worse, rows in sorted(points.items()) if rows}
    if len(known) < 2:
        return []
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for number, name in enumerate((OURS, *JUDGES)):
        shares = {worse: failing(rows) if name == OURS else by_others(rows, name) for worse, rows in known.items()}
        _line(axes, shares, name, number)
    if curve:
        axes.plot([100 * one.worse for one in curve], [100 * one.failed for one in curve], "k:", label=f"{OURS}, drawn")
    axes.set_xlabel("planted slowdown, per cent of a step")
    axes.set_ylabel("gates that fail, per cent")
    axes.set_ylim(-2, 102)
    axes.set_title("What is found, and what is cried for nothing (bars: 95 %)", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(f".{kind}") for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, bbox_inches="tight", dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return paths


def _line(axes: Any, shares: Mapping[float, Share], name: str, number: int) -> None:
    """Draw one tool's line, a little aside of the others, with its intervals."""
    places = [100 * worse + 0.06 * number for worse in shares]
    middle = [100 * share.count / share.total for share in shares.values()]
    low = [centre - 100 * share.interval[0] for centre, share in zip(middle, shares.values(), strict=True)]
    high = [100 * share.interval[1] - centre for centre, share in zip(middle, shares.values(), strict=True)]
    width, alpha = (2.2, 1.0) if name == OURS else (1.0, 0.7)
    axes.errorbar(places, middle, yerr=[low, high], label=name, marker="o", markersize=4, linewidth=width, alpha=alpha)

"""Measures a grid of settings against the defaults, each interleaved with them, and says which of them the library ignored."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stackproof.base.errors import Refusal
from stackproof.base.text import shown
from stackproof.bench.subjects import kinds_of
from stackproof.gate import gate
from stackproof.gate.cells import TIME, Cell
from stackproof.gate.gate import Comparison, GateProgress, GateRun, chosen_stack, compare, compared, make_comparison
from stackproof.gate.interleave import Answer, LaunchTerms, LiveSide, SideEndedError, SideSpec
from stackproof.gate.plan import RANKED
from stackproof.gate.report import SMALLEST, sees, word
from stackproof.gate.variants import CompareRequest, Variant
from stackproof.record import outline, writer
from stackproof.record.outline import Heading, Part, Span, TextLine, TextTable
from stackproof.record.records import CellWord, Check, Figure, Kind, Record, Verdict, overall

_PROBE_S = 240.0


@dataclass
class SweptSetting:
    """One point of the grid, and what came of it."""

    environment: Mapping[str, str] = field(default_factory=dict)
    backend: str = ""
    outcome: GateRun | None = None
    ended: SideEndedError | None = None
    effect: Answer = field(default_factory=dict)
    """What the library's log says is in effect."""

    @property
    def label(self) -> str:
        words = [self.backend, *(f"{name}={value}" for name, value in self.environment.items())]
        return " ".join(filter(None, words)) or "defaults"


_MOST_SETTINGS = 200


def grid(named: Mapping[str, str], backends: Sequence[str]) -> list[SweptSetting]:
    """Return every combination of variables, each with its values behind commas, and backends."""
    axes: dict[str, list[tuple[str, str]]] = {}
    for name, values in named.items():
        axes[name] = [(name, value.strip()) for value in values.split(",") if value.strip()]
        if len(set(axes[name])) < len(axes[name]):
            raise Refusal(f"--env '{name}={values}' names a value twice; each is measured once")
    if not axes and not backends:
        raise Refusal("what is swept? add --env NAME=V1,V2 (may be repeated), or --backend gloo,nccl")
    if (many := math.prod(map(len, (backends or [""], *axes.values())))) > _MOST_SETTINGS:
        raise Refusal(
            f"{many} settings: at most {_MOST_SETTINGS} are swept, because each takes launches; name fewer values"
        )
    points = itertools.product(backends or [""], itertools.product(*axes.values()))
    return [SweptSetting(dict(point), backend) for backend, point in points]


def sweep(
    comparison: Comparison, settings: Sequence[SweptSetting], folder: Path, progress: GateProgress
) -> tuple[list[SweptSetting], Answer]:
    """Measure each setting against the defaults; return the results, and what is in effect by default.

    The minutes are those of the whole: each setting gets an equal share of what is left. The defaults lack what is swept, even where
    one stands in a shell that exports it.
    """
    until = time.monotonic() + 60 * comparison.request.minutes
    swept = {name for setting in settings for name in setting.environment}
    base, head = (spec.lacking(swept) for spec in comparison.specs)
    results, defaults = list[SweptSetting](), _effect(comparison, base, {}, folder / "defaults")
    for number, setting in enumerate(settings):
        environment = {**head.environment, **setting.environment}
        spec = replace(head, environment=environment, backend=setting.backend).lacking(swept)
        place = folder / f"setting-{number}"
        results.append(setting)
        minutes = max(0.0, until - time.monotonic()) / 60 / (len(settings) - number)
        if not minutes:
            setting.effect = {"silent": "not asked: the minutes were over"}
            continue
        try:
            setting.effect = _effect(comparison, spec, setting.environment, place)
            # A setting may compute other bits: that is no reason to stop before it is timed.
            request = replace(comparison.request, minutes=minutes, go_on=True)
            setting.outcome = compare(replace(comparison, request=request, specs=(base, spec)), place, progress)
        except SideEndedError as ended:
            setting.ended = ended
        if setting.outcome is not None and setting.outcome.results.interrupted:
            break
    return results, defaults


def _effect(comparison: Comparison, spec: SideSpec, asked: Mapping[str, str], folder: Path) -> Answer:
    """Ask a side of its own what is in effect, with the library told to talk; what is timed later stays quiet."""
    scale, only = comparison.request.deadline_scale, comparison.request.only
    terms = LaunchTerms(comparison.preset, comparison.plan, scale)
    folder.mkdir(parents=True, exist_ok=True)
    with LiveSide(spec, folder / "effect.log", terms.run, scale) as side:
        subjects: Mapping[str, Any] = side.receive()["subjects"]
        for name, row in subjects.items():
            if row["kind"] in RANKED and (not only or name in only):
                return side.ask("effect", _PROBE_S, subject=name, preset=comparison.preset, asked=dict(asked))
    return {"silent": "no subject of this sweep takes ranks"}


def ignored(result: SweptSetting, defaults: Answer) -> str:
    """Return why a setting was without effect, as far as the library's log tells; nothing if it was not, or nobody can tell."""
    if result.effect.get("denied"):
        return "; ".join(result.effect["denied"])
    if result.effect.get("silent") or not result.effect.get("facts") or result.backend:
        return ""
    unheard = [name for name in result.environment if name not in result.effect["echoed"]]
    if unheard and result.effect["facts"] == defaults.get("facts"):
        return f"the log does not name {', '.join(unheard)}, and says the same of everything as with the defaults"
    return ""


def conclude(results: Sequence[SweptSetting], defaults: Answer, record: Record) -> None:
    """Turn the results into checks: slower than the defaults is an answer and no failure, wrong or hung is one."""
    for result in results:
        record.checks.append(_effect_check(result, defaults))
        if result.ended is not None:
            record.checks.append(_whole(result.label, "runs", result.ended.verdict, str(result.ended)))
        elif result.outcome is not None:
            record.checks += _cells(result.label, result.outcome)
            record.provenance |= result.outcome.facts["base"]
        else:
            why = "was not begun before the minutes were over; allow more --minutes"
            record.checks.append(_whole(result.label, "runs", Verdict.INCONCLUSIVE, why))
    record.verdict = overall(check.verdict for check in record.checks)
    record.provenance["settings"] = "; ".join(result.label for result in results)
    record.provenance |= {f"in effect by default, {name}": value for name, value in defaults.get("facts", {}).items()}


def _effect_check(result: SweptSetting, defaults: Answer) -> Check:
    figures = dict[str, Figure](result.effect.get("facts", {}))
    if reason := ignored(result, defaults):
        check = _whole(result.label, "effect", Verdict.NOT_APPLICABLE, f"IGNORED: {reason}", figures)
        return replace(check, outcome=CellWord.IGNORED)
    in_effect = ", ".join(f"{name} {value}" for name, value in figures.items() if name != "bus id")
    words = result.effect.get("silent") or in_effect or "the library's log says nothing of it"
    warned = "; ".join(result.effect.get("warned", ()))
    return _whole(result.label, "effect", Verdict.PASSED, f"{words}{'; warns: ' + warned if warned else ''}", figures)


def _whole(label: str, aspect: str, verdict: Verdict, reason: str, figures: dict[str, Figure] | None = None) -> Check:
    name = f"sweep/{label}::{aspect}"
    return Check(name, verdict, reason, 0.0, figures or {}, kind=Kind.SETTING, group=label, aspect=aspect)


def _cells(label: str, outcome: GateRun) -> Iterator[Check]:
    results = outcome.results
    lost = [
        (each.subject, each.verdict if each.verdict.executed else Verdict.SKIPPED, each.reason)
        for each in results.lost.values()
    ]
    times = [cell for cell in results.cells.values() if cell.what == TIME and cell.subject not in results.lost]
    if results.interrupted:
        yield _whole(
            label, "runs", Verdict.INTERRUPTED, "interrupted from outside; the settings after it were not measured"
        )
    else:
        why = "was not timed before the minutes were over; allow more --minutes"
        lost += [
            (name, Verdict.INCONCLUSIVE, why)
            for name in outcome.subjects
            if name not in {*results.lost, *results.seen()}
        ]
    checks = [compared(name, "runs", verdict, reason) for name, verdict, reason in lost]
    for check in (*checks, *(_cell(cell, outcome) for cell in times)):
        yield replace(check, id=f"sweep/{label}/{check.subject}::{check.aspect}", group=label)


def _cell(cell: Cell, outcome: GateRun) -> Check:
    """Return the check of a time: slower is an answer here, and no failure."""
    check, verdict = gate.check_of(cell), Verdict.PASSED if cell.decided else Verdict.INCONCLUSIVE
    return replace(check, verdict=verdict, figures={**check.figures, **_rates(cell, outcome)})


def _rates(cell: Cell, outcome: GateRun) -> dict[str, Figure]:
    """Return the setting's seconds per unit of work: by the defaults' times the ratio would drift with the day."""
    unit = str(outcome.subjects[cell.subject]["unit"])
    seen = [launch.seen[cell.subject]["head"] for launch in outcome.results.launches if cell.subject in launch.seen]
    blocks = sorted(block for observed in seen for block in observed.blocks)
    if not blocks or unit in ("s", "ratio"):
        return {}
    return {"seconds": blocks[len(blocks) // 2] / seen[0].worth[unit.removeprefix("s/")], "unit": unit}


def ranked(record: Record) -> list[Check]:
    """Return the cells of all settings, by subject, the fastest first."""
    cells = [check for check in record.checks if check.kind is Kind.CELL and check.aspect == TIME]
    return sorted(cells, key=lambda check: (check.subject, float(check.figures.get("ratio", math.inf))))


def run_sweep(request: CompareRequest, settings: Sequence[SweptSetting]) -> int:
    """Measure the settings of a grid and return the exit code of the contracts."""
    stack = chosen_stack(request)
    what = f"{len(settings)} settings against the defaults"
    record, folder, progress = gate.opened("sweep", stack, request.outputs, what)
    comparison = make_comparison(request, stack, Variant("base"), Variant("head"), progress)
    began = time.monotonic()
    conclude(*sweep(_ranked(comparison), settings, folder, progress), record)
    record.seconds = time.monotonic() - began
    path = writer.keep(record, folder / "record.json", request.outputs, markdown)
    outline.show(parts(record), progress.console)
    progress.say(f"record: {path}")
    return record.verdict.exit_code


def _ranked(comparison: Comparison) -> Comparison:
    """Let kinds that take ranks take part; without --only, they alone."""
    left_out = tuple(kind for kind in comparison.plan.design.left_out if kind not in RANKED)
    kinds = () if comparison.request.only else tuple(kinds_of(comparison.specs[0].profile) - set(RANKED))
    design = replace(comparison.plan.design, left_out=(*left_out, *kinds))
    return replace(comparison, plan=replace(comparison.plan, design=design))


def markdown(record: Record) -> str:
    """Return a comment for a pull request, or a job's summary."""
    return outline.markdown([Heading(f"stackproof sweep: {record.stack}", 3), *parts(record)])


def parts(record: Record) -> Iterator[Part]:
    """Yield what was ignored or went wrong, then by subject all settings, the fastest first."""
    for check in record.checks:
        if check.outcome is CellWord.IGNORED or check.verdict.exit_code not in (0, Verdict.INCONCLUSIVE.exit_code):
            yield TextLine(Span(f"{check.id.removeprefix('sweep/')}: {check.reason}", "bold red"))
    ignored = {check.group for check in record.checks if check.outcome is CellWord.IGNORED}
    rows = []
    for check in ranked(record):
        setting, figures = check.group + (" (IGNORED)" if check.group in ignored else ""), check.figures
        change = f" {100 * (float(figures['ratio']) - 1):+.1f} %" if "ratio" in figures else ""
        rate = shown(float(figures["seconds"]), str(figures["unit"])) if "seconds" in figures else ""
        rows.append((check.subject, setting, f"{word(check)}{change}", rate, sees(check)))
    heads = ("subject", "setting", "against the defaults", "rate", SMALLEST)
    yield TextTable(heads, rows, right={4}, wide={1})

"""From what a gate of a command saw to a record: a check for each metric, figure and counter, and one that says what was not verified."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from stackproof.gate import figures
from stackproof.gate.cells import BASE, HEAD, counter_change
from stackproof.gate.commands import MEMORY, SUBJECT, CommandRun, middle, seen
from stackproof.gate.conclude import FLAG, check_of, compared, conditions_check
from stackproof.gate.figures import Compared
from stackproof.gate.report import UNVERIFIED
from stackproof.jobs.metrics import Metric
from stackproof.record.records import CellWord, Check, Figure, Measurement, Record, Verdict, overall

VERIFIED = "verified"
_NOTHING = f"{UNVERIFIED}: what the command computes was not looked at"
_VERDICTS = {
    CellWord.SAME: Verdict.PASSED,
    CellWord.CHANGED: Verdict.FAILED,
    CellWord.NOT_JUDGED: Verdict.NOT_APPLICABLE,
}


def conclude(found: CommandRun, record: Record, *, accepted: bool, within: float) -> None:
    """Add checks and measurements to the record, and give it its verdict."""
    if found.ended is not None:
        record.checks.append(compared(SUBJECT, "runs", found.ended.verdict, str(found.ended)))
    if found.interrupted:
        record.checks.append(compared("run", "launches", Verdict.INTERRUPTED, "interrupted from outside"))
    record.checks += _metrics(found)
    record.checks += _counters(found)
    known = list(_figures(found, within))
    record.checks += [_judged(name, one, accepted) for name, one in (*known, *_amounts(found))]
    record.checks.append(_verified(dict(known)))
    record.checks += _unjudged(found, record)
    record.verdict = overall(check.verdict for check in record.checks)
    record.checks.append(conditions_check(found.conditions))
    record.measurements += [
        _row(found, side, metric) for metric in found.plan.metrics if found.pairs for side in (BASE, HEAD)
    ]
    record.provenance[VERIFIED] = next(check.reason for check in record.checks if check.aspect == VERIFIED)


def _metrics(found: CommandRun) -> Iterator[Check]:
    """Yield the cells with noise, with what a person knows of them: the metric's own values."""
    by_name = {metric.name: metric for metric in found.plan.metrics}
    for cell in found.cells.values():
        check = check_of(cell)
        if metric := by_name.get(cell.what):
            better = "higher" if metric.higher else "lower"
            values = f"{middle(found, BASE, metric):.6g} -> {middle(found, HEAD, metric):.6g}"
            if metric.higher and cell.ruling:
                check.reason = check.reason.replace(cell.ruling.estimate.shown, cell.ruling.estimate.turned, 1)
            check.reason += f"; {metric.name} {values} ({better} is better)"
        yield check


def _counters(found: CommandRun) -> Iterator[Check]:
    """Yield the exact counters; one that is nothing on both sides says nothing."""
    if found.uncounted:
        yield compared(SUBJECT, "counters", Verdict.NOT_APPLICABLE, f"not judged: {found.uncounted}")
    for name in found.plan.plan.counters:
        pairs = found.counted
        if not pairs or not any(side.get(name) for pair in pairs for side in pair):
            continue
        outcome, reason = counter_change(pairs, name)
        verdicts = {
            CellWord.SLOWER: Verdict.FAILED,
            CellWord.INCONCLUSIVE: Verdict.NOT_APPLICABLE,
        }
        verdict = verdicts.get(outcome, Verdict.PASSED)
        word = CellWord.NOT_JUDGED if outcome is CellWord.INCONCLUSIVE else outcome
        yield compared(SUBJECT, name, verdict, f"{outcome.value} {reason}, in the whole run", word)


def _figures(found: CommandRun, within: float) -> Iterator[tuple[str, Compared]]:
    """Yield what is said of each figure that either side gives."""
    launches = {side: [found.first[side], *found.launches(side)] for side in (BASE, HEAD) if side in found.first}
    if len(launches) < 2:
        return
    names = dict.fromkeys(name for one in (*launches[BASE], *launches[HEAD]) for name in one.figures)
    metrics = {metric.name for metric in found.plan.metrics}
    for name in names:
        base, head = ([one.figures.get(name, []) for one in launches[side]] for side in (BASE, HEAD))
        yield f"{name}, every value" if name in metrics else name, figures.compare(base, head, within)


def _amounts(found: CommandRun) -> Iterator[tuple[str, Compared]]:
    """Yield what differs in how many values of a metric there are: a run that stops early is soon ready."""
    for metric in found.plan.metrics:
        if not metric.counted or len(found.first) < 2:
            continue
        counts = {
            side: {len(one.values[metric.name]) for one in (found.first[side], *found.launches(side))}
            for side in (BASE, HEAD)
        }
        if all(len(count) == 1 for count in counts.values()) and counts[BASE] != counts[HEAD]:
            base, head = (counts[side].pop() for side in (BASE, HEAD))
            reason = (
                f"CHANGED the base gives {base} values of '{metric.name}', the head {head}: it did not do the same work"
            )
            yield f"values of {metric.name}", Compared(CellWord.CHANGED, reason)


def _judged(name: str, one: Compared, accepted: bool) -> Check:
    verdict, reason = _VERDICTS[one.word], one.reason
    if accepted and one.word is CellWord.CHANGED:
        verdict, reason = Verdict.PASSED, f"{reason}; accepted by {FLAG}"
    return compared(SUBJECT, name, verdict, reason, one.word)


def _verified(known: dict[str, Compared]) -> Check:
    """Return the check that says what this gate does not: whether the command computes right; no output takes it for a pass."""
    judged = [name for name, one in known.items() if one.word is not CellWord.NOT_JUDGED]
    if judged:
        words = f"{UNVERIFIED}: only {', '.join(judged)} of both sides were compared, not whether either is right"
        return compared("run", VERIFIED, Verdict.NOT_APPLICABLE, words)
    more = (
        "; its figures vary by themselves"
        if known
        else "; name figures such as losses with --figure to have them compared"
    )
    return compared("run", VERIFIED, Verdict.NOT_APPLICABLE, _NOTHING + more)


def _unjudged(found: CommandRun, record: Record) -> list[Check]:
    """Return the check that a gate owes which has nothing against it and nothing for it."""
    red = any(check.verdict.exit_code for check in record.checks)
    exact = any(check.outcome is CellWord.SAME and "ratio" not in check.figures for check in record.checks)
    if red or exact or any(cell.decided for cell in found.cells.values() if cell.what != MEMORY):
        return []
    why = (
        "nothing exact was told: name figures with --figure"
        if found.plan.exact
        else "no metric could be judged; allow more --minutes"
    )
    return [compared("run", "judged", Verdict.INCONCLUSIVE, why)]


def _row(found: CommandRun, side: str, metric: Metric) -> Measurement:
    """Return a side's values: seconds, or seconds per unit of a rate; what has no unit is kept as it is."""
    values = seen(found, side, metric)
    unit = "s" if metric.kind in ("time", "steps") else "1"
    if metric.kind == "rate":
        values, unit = [1 / value for value in values], f"s/{metric.name.removesuffix('/s')}"
    facts: dict[str, Figure] = {"side": side, "better": "higher" if metric.higher else "lower"}
    return Measurement(
        SUBJECT, "full", "", 1, metric.name, unit, median(values), values, f"a command, {side}", "", facts
    )

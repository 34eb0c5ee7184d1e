"""From what a gate found out to a record: a check for each cell, one for the conditions, and the verdict of the whole."""

from __future__ import annotations

from stackproof.gate import stored
from stackproof.gate.cells import BASE, HEAD, TIME, Cell, Results, counter_change, counters_of
from stackproof.gate.changed import WORD
from stackproof.gate.gate import GateRun
from stackproof.gate.interleave import PROCESS
from stackproof.gate.statistics import CellOutcome
from stackproof.record.records import Check, Figure, Record, Verdict, overall

FLAG = "--accept-changed"
"""What lets sides that compute different things pass, if they are meant to; the page says so."""
CONDITIONS = "gate/run::conditions"
_VERDICTS = {
    CellOutcome.FASTER: Verdict.PASSED,
    CellOutcome.SAME: Verdict.PASSED,
    CellOutcome.SLOWER: Verdict.FAILED,
    CellOutcome.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


def conclude(outcome: GateRun, record: Record, preset: str, accepted: bool = False) -> None:
    """Add checks, measurements and facts to the record, and give it its verdict; `accepted`: sides may compute different things."""
    results = outcome.results
    record.checks += [Check(f"gate/{one.subject}::runs", one.verdict, one.reason, 0.0) for one in results.lost.values()]
    record.checks += [
        Check(name, Verdict.FAILED, f"is missing: {reason}", 0.0) for name, reason in results.missing.items()
    ]
    judged = [cell for cell in results.cells.values() if cell.subject not in results.lost]
    record.checks += [_check(cell) for cell in judged if cell.subject != PROCESS or results.seen()]
    for subject, pairs in results.counted.items():
        names = [] if subject in results.lost else counters_of(pairs, results.plan.counters)
        record.checks += [_counted(subject, counter, pairs, results.same_torch) for counter in names]
    record.checks += _same_work(results, accepted)
    if outcome.interrupted:
        record.checks.append(Check("gate/run::launches", Verdict.INTERRUPTED, "interrupted from outside", 0.0))
    record.verdict = whole(results, record)
    record.checks.append(_conditions(outcome))
    stored.store(record, results.launches, outcome.subjects, preset)
    _add_facts(outcome, record)


def _same_work(results: Results, accepted: bool) -> list[Check]:
    """Two checks a subject: what is computed from equal seeds, and the units of work that the timed blocks did."""
    found = []
    for subject, sameness in results.computed.items():
        found.append(_unlike(f"gate/{subject}::computes", sameness.sentence(), sameness.changed, accepted))
    for subject, words in results.units.items():
        said = (
            f"{WORD} the timed blocks did not do the same work: {words}"
            if words
            else "SAME units of work, counted in all blocks"
        )
        found.append(_unlike(f"gate/{subject}::units", said, bool(words), accepted))
    return [check for check in found if check.id.removeprefix("gate/").partition("::")[0] not in results.lost]


def _unlike(name: str, reason: str, changed: bool, accepted: bool) -> Check:
    if not changed:
        return Check(name, Verdict.PASSED, reason, 0.0)
    if accepted:
        return Check(name, Verdict.PASSED, f"{reason}; accepted by {FLAG}", 0.0)
    return Check(name, Verdict.FAILED, reason, 0.0)


def _check(cell: Cell) -> Check:
    if cell.ruling is None and cell.aside:
        return Check(
            cell.name, Verdict.SKIPPED, f"does not gate: only {len(cell.ratios)} launches", 0.0, cell.figures()
        )
    if cell.ruling is None:
        reason = f"only {len(cell.ratios)} launches, too few to say anything; allow more --minutes"
        return Check(cell.name, Verdict.INCONCLUSIVE, reason, 0.0, cell.figures())
    ruling = cell.ruling
    if cell.aside and not ruling.decided:
        reason = f"does not gate: {ruling.reason}, after the launches that other cells needed"
        return Check(cell.name, Verdict.SKIPPED, reason, 0.0, cell.figures())
    if ruling.blind:
        reason = f"does not gate: {ruling.reason}, and the minimum effect is {cell.effect:.0%}"
        return Check(cell.name, Verdict.SKIPPED, reason, 0.0, cell.figures())
    verdict = _VERDICTS[ruling.outcome]
    return Check(cell.name, verdict, f"{ruling.outcome.value} {ruling.reason}", 0.0, cell.figures())


def _counted(subject: str, counter: str, pairs: list[tuple[dict[str, int], dict[str, int]]], same_torch: bool) -> Check:
    """More of what is counted is worse; between two versions of torch it only is a fact."""
    outcome, reason = counter_change(pairs, counter)
    verdict = _VERDICTS[outcome]
    if outcome is CellOutcome.INCONCLUSIVE or (outcome is CellOutcome.SLOWER and not same_torch):
        verdict = Verdict.NOT_APPLICABLE
        reason += "" if same_torch else "; the sides have different torch, so this does not gate"
    figures: dict[str, Figure] = {"base": pairs[0][0][counter], "head": pairs[0][1][counter]}
    return Check(f"gate/{subject}::{counter}", verdict, f"{outcome.value} {reason}", 0.0, figures)


def whole(results: Results, record: Record) -> Verdict:
    """Return the gate's verdict: one in which nothing ran failed, one in which no time could be judged says nothing."""
    verdict = overall(check.verdict for check in record.checks)
    if verdict is not Verdict.PASSED:
        return verdict
    judged = [cell for cell in results.cells.values() if cell.what == TIME and cell.decided]
    return Verdict.PASSED if judged else Verdict.INCONCLUSIVE if results.seen() else Verdict.FAILED


def _conditions(outcome: GateRun) -> Check:
    said = outcome.conditions.said()
    reason = (
        "; ".join(said)
        or "no change of clock or temperature, nobody else on the card or the host, as far as can be told"
    )
    loads = outcome.conditions.loads
    figures: dict[str, Figure] = {
        f"launch {number}, others' share of the cores": load for number, load in enumerate(loads)
    }
    return Check(CONDITIONS, Verdict.PASSED, reason, 0.0, figures)


def _add_facts(outcome: GateRun, record: Record) -> None:
    """Keep the head's facts under their own names, so that this record can be a base, and the base's where they differ."""
    base, head = outcome.facts[BASE], outcome.facts[HEAD]
    record.provenance |= head
    record.provenance |= {f"base.{name}": value for name, value in base.items() if head.get(name) != value}

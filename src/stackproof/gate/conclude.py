"""From what a gate found out to a record: a check for each cell, one for the conditions, and the verdict of the whole."""

from __future__ import annotations

from stackproof.gate import stored
from stackproof.gate.cells import BASE, HEAD, TIME, Cell, Results, counter_change, counters_of
from stackproof.gate.changed import WORD
from stackproof.gate.conditions import Conditions
from stackproof.gate.gate import GateRun
from stackproof.gate.interleave import PROCESS
from stackproof.record.records import NOT_EXECUTED, CellWord, Check, Figure, Kind, Record, Verdict, overall

FLAG = "--accept-changed"
"""What lets sides that compute different things pass, if they are meant to; the page says so."""
CONDITIONS = "gate/run::conditions"
_VERDICTS = {
    CellWord.FASTER: Verdict.PASSED,
    CellWord.SAME: Verdict.PASSED,
    CellWord.SLOWER: Verdict.FAILED,
    CellWord.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


def conclude(outcome: GateRun, record: Record, preset: str, accepted: bool = False) -> None:
    """Add checks, measurements and facts to the record, and give it its verdict; `accepted`: sides may compute different things."""
    results = outcome.results
    record.checks += [compared(one.subject, "runs", one.verdict, one.reason) for one in results.lost.values()]
    record.checks += [
        compared(one.subject, one.what, Verdict.FAILED, f"is missing: {one.reason}") for one in results.missing.values()
    ]
    judged = [cell for cell in results.cells.values() if cell.subject not in results.lost]
    record.checks += [check_of(cell) for cell in judged if cell.subject != PROCESS or results.seen()]
    for subject, pairs in results.counted.items():
        names = [] if subject in results.lost else counters_of(pairs, results.plan.counters)
        record.checks += [_counted(subject, counter, pairs, results.same_torch) for counter in names]
    record.checks += _same_work(results, accepted)
    if outcome.interrupted:
        record.checks.append(compared("run", "launches", Verdict.INTERRUPTED, "interrupted from outside"))
    record.checks += _unjudged(results, record)
    record.verdict = overall(check.verdict for check in record.checks)
    record.checks.append(conditions_check(outcome.conditions))
    stored.store(record, results.launches, outcome.subjects, preset)
    _add_facts(outcome, record)


def _same_work(results: Results, accepted: bool) -> list[Check]:
    """Two checks a subject: what is computed from equal seeds, and the units of work that the timed blocks did."""
    found = []
    for subject, sameness in results.computed.items():
        found.append(_unlike(subject, "computes", sameness.sentence(), sameness.changed, accepted))
    for subject, words in results.units.items():
        said = (
            f"{WORD} the timed blocks did not do the same work: {words}"
            if words
            else "SAME units of work, counted in all blocks"
        )
        found.append(_unlike(subject, "units", said, bool(words), accepted))
    return [check for check in found if check.subject not in results.lost]


def compared(
    subject: str,
    aspect: str,
    verdict: Verdict,
    reason: str,
    outcome: CellWord | None = None,
    figures: dict[str, Figure] | None = None,
) -> Check:
    """Return the check of one cell; what could not be judged says so in a word, whatever the reason."""
    if outcome is None and verdict in NOT_EXECUTED:
        outcome = CellWord.NOT_JUDGED
    name = f"gate/{subject}::{aspect}"
    return Check(
        name, verdict, reason, 0.0, figures or {}, kind=Kind.CELL, subject=subject, aspect=aspect, outcome=outcome
    )


def _unlike(subject: str, aspect: str, reason: str, changed: bool, accepted: bool) -> Check:
    if not changed:
        return compared(subject, aspect, Verdict.PASSED, reason, CellWord.SAME)
    if accepted:
        return compared(subject, aspect, Verdict.PASSED, f"{reason}; accepted by {FLAG}", CellWord.CHANGED)
    return compared(subject, aspect, Verdict.FAILED, reason, CellWord.CHANGED)


def check_of(cell: Cell) -> Check:
    """Return the check of a cell with noise."""
    verdict, outcome, reason = _judged(cell)
    return compared(cell.subject, cell.what, verdict, reason, outcome, cell.figures())


def _judged(cell: Cell) -> tuple[Verdict, CellWord, str]:
    """Return the verdict, the word and the reason of a cell with noise."""
    ruling = cell.ruling
    if ruling is None and cell.aside:
        return Verdict.SKIPPED, CellWord.NOT_JUDGED, f"does not gate: only {len(cell.ratios)} launches"
    if ruling is None:
        reason = f"only {len(cell.ratios)} launches, too few to say anything; allow more --minutes"
        return Verdict.INCONCLUSIVE, CellWord.INCONCLUSIVE, reason
    if cell.aside and not ruling.decided:
        reason = f"does not gate: {ruling.reason}, after the launches that other cells needed"
        return Verdict.SKIPPED, CellWord.BLIND, reason
    if ruling.blind:
        reason = f"does not gate: {ruling.reason}, and the minimum effect is {cell.effect:.0%}"
        return Verdict.SKIPPED, CellWord.BLIND, reason
    outcome = ruling.outcome
    return _VERDICTS[ruling.outcome], outcome, f"{outcome.value} {ruling.reason}"


def _counted(subject: str, counter: str, pairs: list[tuple[dict[str, int], dict[str, int]]], same_torch: bool) -> Check:
    """More of what is counted is worse; between two versions of torch it only is a fact."""
    outcome, reason = counter_change(pairs, counter)
    verdict, word = _VERDICTS[outcome], outcome
    if outcome is CellWord.INCONCLUSIVE or (outcome is CellWord.SLOWER and not same_torch):
        verdict, word = Verdict.NOT_APPLICABLE, CellWord.NOT_JUDGED
        reason += "" if same_torch else "; the sides have different torch, so this does not gate"
    figures: dict[str, Figure] = {"base": pairs[0][0][counter], "head": pairs[0][1][counter]}
    return compared(subject, counter, verdict, f"{outcome.value} {reason}", word, figures)


def _unjudged(results: Results, record: Record) -> list[Check]:
    """Return the check that a gate owes which has nothing against it and nothing for it: no time was judged, or nothing ran."""
    red = any(check.verdict.exit_code for check in record.checks)
    exact = any(check.outcome is CellWord.SAME and "ratio" not in check.figures for check in record.checks)
    if red or any(cell.what == TIME and cell.decided for cell in results.cells.values()):
        return []
    looked = len(results.launches) >= results.plan.design.looks[0]
    if (
        results.seen() and exact and looked
    ):  # blind cells do not gate, and what is exact was judged; the first line says so
        return []
    if results.seen():
        return [compared("run", "judged", Verdict.INCONCLUSIVE, "no time could be judged; allow more --minutes")]
    return [compared("run", "judged", Verdict.FAILED, "no time was measured, so nothing was compared")]


def conditions_check(conditions: Conditions) -> Check:
    """Return what disturbed the run, which is no verdict."""
    said = conditions.said()
    reason = (
        "; ".join(said)
        or "no change of clock or temperature, nobody else on the card or the host, as far as can be told"
    )
    loads = conditions.loads
    figures: dict[str, Figure] = {
        f"launch {number}, others' share of the cores": load for number, load in enumerate(loads)
    }
    return Check(CONDITIONS, Verdict.PASSED, reason, 0.0, figures, kind=Kind.CONDITIONS)


def _add_facts(outcome: GateRun, record: Record) -> None:
    """Keep the head's facts under their own names, so that this record can be a base, and the base's where they differ."""
    base, head = outcome.facts[BASE], outcome.facts[HEAD]
    record.provenance |= head
    record.provenance |= {f"base.{name}": value for name, value in base.items() if head.get(name) != value}

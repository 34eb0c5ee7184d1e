"""Holds a run under a fault against its row: did it fire, is the right check red for the right reason, is the rest green?

A check that no fault covers has a reason in the table, or is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.drill.run import DrilledRun
from stackproof.drill.table import Fault, Faults, matches
from stackproof.record.records import Check, Figure, Kind, Verdict

NAME = "coverage"


def compare_coverage(table: Faults, known: tuple[str, ...]) -> Check:
    """Return the check that every check is covered by a fault, or excused, and that no excuse is stale."""
    patterns = {
        pattern.replace("?", "[").split("[")[0] for row in table.rows for pattern in row.expected.red if "::" in pattern
    }
    covered = {name for name in known if matches(name, patterns)}
    excusable = [row.checks for row in table.excuses]
    wrong = [f"no fault covers {name}" for name in known if name not in covered and not matches(name, excusable)]
    wrong += _stale(table, known, covered)
    reason = "; ".join(wrong) or f"{len(covered)} of {len(known)} checks of the suites have a fault here"
    if not wrong and table.excuses:
        reason += f", and the others a reason: {len(table.excuses)} rows"
    excused = {row.checks: row.reason for row in table.excuses}
    return Check(NAME, Verdict.FAILED if wrong else Verdict.PASSED, reason, 0.0, {**excused})


def _stale(table: Faults, known: tuple[str, ...], covered: set[str]) -> Iterator[str]:
    for row in table.excuses:
        meant = [name for name in known if matches(name, [row.checks])]
        if not [name for name in meant if name not in covered]:
            why = "a fault covers it" if meant else "there is no such check"
            yield f"the row '{row.checks}' of 'uncovered' is stale: {why}; delete it"


_MOST_SAID = 300


def compare_fault(fault: Fault, ended: DrilledRun) -> Check:
    """Return the check of one fault: passed if it was caught as its row says, else failed with everything that is not so."""
    wrong = list(_complaints(fault, ended))
    verdict = Verdict.FAILED if wrong else Verdict.PASSED
    reason = "; ".join(wrong) if wrong else _caught(fault, ended)
    figures = _figures(fault, ended)
    return Check(
        fault.name, verdict, reason, ended.seconds, figures, kind=Kind.FAULT, group=fault.area, subject=fault.id
    )


def compare_clean(name: str, wanted: tuple[str, ...], ended: DrilledRun) -> Check:
    """Return the check of a run without a fault: it ran what was wanted, and nothing is red."""
    red = [(word, seen) for word, seen in ended.checks.items() if seen.verdict.exit_code]
    alarms = [f"{word} {seen.verdict.value}: {seen.reason[:_MOST_SAID]}" for word, seen in red]
    absent = [word for word in wanted if not any(_green(name, seen, word) for name, seen in ended.checks.items())]
    absent = [word for word in absent if not any(word in alarm for alarm in alarms)]
    wrong = [*(f"a false alarm: {alarm}" for alarm in alarms), *(f"{word} did not pass" for word in absent)]
    if ended.exit_code != 0:
        wrong.append(f"{_ending(ended)}; without a fault it must be exit code 0")
    verdict = Verdict.FAILED if wrong else Verdict.PASSED
    passed = sum(seen.verdict is Verdict.PASSED for seen in ended.checks.values())
    reason = "; ".join(wrong) or f"without a fault nothing is red, {passed} checks passed"
    figures: dict[str, Figure] = {"command": ended.words, "passed": passed}
    return Check(name, verdict, reason, ended.seconds, figures, kind=Kind.CLEAN)


def _complaints(fault: Fault, ended: DrilledRun) -> Iterator[str]:
    expected = fault.expected
    if not ended.fired:
        yield "the fault never fired, so nothing was proved"
    for pattern, words in expected.red.items():
        yield from _not_caught(pattern, words, ended)
    for workload, words in expected.noted.items():
        if words not in ended.notes.get(workload, ""):
            yield f"NOT NOTED: '{words}' is not in what is noted of {workload}: {ended.notes.get(workload, 'nothing')!r}"
    for pattern in expected.green:
        if not any(_green(name, seen, pattern) for name, seen in ended.checks.items()):
            seen = next((seen for name, seen in ended.checks.items() if matches(name, [pattern])), None)
            how = f"{seen.verdict.value}: {seen.reason[:_MOST_SAID]}" if seen else "did not run"
            yield f"{pattern} should have stayed green and {how}"
    for name, seen in ended.checks.items():
        if seen.verdict.exit_code and not matches(name, (*expected.red, *expected.green)):
            yield f"{name} is red too, and should not be: {seen.reason[:_MOST_SAID]}"
    if ended.exit_code != expected.exit_code:
        yield f"{_ending(ended)}; exit code {expected.exit_code} was expected"


def _not_caught(pattern: str, words: str, ended: DrilledRun) -> Iterator[str]:
    matching = {name: seen for name, seen in ended.checks.items() if matches(name, [pattern])}
    if not matching:
        yield f"{pattern} did not run"
    for name, seen in matching.items():
        if not seen.verdict.exit_code:
            yield f"NOT CAUGHT: {name} {seen.verdict.value}: {seen.reason[:_MOST_SAID]}"
        elif words not in seen.reason:
            yield f"{name} is red for another reason: '{words}' is not in: {seen.reason[:_MOST_SAID]}"


def _green(name: str, seen: Check, pattern: str) -> bool:
    return matches(name, [pattern]) and seen.verdict is Verdict.PASSED


def _ending(ended: DrilledRun) -> str:
    if ended.exit_code is None:
        return "the run did not end by its deadline and was ended"
    last = f" (it printed last: {' / '.join(ended.last)[:_MOST_SAID]})" if not ended.checks else ""
    return f"the run ended with exit code {ended.exit_code}{last}"


def _caught(fault: Fault, ended: DrilledRun) -> str:
    if not fault.expected.red:
        workload = next(iter(fault.expected.noted))
        return f"the figure of {workload} is noted: {ended.notes[workload]}"
    red = ((name, seen) for name, seen in ended.checks.items() if matches(name, fault.expected.red))
    name, seen = next((name, seen) for name, seen in red if seen.verdict.exit_code)
    return f"{name} {seen.verdict.value}: {seen.reason}"


def _figures(fault: Fault, ended: DrilledRun) -> dict[str, Figure]:
    passed = sum(seen.verdict is Verdict.PASSED for seen in ended.checks.values())
    return {
        "imitates": fault.imitates, "source": fault.source, "green": passed,
        "processes in which it fired": ended.fired, "command": ended.words,
    }  # fmt: skip

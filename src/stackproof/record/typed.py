"""What a record of schema 1 says in ids and sentences, as the typed fields of schema 2: the one place that reads it back.

Also the place of a check in its suite, whose id is made by one rule.
"""

from __future__ import annotations

from collections.abc import Callable

from stackproof.record.records import CellWord, Check, Kind, Record, Verdict

_COMPARED = {word.value: word for word in (CellWord.FASTER, CellWord.SAME, CellWord.SLOWER, CellWord.CHANGED)}


def of_suite(check: Check) -> Check:
    """Place a check of a suite, `suite/file::name`; what stands for a whole run or a whole suite is left as it is."""
    path, mark, name = check.id.partition("::")
    if mark:
        check.kind, check.group, check.subject = Kind.SUITE, path.partition("/")[0], name
    return check


def fill(record: Record) -> None:
    """Give the checks of a record of schema 1 the fields that its writer would give them now."""
    placed = _PLACED.get(record.verb, of_suite)
    for check in record.checks:
        placed(check)


def _of_gate(check: Check) -> Check:
    room, _, rest = check.id.partition("/")
    if room != "gate":
        return check
    check.subject, _, check.aspect = rest.rpartition("::")
    check.kind = Kind.CONDITIONS if rest == "run::conditions" else Kind.CELL
    check.outcome = _word(check) if check.kind is Kind.CELL else None
    return check


def _of_sweep(check: Check) -> Check:
    room, _, rest = check.id.partition("/")
    place, _, aspect = rest.rpartition("::")
    if room != "sweep":
        return check
    check.aspect = aspect
    if aspect == "effect" or (aspect == "runs" and "/" not in place):
        check.kind, check.group = Kind.SETTING, place
        check.outcome = CellWord.IGNORED if check.reason.startswith("IGNORED") else None
    else:
        check.kind, check.outcome = Kind.CELL, _word(check)
        check.group, _, check.subject = place.rpartition("/")
    return check


def _word(check: Check) -> CellWord | None:
    """Return the word of a cell; where the verdict is the word, there is none."""
    first = check.reason.split(" ", 1)[0]
    if check.verdict in (Verdict.PASSED, Verdict.FAILED):
        return _COMPARED.get(first)
    if check.verdict is Verdict.INCONCLUSIVE:
        return CellWord.INCONCLUSIVE
    if check.verdict is Verdict.SKIPPED and "ratio" in check.figures:
        return CellWord.BLIND
    return CellWord.NOT_JUDGED if check.verdict in (Verdict.SKIPPED, Verdict.NOT_APPLICABLE) else None


def _of_drill(check: Check) -> Check:
    if "injected" in check.figures:
        check.kind = Kind.FAULT
        check.group, _, check.subject = check.id.partition("/")
    elif check.id.startswith("clean/"):
        check.kind = Kind.CLEAN
    return check


_PLACED: dict[str, Callable[[Check], Check]] = {"gate": _of_gate, "sweep": _of_sweep, "drill": _of_drill}

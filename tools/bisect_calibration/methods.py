"""Who searches: ours, by the product's own search, and others on the same machine and changes.

Others take changes for a line, as a bisection does, and measure one build after the other.
"""

from __future__ import annotations

from statistics import median

from stackproof.extras.bisect import plan as bisect_plan
from stackproof.extras.bisect.evidence import FailureRate, SetWord, Slowdown, bound, settle
from stackproof.extras.bisect.failures import FailureSearch
from stackproof.extras.bisect.lineage import GOOD, Levels, Lineage
from stackproof.extras.bisect.splits import Splitting, tests_of
from stackproof.gate import plan as gate_plan
from stackproof.gate.cells import TIME, Cell, ComparedCells
from stackproof.gate.statistics import Design
from stackproof.record.records import CellWord
from tools.bisect_calibration.worlds import Machine, Method, Planted, Told

ERROR = 0.05
_FEW = 6
_ENDLESS = 400
_KIND = "cpu"


def ours(planted: Planted, machine: Machine) -> Told:
    """Confirm both ends as a gate does, then search as the product does."""
    if planted.case.flaky:
        return _failures(planted, machine)
    confirmed: list[dict[int, float]] = []
    cell = _confirm(planted, machine, confirmed)
    if cell is None or cell.ruling is None or cell.ruling.outcome is not CellWord.SLOWER:
        return Told(frozenset(), machine.runs, len(confirmed))
    if planted.case.line:
        return _line(planted, machine, confirmed)
    return _sets(planted, machine, Slowdown.seen(cell.ratios, cell.ruling.estimate.centre), len(confirmed))


def _confirm(planted: Planted, machine: Machine, confirmed: list[dict[int, float]]) -> Cell | None:
    """Launch both ends until the gate has a word; the minimum effect is the gate's, or half of what was planted if that is less."""
    rules = bisect_plan.load().confirm
    design = Design(rules.looks, rules.alpha)
    least = min(gate_plan.load().effect("", _KIND), planted.case.effect / 2 or 1.0)
    cells, last = ComparedCells(), planted.case.count - 1
    while (look := design.next_look(len(confirmed))) is not None:
        while len(confirmed) < look:
            seen = machine.launch({GOOD: 0.0, last: planted.until(last)})
            confirmed.append(seen)
            cells.add(Cell("work", TIME, least), seen[last] - seen[GOOD])
        cells.look(design)
        if all(cell.decided for cell in cells.values()):
            break
    return next(iter(cells.values()), None)


def _sets(planted: Planted, machine: Machine, duel: Slowdown, launches: int) -> Told:
    rules = bisect_plan.load().search
    limit, spent = bound(rules.error, tests_of(planted.case.count)), [launches]

    def test(units: frozenset[str]) -> SetWord:
        worse = planted.worse(frozenset(map(int, units)))
        settled = settle(duel, lambda _: machine.duel(worse), limit, rules.most)
        spent[0] += settled.runs
        return settled.word

    found = Splitting([str(unit) for unit in range(planted.case.count)], test).blame()
    return Told(frozenset(int(unit) for one in found for unit in one.units), machine.runs, spent[0])


def _failures(planted: Planted, machine: Machine) -> Told:
    """Learn how often the bad end fails, then search; every test knows the runs of those before it."""
    rules = bisect_plan.load().failure
    whole, bad = planted.until(planted.case.count - 1), list[float]()
    while not bad or not rules.enough(int(sum(bad)), len(bad)):
        bad.append(machine.run(whole))
    if not any(bad):
        return Told(frozenset(), machine.runs)
    good = [machine.run(0.0) for _ in range(rules.always if all(bad) else len(bad))]
    units = [str(unit) for unit in range(planted.case.count)]
    found = FailureSearch(
        units, lambda _: frozenset(), FailureRate((0, len(good)), (int(sum(bad)), len(bad))),
        lambda chosen, _: machine.run(planted.worse(frozenset(map(int, chosen)))),
        lambda runs: good.extend(machine.run(0.0) for _ in range(runs - len(good))),
        lambda *_: None, lambda *_: None, bisect_plan.load(),
    ).blame()  # fmt: skip
    return Told(frozenset(int(unit) for one in found for unit in one.units), machine.runs)


def _line(planted: Planted, machine: Machine, confirmed: list[dict[int, float]]) -> Told:
    levels, before = Levels(list(confirmed)), machine.runs
    rules = bisect_plan.load().search
    line = Lineage([1.0] * planted.case.count, levels, rules.sure)
    while (asked := line.ask(rules.beside)) and machine.runs - before < _ENDLESS:
        levels.launches.append(machine.launch({at: planted.until(at) for at in (GOOD, *asked)}))
    return Told(frozenset(line.likeliest()[0]), machine.runs - before, len(levels.launches))


def _halfway(planted: Planted, machine: Machine, each: int) -> tuple[float, int]:
    """Return the time half-way between both ends, and the last place."""
    last = planted.case.count - 1
    good, bad = (median(machine.run(planted.until(at)) for _ in range(each)) for at in (GOOD, last))
    return (good + bad) / 2, last


def one_run(planted: Planted, machine: Machine, each: int = 1) -> Told:
    """Bisect, one build after the other: a build is bad if it takes longer than half-way between the ends."""
    limit, high = _halfway(planted, machine, each)
    low = GOOD
    while high - low > 1:
        middle = (low + high) // 2
        bad = median(machine.run(planted.until(middle)) for _ in range(each)) > limit
        low, high = (low, middle) if bad else (middle, high)
    return Told(frozenset({high}), machine.runs)


def three_runs(planted: Planted, machine: Machine) -> Told:
    """Do the same with the median of three runs of each build."""
    return one_run(planted, machine, 3)


def bayesect(planted: Planted, machine: Machine) -> Told:
    """Give git_bayesect runs that fail where they take longer than half-way; it is told the twelve runs of both ends too."""
    import numpy as np
    from git_bayesect import Bisector

    last = planted.case.count - 1
    ends = {at: [machine.run(planted.until(at)) for _ in range(_FEW)] for at in (GOOD, last)}
    limit = (median(ends[GOOD]) + median(ends[last])) / 2
    bisector = Bisector([1.0] * planted.case.count + [0.0])  # the newest first, the good side is no candidate
    before = machine.runs
    with np.errstate(divide="ignore", invalid="ignore"):
        for at, times in ends.items():
            for one in times:
                bisector.record(last - at, one > limit)
        while bisector.distribution.max() < 1 - ERROR and machine.runs - before < _ENDLESS:
            at = last - bisector.select()
            bisector.record(last - at, machine.run(planted.until(at)) > limit)
        found = last - int(bisector.distribution.argmax())
    return Told(frozenset({found}), machine.runs - (before if planted.case.line else 0))


METHODS: dict[str, Method] = {
    "stackproof bisect": ours,
    "one run each": one_run,
    "median of three": three_runs,
    "git_bayesect 1.2": bayesect,
}

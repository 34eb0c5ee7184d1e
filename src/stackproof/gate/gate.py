"""The verb `gate`: two sides are launched until every cell is decided or the declared cap is reached; then a record says what was found."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.text import Text

from stackproof.base import places
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.processes import HostLoad
from stackproof.base.statistics import percent
from stackproof.base.text import counted, plain
from stackproof.bench.subjects import profile as profile_named
from stackproof.gate import interleave, plan, report
from stackproof.gate.cells import BASE, HEAD, TIME, Cell, Pairs, Results, counters_of
from stackproof.gate.interleave import PROCESS, Answer, LaunchTerms, Lost, SideEndedError, SideSpec, handshake, launch
from stackproof.gate.plan import Design, GatePlan
from stackproof.gate.report import FLAG
from stackproof.gate.variants import CompareRequest, GateRequest, Variant, commit_of, prepared, unpinned
from stackproof.record import store, writer
from stackproof.record.console import plain_console
from stackproof.record.records import CellWord, Check, Figure, Kind, Measurement, Record, Verdict, overall
from stackproof.record.writer import Outputs
from stackproof.runner.runs import vet
from stackproof.stack import hosts, provenance, stacks

METRIC = "gate"
"""What marks the rows that a gate stores of a side; a benchmark's are named after the kind of work."""
CONDITIONS = "gate/run::conditions"
EXACT = "what is exact, nothing was timed"
"""How a gate goes about it that is asked for no more."""
_VERDICTS = {
    CellWord.FASTER: Verdict.PASSED,
    CellWord.SAME: Verdict.PASSED,
    CellWord.SLOWER: Verdict.FAILED,
    CellWord.CHANGED: Verdict.FAILED,
    CellWord.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    CellWord.NOT_JUDGED: Verdict.NOT_APPLICABLE,
}


def launch_until_decided(
    design: Design, until: float, launch_again: Callable[[int], bool], look: Callable[[], bool]
) -> None:
    """Launch, look after the declared numbers of launches, and stop when a look says so, or at the first launch after the time is over.

    `launch_again` launches, given its number from 0 on, and returns whether there is anything left to launch; `look` judges all launches
    until now and returns whether more are wanted. The look that the time (`time.monotonic`) brings forward has fewer launches than were
    declared, and promises no less.
    """
    for number in range(design.looks[-1]):
        if not launch_again(number):
            return
        late = time.monotonic() > until
        if (late or number + 1 in design.looks) and (not look() or late):
            return


@dataclass(frozen=True)
class Comparison:
    """What is compared, and on what terms."""

    request: CompareRequest
    specs: tuple[SideSpec, ...]
    """Base and head."""
    preset: str
    kind: str
    """The type of device, which decides the minimum effect."""
    plan: GatePlan
    host_facts: Mapping[str, Figure] = field(default_factory=dict)
    """What is known of the host without torch."""


@dataclass
class GateProgress:
    """Tells a person how far the gate is."""

    console: Console
    began: float

    def say(self, text: str) -> None:
        """Print a line with the seconds that have passed."""
        self.console.print(Text(plain(f"[{time.monotonic() - self.began:5.0f} s] {text}"), style="dim"), soft_wrap=True)


@dataclass
class GateRun:
    """A gate in progress, and all that it found out."""

    comparison: Comparison
    results: Results
    subjects: dict[str, Any]
    """What the sides say of their subjects: kind, unit, version."""
    facts: dict[str, dict[str, Figure]]
    """Facts of each side."""

    def run(self, terms: LaunchTerms, folder: Path, progress: GateProgress) -> None:
        """Launch until all is decided, something exact is worse, the last look is spent, or the minutes are."""
        request, results, design = self.comparison.request, self.results, self.comparison.plan.design
        looked, left = 0, [name for name in self.subjects if name not in results.lost]
        most = self.comparison.plan.count.launches if request.exact else design.looks[-1]

        def launch_again(number: int) -> bool:
            nonlocal left
            before, left = left, terms.affordable(left, next(look for look in design.looks if look > number) - number)
            if dropped := [name for name in before if name not in left]:
                progress.say(f"the minutes are too few to decide: {', '.join(dropped)}")
            if number and not any(terms.fits([PROCESS, *words]) for words in ([[name] for name in left] or [[]])):
                results.ended = f"the minutes were over in launch {number + 1}, which would not fit"
                return False
            load = HostLoad()
            seen, lost = launch(
                self.comparison.specs, left, terms, number, folder / f"launch-{number}",
                lambda subject: progress.say(f"launch {number + 1} of at most {most}, ended: {subject}"),
            )  # fmt: skip
            results.conditions.add(seen.conditions, load.share())
            results.add(seen, map(_not_skipped, lost))
            left = [subject for subject in left if subject not in results.lost]
            if request.exact:  # a second launch tells what varies by itself
                left = [subject for subject in left if number + 1 < most and subject not in terms.equal_counts]
            checks = exact_checks(results, request.accept_changed)
            worse = dict.fromkeys(check.subject for check in checks if check.verdict.exit_code % 6)
            if worse and not request.go_on:
                results.ended = at_once(", ".join(worse))
            return bool(left or results.seen()) and not results.ended

        def look() -> bool:
            nonlocal left, looked
            looked = len(results.launches)
            results.cells.look(design)
            left = results.undecided()
            words = f"undecided: {', '.join(left)}" if left else "nothing is left to ask"
            progress.say(f"after {looked} launches {words}")
            still, left = bool(left), [subject for subject in left if subject != PROCESS]
            return still  # start-up alone is launched too: an open cell leaves the whole gate open

        try:
            if left:
                launch_until_decided(design, terms.until, launch_again, look)
        except KeyboardInterrupt:
            results.interrupted = True
        if looked < len(results.launches):
            look()


def at_once(what: str) -> str:
    """Say why a gate ended before anything was decided about speed."""
    return f"ended at once, since {what} is worse to the digit (--go-on goes on)"


def compare(comparison: Comparison, folder: Path, progress: GateProgress, began: float | None = None) -> GateRun:
    """Let the sides say what they have, then launch until all is decided; after the minutes no side is asked any more.

    `began`: from when the minutes count (`time.monotonic`), if not from now. A SideEndedError says that a side did not come up, or not
    within the minutes.
    """
    until = (time.monotonic() if began is None else began) + 60 * comparison.request.minutes
    terms = LaunchTerms(comparison.preset, comparison.plan, comparison.request.deadline_scale, until)
    try:
        hello = handshake(comparison.specs, terms, folder / "handshake")
    except interleave.OutOfTimeError as late:
        why = f"the minutes were over in {late}, before anything was compared; allow more --minutes"
        raise SideEndedError("both", Verdict.INCONCLUSIVE, why) from late
    progress.say("both sides started, and said what they have")
    comparison = replace(comparison, plan=replace(comparison.plan, asked=hello[HEAD]["subjects"]))
    facts = {name: {**comparison.host_facts, **answer["facts"]} for name, answer in hello.items()}
    require_alike(facts)
    subjects, lost = match_subjects(comparison, hello)
    results = Results(comparison.plan, comparison.kind, lost={each.subject: each for each in lost})
    results.same_torch = facts[BASE].get("torch") == facts[HEAD].get("torch")
    # The files of a project may differ.
    own = [({**spec.environment, places.PROJECT: ""}, spec.proof, spec.backend) for spec in comparison.specs]
    results.same_software = store.state(facts[BASE]) == store.state(facts[HEAD]) and own[0] == own[1]
    outcome = GateRun(comparison, results, subjects, facts)
    outcome.run(replace(terms, plan=comparison.plan), folder, progress)
    return outcome


def _not_skipped(lost: Lost) -> Lost:
    skipped = lost.verdict is Verdict.SKIPPED and lost.side == HEAD
    return replace(lost, verdict=Verdict.FAILED, reason=f"{lost.reason}; the base runs it") if skipped else lost


def require_alike(facts: Mapping[str, Mapping[str, Figure]]) -> None:
    """Refuse to compare unlike devices or drivers."""

    def driver(side: Mapping[str, Figure]) -> str:
        return ", ".join(map(" ".join, sorted(store.state(side).groups.get("driver", {}).items())))

    for what, fact_of in (("devices", lambda side: store.place(side).devices), ("driver", driver)):
        base, head = fact_of(facts[BASE]), fact_of(facts[HEAD])
        if base != head:
            both = f"(base: {base or 'unknown'}; head: {head or 'unknown'})"
            why = "a difference would not be the change's; name sides that run on the same"
            raise Refusal(f"the two sides have unlike {what} {both}; {why}")


def match_subjects(comparison: Comparison, hello: Mapping[str, Answer]) -> tuple[dict[str, Any], list[Lost]]:
    """Return the subjects of both sides, and those that cannot be compared: one that only the base has was dropped, and fails."""
    left_out = comparison.plan.design.left_out  # kinds that cannot live in one process
    known = {
        side: {name: row for name, row in answer["subjects"].items() if row["kind"] not in left_out}
        for side, answer in hello.items()
    }
    head, base, only = known[HEAD], known[BASE], comparison.request.only
    every = {**base, **head}
    for name in set(only) - every.keys():
        near = f"{suggestion(name, every)}; there are: {', '.join(every)}"
        raise Refusal(f"--only '{name}' is no subject of this profile{near}")
    chosen, lost = {name: row for name, row in every.items() if not only or name in only}, dict[str, Lost]()
    for name in chosen:
        if name not in head:
            lost[name] = Lost(name, HEAD, Verdict.FAILED, f"head: '{name}' was dropped; the base has it")
        elif name not in base:
            reason = f"base: has no '{name}' yet, so there is nothing to compare it with"
            lost[name] = Lost(name, BASE, Verdict.NOT_APPLICABLE, reason)
        elif comparison.plan.spares(name, comparison.kind) and not only:
            reason = f"left out on {comparison.kind}, where it takes too long; --only {name} compares it"
            lost[name] = Lost(name, "both", Verdict.NOT_APPLICABLE, reason)
    return chosen, list(lost.values())


def conclude(outcome: GateRun, record: Record) -> None:
    """Add checks, measurements and facts to the record, and give it its verdict."""
    results, request = outcome.results, outcome.comparison.request
    checks = exact_checks(results, request.accept_changed)
    judged = [cell for cell in results.cells.values() if cell.subject not in results.lost]
    checks += [check_of(cell) for cell in judged if cell.subject != PROCESS or results.seen()]
    times = {cell.subject: cell for cell in judged if cell.what == TIME}
    due = {name: times.get(name) for name in outcome.subjects if name not in results.lost}
    give_verdict(record, results, checks, None if request.exact else due, request.only)
    record.measurements += _measurements(outcome)
    base, head = outcome.facts[BASE], outcome.facts[HEAD]
    record.provenance |= head  # under their own names, as in every record
    record.provenance |= {f"base.{name}": value for name, value in base.items() if head.get(name) != value}


def give_verdict(
    record: Record, results: Results, checks: Iterable[Check], due: Mapping[str, Cell | None] | None, named: Collection[str] = (),
    what: str = "time",
) -> None:  # fmt: skip
    """Put the checks into the record, how many times were decided, and what disturbed them; and give it its verdict.

    A gate that decided fewer than half of the times that are `due`, or not one that was `named`, cannot say. A time is None where it was
    not measured; `due` is None where nothing was to be timed, and something exact must be the same; `what`: what a time is called.
    """
    record.checks += checks
    if results.interrupted:
        record.checks.append(compared("run", "launches", Verdict.INTERRUPTED, "interrupted from outside"))
    if due is not None:
        decided = {name for name, cell in due.items() if cell and cell.decided}
        text = times_decided(list(due.values()), results.alike(), what)
        record.provenance["times"] = text = f"{text}; {results.ended}" if results.ended else text
        well = not any(check.verdict.exit_code for check in record.checks)
        if well and not any(due.values()) and not results.ended:
            why = "no time was measured, so nothing was compared"
            record.checks.append(compared("run", "speed", Verdict.FAILED, why))
        elif well and (2 * len(decided) < len(due) or not decided or due.keys() & set(named) - decided):
            record.checks.append(compared("run", "speed", Verdict.INCONCLUSIVE, text))
    elif not any(check.outcome is CellWord.SAME or check.verdict.exit_code for check in record.checks):
        why = "there was nothing exact to compare; of a command, name figures with --figure"
        record.checks.append(compared("run", "speed", Verdict.INCONCLUSIVE, why))
    record.verdict = overall(check.verdict for check in record.checks)
    loads = enumerate(results.conditions.loads)
    figures: dict[str, Figure] = {f"launch {number}, others' share of the cores": load for number, load in loads}
    spans = [(name, row) for each in results.launches for name, phases in each.phases.items() for row in phases.items()]
    for name, (phase, seconds) in spans:
        figures[f"{name}: {phase}, s"] = round(float(figures.get(f"{name}: {phase}, s", 0.0)) + seconds, 3)
    nothing = "no change of clock or temperature, nobody else on the card or the host, as far as can be told"
    reason = "; ".join(results.conditions.sentences()) or nothing
    record.checks.append(Check(CONDITIONS, Verdict.PASSED, reason, 0.0, figures, kind=Kind.CONDITIONS))


def exact_checks(results: Results, accepted: bool) -> list[Check]:
    """Return what needs no statistics: what was lost or is missing, what is counted, computed from equal seeds, and done in the blocks.

    `accepted`: the sides may compute different things.
    """
    checks = [compared(lost.subject, "runs", lost.verdict, lost.reason) for lost in results.lost.values()]
    for subject, figure, reason in results.missing.values():
        checks.append(compared(subject, figure, Verdict.FAILED, f"is missing: {reason}"))
    for name, pairs in results.counted.items():
        known = [] if name in results.lost else counters_of(pairs, results.plan.count.names)
        checks += [_counted(name, counter, pairs, results) for counter in known]
    rows = [(name, "computes", each.sentence(), each.changed) for name, each in results.computed.items()]
    same, did = "SAME units of work, counted in all blocks", "CHANGED the timed blocks did not do the same work: "
    rows += [(name, "units", f"{did}{words}" if words else same, bool(words)) for name, words in results.units.items()]
    for name, aspect, reason, differs in rows:
        if name not in results.lost:
            checks.append(exactly(name, aspect, CellWord.CHANGED if differs else CellWord.SAME, reason, accepted))
    return checks


def exactly(subject: str, aspect: str, word: CellWord, reason: str, accepted: bool) -> Check:
    """Return the check of what has no noise; `accepted`: both sides may compute different things."""
    if accepted and word is CellWord.CHANGED:
        return compared(subject, aspect, Verdict.PASSED, f"{reason}; accepted by {FLAG}", word)
    return compared(subject, aspect, _VERDICTS[word], reason, word)


def compared(
    subject: str, aspect: str, verdict: Verdict, reason: str, outcome: CellWord | None = None, figures: dict[str, Figure] | None = None
) -> Check:  # fmt: skip
    """Return the check of one cell; what could not be judged says so in a word, whatever the reason."""
    if outcome is None and not verdict.executed:
        outcome = CellWord.NOT_JUDGED
    own: dict[str, Any] = {"kind": Kind.CELL, "subject": subject, "aspect": aspect, "outcome": outcome}
    return Check(f"gate/{subject}::{aspect}", verdict, reason, 0.0, figures or {}, **own)


def check_of(cell: Cell) -> Check:
    """Return the check of a cell with noise."""
    ruling, verdict = cell.ruling, Verdict.SKIPPED
    if ruling is None:
        word, reason = CellWord.NOT_JUDGED, f"too few launches to tell ({len(cell.ratios)})"
    elif (cell.aside and not ruling.decided) or ruling.blind:
        why = "no launch is made for this row alone" if cell.aside else f"{cell.effect:.0%} would matter"
        word, reason = CellWord.BLIND, f"{ruling.reason}, and {why}; decides nothing"
    else:
        word, reason = ruling.outcome, f"{ruling.outcome.value} {ruling.reason}"
        if word is CellWord.INCONCLUSIVE and ruling.estimate.centre < ruling.effect / 2:
            reason += "; decides nothing, since it does not look worse by that"
        else:
            verdict = _VERDICTS[word]
    return compared(cell.subject, cell.what, verdict, reason, word, cell.figures())


def _counted(subject: str, counter: str, pairs: Pairs, results: Results) -> Check:
    """More of what is counted is worse; between two versions of torch it only is a fact, and after too few launches a question."""
    base, head = (sorted({pair[side][counter] for pair in pairs}) for side in (0, 1))
    before, after = base[0], head[0]
    share = percent(math.log(after / before)) if before > 0 and after > 0 else "not comparable"
    moved, once = f"{before} -> {after} ({share})", len(pairs) < results.plan.count.launches
    more = "another launch would show whether it varies by itself: --go-on asks for it, --exact never does"
    varies = f"it varies by itself: base {base}, head {head}"
    cases = (
        (len(base) + len(head) > 2, CellWord.NOT_JUDGED, varies),
        (before == after, CellWord.SAME, f"SAME {before} on both sides"),
        (before > after, CellWord.FASTER, f"FASTER {moved}"),
        (not results.same_torch, CellWord.NOT_JUDGED, f"{moved}, but with different torch"),
        (once, CellWord.INCONCLUSIVE, f"INCONCLUSIVE {moved}; {more}"),
        (True, CellWord.SLOWER, f"SLOWER {moved}"),
    )
    word, reason = next(case[1:] for case in cases if case[0])
    figures: dict[str, Figure] = {"base": pairs[0][0][counter], "head": pairs[0][1][counter]}
    return compared(subject, counter, _VERDICTS[word], reason, word, figures)


def times_decided(times: Sequence[Cell | None], alike: Collection[str] = (), what: str = "time") -> str:
    """Return in words how many times were decided and which change they would have shown, and which the others would.

    A time is None where it was not measured; `alike`: subjects that launched the same on equal software; `what`: what a time is called.
    """
    decided = [cell for cell in times if cell and cell.decided]
    words = f"{len(decided)} of {counted(len(times), what)} decided"
    if decided:
        words += f", where a change of {_shares(cell.effect for cell in decided)} counts"
    others = [cell for cell in times if cell and not cell.decided]
    seen = [math.expm1(min(cell.ruling.estimate.visible, math.log(10))) for cell in others if cell.ruling]
    words += f"; {'the others' if decided else 'they'} would show a change of {_shares(seen)}" if seen else ""
    alike_all = others and all(cell.subject in alike for cell in others)
    return f"{words}; in these both sides ran the same operators and kernels" if alike_all else words


def _shares(values: Iterable[float]) -> str:
    shown = [f"{100 * value:.3g} %" for value in sorted(values)]
    return shown[0] if shown[0] == shown[-1] else f"{shown[0].removesuffix(' %')} to {shown[-1]}"


def _measurements(outcome: GateRun) -> Iterator[Measurement]:
    for (name, subject), side in itertools.product(outcome.subjects.items(), (BASE, HEAD)):
        launches = [each.seen.get(name, {}).get(side) for each in outcome.results.launches]
        if not (seen := [run for run in launches if run and run.blocks]):
            continue
        unit, first = subject["unit"], seen[0]
        amount = 1.0 if unit in ("s", "ratio") else first.worth[unit.removeprefix("s/")]
        samples = [median(run.blocks) / amount for run in seen]
        figures: dict[str, Figure] = {"side": side, "subject version": subject["version"], "verified": first.proved}
        for quantity in first.quantities:
            figures[quantity] = median([run.quantities[quantity] for run in seen if quantity in run.quantities])
        figures |= {f"counter {counter}": count for counter, count in first.counters.items()}
        preset, device = outcome.comparison.preset, f"gate, {side}"
        yield Measurement(name, preset, "", 1, METRIC, unit, median(samples), samples, device, "", figures)


def run_gate(request: GateRequest) -> int:
    """Compare two variants and return the exit code of the contracts."""
    stack = chosen_stack(request)
    base, head = request.base, request.head
    if base.label == head.label and not request.same:
        differs = "--base REF, --head-env NAME=VALUE, --head-lock FILE or --head-source PACKAGE=PATH"
        raise Refusal(
            f"both sides are {base.label}; name what differs: {differs} (or --same to see how much noise there is)"
        )
    record, folder, progress = opened("gate", stack, request.outputs, f"{head.label} against {base.label}")
    comparison = make_comparison(request, stack, base, head, progress)
    began = time.monotonic()
    if offered := _vetted(comparison):
        progress.say("the workloads of the project were built once on each side")
        record.provenance |= offered
    try:
        conclude(compare(comparison, folder, progress, began), record)
    except (SideEndedError, KeyboardInterrupt) as ended:
        why = str(ended) or "interrupted from outside"
        record.verdict = ended.verdict if isinstance(ended, SideEndedError) else Verdict.INTERRUPTED
        record.checks.append(compared(PROCESS, "start-up", record.verdict, why))
    record.seconds = time.monotonic() - began
    method = EXACT if request.exact else f"in turns A B B A, {comparison.plan.design.promise}"
    method += "; a DRILL with a planted fault" if head.drill else ""
    record.provenance |= {BASE: base.label, HEAD: head.label, "method": method}
    record.provenance |= {f"{spec.name}.environment": spec.proof for spec in comparison.specs}
    return finish(record, folder, request, progress.console)


def _vetted(comparison: Comparison) -> dict[str, Figure]:
    """Build what a project offers once on each side, and return where it comes from; a broken file is refused before a launch."""
    facts = dict[str, Figure]()
    for spec in comparison.specs:
        variables = {**spec.environment, "PYTHONPATH": spec.python_path}
        if vetted := vet(spec.python, variables, comparison.request.deadline_scale):
            facts |= {f"{spec.name}.{name}": value for name, value in vetted.facts().items()}
        if commit := commit_of(spec.environment):
            facts[f"{spec.name}.project.commit"] = commit
    return facts


def chosen_stack(request: CompareRequest) -> stacks.Stack:
    """Return the stack that is asked for, and refuse a host without it."""
    if not request.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    return hosts.require(stacks.load(request.stack, rehearsed=request.rehearsed))


def opened(verb: str, stack: stacks.Stack, outputs: Outputs, what: str) -> tuple[Record, Path, GateProgress]:
    """See that all outputs can be written, say what begins, and return an empty record, a folder of its own, and who tells the progress."""
    outputs.prepare()
    progress = GateProgress(plain_console(), time.monotonic())
    progress.console.print(Text(plain(f"{verb} {stack.label}: {what}"), style="bold"))
    record = writer.begin(verb, stack.name, provenance.host_facts(stack))
    return record, outputs.folder(record), progress


def make_comparison(
    request: CompareRequest, stack: stacks.Stack, base: Variant, head: Variant, progress: GateProgress
) -> Comparison:
    """Choose the profile, build both environments, and return what is compared."""
    declared = plan.load().untimed() if request.exact else plan.load()
    name = request.profile or declared.profile(stack.device)
    variables = {*base.environment, *head.environment}
    specs = [
        unpinned(variant, stack, name, request.device, request.unpinned)
        if request.unpinned
        else prepared(variant, stack, name, request.device, progress.say)
        for variant in (base, head)
    ]
    lacking = tuple(spec.lacking(variables) for spec in specs)
    preset, facts = profile_named(name).preset, provenance.host_facts(stack)
    return Comparison(request, lacking, preset, stack.device, declared, facts)


def finish(record: Record, folder: Path, request: GateRequest, console: Console) -> int:
    """Keep the record, show it, and return the exit code."""
    path = writer.keep(record, folder / "record.json", request.outputs, report.markdown)
    report.show(record, console)
    console.print(Text(f"record: {path}", style="dim"), soft_wrap=True)
    return 0 if record.verdict is Verdict.INCONCLUSIVE and request.allow_inconclusive else record.verdict.exit_code

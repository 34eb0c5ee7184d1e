"""One report for each run whose logs were given, put into words and into a record: what failed, what holds, what the figures say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from stackproof import __version__
from stackproof.base import advice
from stackproof.base.errors import Refusal, suggestion
from stackproof.record import writer
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict, overall
from stackproof.triage import facts, figures, rules
from stackproof.triage.causes import Diagnosis, Incident, judge
from stackproof.triage.deaths import People
from stackproof.triage.facts import NOT_SHOWN, Answer, Conflict, Shown
from stackproof.triage.figures import Oddity, Training
from stackproof.triage.logs import Run
from stackproof.triage.rules import CONSEQUENCE, UNKNOWN
from stackproof.triage.scan import Evidence, scan
from stackproof.triage.search import Hit, Probe, Who


@dataclass(frozen=True)
class Report:
    """What the logs of one run say."""

    name: str
    evidence: Evidence
    judgement: Diagnosis
    shown: tuple[Shown, ...]
    conflicts: tuple[Conflict, ...]
    answers: tuple[Answer, ...]
    training: Training | None
    oddities: tuple[Oddity, ...]

    @property
    def wrong(self) -> list[Oddity]:
        """What cannot be right in the training's own figures."""
        return [oddity for oddity in self.oddities if oddity.wrong]

    @property
    def verdict(self) -> Verdict:
        """Passed needs a line that shows a good end, or expectations that are shown; logs that are cut off are inconclusive."""
        wrong = self.judgement.root or self.wrong or self.conflicts
        if wrong or not all(answer.holds for answer in self.answers):
            return Verdict.FAILED
        damaged = any(file.damage for file in self.evidence.files)
        return Verdict.PASSED if (self.judgement.end or self.answers) and not damaged else Verdict.INCONCLUSIVE


@cache
def probes() -> tuple[Probe, ...]:
    signatures = (probe for row in rules.load_all() for probe in (row.probe, *row.conditions))
    return (*signatures, *rules.probes(), *(line.probe for line in figures.table().line))


def report(run: Run, expected: Sequence[str] = ()) -> Report:
    """Read the logs of a run and say what they hold.

    Raises:
        Refusal: a log cannot be read, or all of them are empty; an expectation is not known.
    """
    check_expectations(expected)
    evidence = scan(run.sources, probes())
    names = ", ".join(file.name for file in evidence.files[:3])
    if not any(file.bytes for file in evidence.files):
        damage = next((file.damage for file in evidence.files if file.damage), "is empty")
        raise Refusal(f"{names}: {damage}, so nothing can be said of it; name the log of a run")
    if not evidence.tallies and not any(file.text for file in evidence.files):
        raise Refusal(f"{names}: is not text, so nothing can be said of it; name the log of a run")
    trained = figures.read(evidence)
    return Report(
        name=run.name,
        evidence=evidence,
        judgement=judge(evidence),
        shown=tuple(facts.shown(evidence)),
        conflicts=(*facts.conflicts(evidence), *facts.differing(evidence)),
        answers=tuple(facts.answer(name, evidence) for name in expected),
        training=trained,
        oddities=tuple(figures.oddities(trained)) if trained else (),
    )


def check_expectations(names: Iterable[str]) -> None:
    """Refuse an expectation that is not in the table."""
    known = rules.expectations()
    for name in names:
        if name not in known:
            allowed = ", ".join(sorted(known))
            raise Refusal(f"there is no expectation {name!r}{suggestion(name, known)}; one of: {allowed}")


_MOST_RANKS = 6


def people(who: Sequence[Who]) -> str:
    """Return who it happened to: ranks as numbers and ranges, the first to fail first; nothing when the log does not say."""
    ranks = [number for kind, number in who if kind == "rank"]
    if ranks:
        rest = _ranges(sorted(ranks[1:]))
        return f"rank {ranks[0]}" + (f" (then {rest})" if rest else "")
    processes = [number for kind, number in who if kind == "pid"]
    return f"process {processes[0]}" if processes else ""


def _ranges(numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return ", ".join(shown[:_MOST_RANKS]) + (" ..." if len(shown) > _MOST_RANKS else "")


def place(report: Report, hit: Hit) -> str:
    """Return where a line stands: its number, with the file where the run has several."""
    return report.evidence.place(hit) if len(report.evidence.files) > 1 else f"line {hit.place.line}"


def headline(report: Report) -> tuple[str, str]:
    """Return the first line of a report: a word that is the verdict, and the sentence for it."""
    judgement = report.judgement
    if judgement.root:
        who = people(judgement.root.who)
        title = f"{who}: {judgement.root.title}" if who else judgement.root.title
        if judgement.root.kind == CONSEQUENCE:
            return "ONLY A CONSEQUENCE", f"{title}; what failed first is not in this log"
        return "ROOT CAUSE", title if judgement.root.signature else f"{title} ({UNKNOWN})"
    if report.wrong:
        return "WRONG", report.wrong[0].sentence
    if report.conflicts:
        return "CONTRADICTION", report.conflicts[0].title
    refuted = [answer for answer in report.answers if not answer.holds]
    if refuted:
        return "NOT HELD", f"{refuted[0].expectation.name}: {refuted[0].sentence}"
    lines = f"{sum(file.lines for file in report.evidence.files)} lines of {len(report.evidence.files)} file(s)"
    if report.verdict is Verdict.PASSED:
        if end := judgement.end:
            return "CLEAN", f"it ended well ({place(report, end)}: {end.text.strip()}); {lines}"
        return "HELD", f"{', '.join(answer.expectation.name for answer in report.answers)}; no failure in {lines}"
    damage = next((f"; {file.name} {file.damage}" for file in report.evidence.files if file.damage), "")
    last = next((" / ".join(file.tail) for file in reversed(report.evidence.files) if file.tail), "")
    return "CANNOT SAY", f"no failure, and no sign of a good end, in {lines}{damage}; it ends with: {last}"


_DIGITS = 6  # more ranks than these count is some other number


def next_steps(report: Report) -> Iterator[str]:
    """Yield what to do where the logs do not say how the run ended."""
    files, people_of = report.evidence.files, People(report.evidence)
    yield from (f"give the whole of {file.name}, which {file.damage}" for file in files if file.damage)
    stated = [value for row in report.shown if row.fact.name == "world size" for value, _ in row.values]
    world = max((int(value) for value in stated if len(value) <= _DIGITS), default=1)
    who = [people_of.known(who) for tally in report.evidence.tallies.values() for who in tally.first]
    seen = {number for kind, number in who if kind == "rank"} | {file.rank for file in files if file.rank is not None}
    missing = [rank for rank in range(world) if rank not in seen]
    how = "name the folder that holds all of them, or all files with --together"
    if seen and missing:
        yield f"give the logs of the missing ranks too, {_ranges(missing)} ({len(missing)} of {world}): {how}"
    elif missing and world > len(files):
        yield f"{world} ranks ran, and {len(files)} file(s) are here that name none: if some ranks wrote elsewhere, {how}"
    killed = "if it was killed, the log of its launcher or scheduler and `dmesg` say so"
    yield f"{killed}; if it still runs, `py-spy dump --pid PID` shows where it waits"
    if world > 1 or len(seen) > 1:
        stack, talk = next(
            ((row.fact.stack, row.fact.talk) for row in report.shown if row.fact.stack), ("NAME", "NCCL_DEBUG=INFO")
        )
        proof = advice.command(stack, "ddp")
        yield f"if it hangs without a word, run it again with {talk}, and prove the cards' collectives: `{proof}`"


def confidence(root: Incident, judgement: Diagnosis) -> str:
    """Return how sure the root cause is, and what limits that."""
    doubt = "" if judgement.ordered else "; the logs do not show which rank failed first"
    return f"{root.certainty or 'unknown: no signature fits'}{doubt}"


def sentence(report: Report) -> str | None:
    """Return the root cause as one sentence with cause, remedy and link; None if the logs hold no failure."""
    root = report.judgement.root
    if root is None:
        return report.wrong[0].sentence if report.wrong else None
    _, title = headline(report)
    after = f" in {report.judgement.collective}" if report.judgement.collective and not root.signature else ""
    if not root.signature:
        return f"{title}{after}"
    return f"{title} [{root.signature}, {root.certainty}]: {root.cause} {root.remedy.rstrip('.')} ({root.link})"


def values(row: Shown) -> str:
    """Return the values of a fact; those that were seen on several lines with how many."""
    several = len(row.values) > 1
    return ", ".join(f"{value} ({count})" if several else value for value, count in row.values)


def training(trained: Training) -> str:
    """Return the figures of a training run in one line."""
    losses = trained.series.get("loss", [])
    parts = [
        f"{trained.steps} steps" if trained.steps else "",
        f"{trained.samples_per_second:g} samples/s" if trained.samples_per_second else "",
        f"{trained.steps_per_second:.3g} steps/s" if trained.steps_per_second else "",
        f"loss {losses[0]:g} -> {losses[-1]:g}" if losses else "",
        f"mean {trained.figures['train_loss']:g}" if "train_loss" in trained.figures else "",
        f"world size {trained.world_size}" if trained.world_size else "",
        f"trainable {trained.figures['trainable']:,.0f}" if "trainable" in trained.figures else "",
        f"of {trained.figures['parameters']:,.0f} parameters" if "parameters" in trained.figures else "",
        f"{trained.memory_gb:g} GB" if trained.memory_gb else "",
        f"in {trained.seconds:.0f} s" if trained.seconds else "",
    ]
    return f"{', '.join(part for part in parts if part)} ({', '.join(trained.trainers)})"


def record(reports: Sequence[Report], stack: str) -> Record:
    """Return one record for all reports; it validates like any other and names the logs."""
    whole = writer.begin("triage", stack, _provenance(reports))
    for report in reports:
        prefix = "triage" if len(reports) == 1 else f"triage/{report.name}"
        whole.checks.extend(_checks(report, prefix))
        whole.measurements.extend(_measurements(report))
        whole.logs.extend(file.name for file in report.evidence.files)
    whole.verdict = overall(check.verdict for check in whole.checks)
    return whole


def _checks(report: Report, prefix: str) -> Iterator[Check]:
    failure = sentence(report) if report.judgement.root else None
    open_ = Verdict.INCONCLUSIVE if report.verdict is Verdict.INCONCLUSIVE else Verdict.PASSED
    reason, verdict = failure or headline(report)[1], Verdict.FAILED if failure else open_
    yield Check(f"{prefix}::root-cause", verdict, reason, 0.0, _figures(report))
    asked = "; ".join(row.title for row in report.conflicts)
    yield _check(f"{prefix}::asked-is-in-effect", not asked, asked or "nothing contradicts what was asked for")
    if report.training:
        odd = "; ".join(oddity.sentence for oddity in report.oddities)
        yield _check(f"{prefix}::training", not report.wrong, odd or training(report.training))
    for answer in report.answers:
        shown: dict[str, Figure] = {"answer": answer.answer, "shown": answer.answer != NOT_SHOWN}
        yield _check(f"{prefix}::expect[{answer.expectation.name}]", answer.holds, answer.sentence, shown)


def _check(name: str, holds: bool, reason: str, figures: dict[str, Figure] | None = None) -> Check:
    return Check(name, Verdict.PASSED if holds else Verdict.FAILED, reason, 0.0, figures or {})


def _figures(report: Report) -> dict[str, Figure]:
    judgement = report.judgement
    numbers: dict[str, Figure] = {"lines": sum(file.lines for file in report.evidence.files)}
    if root := judgement.root:
        numbers |= {
            "signature": root.signature or UNKNOWN,
            "who": people(root.who),
            "place": report.evidence.place(root.first),
            "line": root.first.text[:1000],
            "certainty": root.certainty,
            "collective": judgement.collective,
        }
    for name in ("others", "consequences", "noise"):
        numbers[name] = ", ".join(row.signature or row.title for row in getattr(judgement, name))
    return numbers


def _provenance(reports: Sequence[Report]) -> dict[str, Figure]:
    facts: dict[str, Figure] = {"pinned": False, "stackproof": __version__, "read from": "logs"}
    for report in reports:
        for row in report.shown:
            facts.setdefault(f"{row.fact.name} (log)", values(row))
        for name, value in report.training.words.items() if report.training else ():
            facts.setdefault(f"{name} (log)", value)
    return facts


def _measurements(report: Report) -> Iterator[Measurement]:
    training = report.training
    if training is None:
        return
    workload, dtype = training.words.get("model", "") or report.name, training.words.get("dtype", "")
    note = f"read from a log, measured by {', '.join(training.trainers)}; not verified"
    samples, steps = training.samples_per_second, training.steps_per_second
    for metric, unit, value in (
        ("training", "s/sample", 1 / samples if samples else None),
        ("training", "s/iteration", 1 / steps if steps else None),
        ("mean loss", "1", training.figures.get("train_loss")),
        ("device memory", "GB", training.memory_gb),
        ("trainable parameters", "1", training.figures.get("trainable")),
    ):
        if value is not None:
            yield Measurement(workload, "full", dtype, training.world_size or 1, metric, unit, value, [value], note)

"""The verb `gate`: from a request to two sides, from what was measured to a record."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.bench.subjects import profile as profile_named
from stackproof.bench.subjects import require_named
from stackproof.gate import plan, report, stored
from stackproof.gate.cells import BASE, HEAD, Results
from stackproof.gate.gate import Comparison, compare, compared, conclude
from stackproof.gate.interleave import PROCESS
from stackproof.gate.live import OutOfTimeError, SideEndedError
from stackproof.gate.request import CompareRequest, GateRequest
from stackproof.gate.variants import Variant, commit_of, prepared, unpinned
from stackproof.record import writer
from stackproof.record.console import plain_console
from stackproof.record.records import Figure, Record, Verdict
from stackproof.record.writer import Outputs
from stackproof.runner.runs import vet
from stackproof.stack import hosts, provenance, stacks


@dataclass
class GateProgress:
    """Tells a person how far the gate is: one line a launch, and at each look what is still open."""

    console: Console
    began: float

    def launched(self, number: int, most: int, subject: str) -> None:
        """Say that a subject was measured."""
        self.say(f"launch {number} of at most {most}: {subject}")

    def looked(self, results: Results) -> None:
        """Say what is decided."""
        left, count = results.undecided(), len(results.launches)
        self.say(f"after {count} launches: " + (f"open: {', '.join(left)}" if left else "all is decided"))

    def say(self, text: str) -> None:
        """Print a line with the seconds that have passed."""
        self.console.print(Text(plain(f"[{time.monotonic() - self.began:5.0f} s] {text}"), style="dim"), soft_wrap=True)


def run_gate(request: GateRequest) -> int:
    """Compare two variants and return the exit code of the contracts."""
    stack = chosen_stack(request)
    base, head = request.base, request.head
    if base.record and base != Variant(BASE, record=base.record):
        raise Refusal("--base-record is the whole base; leave --base, --base-lock, --base-source and --base-env out")
    if base.label == head.label and not request.same:
        raise Refusal(
            f"both sides are {base.label}; name what differs: --base REF, --head-env NAME=VALUE, --head-lock FILE, "
            "--head-source PACKAGE=PATH or --base-record FILE (or --same to see how much noise there is)"
        )
    record, folder, progress = opened("gate", stack, request.outputs, f"{head.label} against {base.label}")
    comparison = make_comparison(request, stack, base, head, progress)
    record.provenance |= _vetted(comparison, () if base.record else request.only)
    comparison = replace(comparison, accept_changed=request.accept_changed, go_on=request.go_on)
    _compare(comparison, record, folder, progress)
    record.provenance |= {BASE: base.label, HEAD: head.label, "method": _method(comparison)}
    record.provenance |= {f"{spec.name}.environment": spec.proof for spec in comparison.specs}
    return finish(record, folder, request, progress.console)


def _vetted(comparison: Comparison, only: Sequence[str]) -> dict[str, Figure]:
    """Build what a project offers once on each side, and return where it comes from.

    A broken file, and a name that neither side has, are refused before a launch.
    """
    facts, names = dict[str, Figure](), set[str]()
    for spec in comparison.specs:
        path = os.pathsep.join(filter(None, (str(spec.source), spec.environment.get("PYTHONPATH", ""))))
        found = vet(spec.python, {**spec.environment, "PYTHONPATH": path}, comparison.scale)
        facts |= {f"{spec.name}.{name}": value for name, value in found.facts().items()} if found else {}
        names |= found.workloads.keys() if found else set()
        if commit := commit_of(spec.environment):
            facts[f"{spec.name}.project.commit"] = commit
    require_named(only, offered=names)
    return facts


def chosen_stack(request: CompareRequest) -> stacks.Stack:
    """Return the stack that is asked for, and refuse a host without it."""
    if not request.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(request.stack)
    stack = stack.rehearse() if request.rehearsed else stack
    found = hosts.inspect(stack)
    if not found.present:
        raise found.refusal()
    return stack


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
    """Choose the profile, build both environments or read the stored base, and return what is compared."""
    declared = plan.load()
    name = request.profile or declared.profile(stack.device)
    preset = profile_named(name).preset
    recalled = stored.load(base.record, preset) if base.record else None
    live = [head] if recalled else [base, head]
    variables = {*base.environment, *head.environment}
    specs = [
        unpinned(variant, stack, name, request.device, request.unpinned)
        if request.unpinned
        else prepared(variant, stack, name, request.device, progress.say)
        for variant in live
    ]
    return Comparison(
        specs=tuple(spec.lacking(variables) for spec in specs), preset=preset, kind=stack.device,
        plan=declared, minutes=request.minutes, only=request.only, unlike=request.unlike, stored=recalled,
        scale=request.deadline_scale, host_facts=provenance.host_facts(stack),
    )  # fmt: skip


def _compare(comparison: Comparison, record: Record, folder: Path, progress: GateProgress) -> None:
    began = time.monotonic()
    try:
        outcome = compare(comparison, folder, progress)
    except SideEndedError as ended:
        record.checks.append(compared(PROCESS, "start-up", ended.verdict, str(ended)))
        record.verdict = ended.verdict
    except KeyboardInterrupt:
        record.checks.append(compared(PROCESS, "start-up", Verdict.INTERRUPTED, "interrupted from outside"))
        record.verdict = Verdict.INTERRUPTED
    except OutOfTimeError as late:
        why = f"the minutes were over in {late}, before anything was compared; allow more --minutes"
        record.checks.append(compared("run", "judged", Verdict.INCONCLUSIVE, why))
        record.verdict = Verdict.INCONCLUSIVE
    else:
        conclude(outcome, record)
    record.seconds = time.monotonic() - began


def _method(comparison: Comparison) -> str:
    how = "NOT INTERLEAVED, the base is a stored record" if comparison.stored else "interleaved A B B A"
    drill = "; a DRILL with a planted fault" if any(spec.drill for spec in comparison.specs) else ""
    return f"{how}, {comparison.plan.design.promise}{drill}"


def finish(record: Record, folder: Path, request: GateRequest, console: Console) -> int:
    """Keep the record, show it, and return the exit code."""
    path = writer.keep(record, folder / "record.json", request.outputs, report.markdown)
    report.show(record, console)
    console.print(Text(f"record: {path}", style="dim"), soft_wrap=True)
    return 0 if record.verdict is Verdict.INCONCLUSIVE and request.allow_inconclusive else record.verdict.exit_code

"""The verb `gate`: from flags to two specs, from what was found to a record and its pictures.

The verb `sweep`: from flags to a grid, from its results to a ranked table.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stackproof.base.errors import Refusal
from stackproof.base.text import in_markdown, plain
from stackproof.base.units import shown
from stackproof.bench.subjects import kinds_of, require_named
from stackproof.bench.subjects import profile as profile_named
from stackproof.gate import plan, planted, report, stored, sweep
from stackproof.gate.cells import BASE, HEAD, Results
from stackproof.gate.conclude import compared, conclude
from stackproof.gate.gate import Comparison, compare
from stackproof.gate.interleave import PROCESS
from stackproof.gate.live import SideEndedError, SideSpec
from stackproof.gate.report import sees, strip, word
from stackproof.gate.variants import Variant, assignments, commit_of, prepared, sources, unpinned
from stackproof.record import writer
from stackproof.record.console import plain_console
from stackproof.record.records import CellWord, Check, Figure, Record, Verdict
from stackproof.record.writer import LOCAL, Outputs
from stackproof.runner import vetting
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


def run_gate(options: argparse.Namespace) -> int:
    """Compare two variants and return the exit code of the contracts."""
    stack = chosen_stack(options)
    base, head = _variants(options)
    record, folder, progress = opened("gate", stack, options, f"{head.label} against {base.label}")
    comparison = make_comparison(options, stack, base, head, progress)
    record.provenance |= _vetted(comparison, () if options.base_record else options.only)
    _compare(comparison, record, folder, progress, options.accept_changed)
    record.provenance |= {BASE: base.label, HEAD: head.label, "method": _method(comparison)}
    record.provenance |= {f"{one.name}.environment": one.proof for one in comparison.specs}
    return finish(record, folder, options, progress.console)


def _vetted(comparison: Comparison, only: Sequence[str]) -> dict[str, Figure]:
    """Build what a project offers once on each side, and return where it comes from.

    A broken file, and a name that neither side has, are refused before a launch.
    """
    facts, names = dict[str, Figure](), set[str]()
    for spec in comparison.specs:
        path = os.pathsep.join(filter(None, (str(spec.source), spec.environment.get("PYTHONPATH", ""))))
        found = vetting.vet(spec.python, {**spec.environment, "PYTHONPATH": path}, comparison.scale)
        facts |= {f"{spec.name}.{name}": value for name, value in found.facts().items()} if found else {}
        names |= found.workloads.keys() if found else set()
        if commit := commit_of(spec.environment):
            facts[f"{spec.name}.project.commit"] = commit
    require_named(only, offered=names)
    return facts


def chosen_stack(options: argparse.Namespace) -> stacks.Stack:
    """Return the stack that the flags name, and refuse a host without it."""
    if not options.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(options.stack)
    stack = stack.rehearse() if options.rehearsed else stack
    found = hosts.inspect(stack)
    if not found.present:
        raise found.refusal()
    return stack


def _outputs(options: argparse.Namespace) -> Outputs:
    return Outputs(options.results or LOCAL, options.json, options.junit, options.markdown)


def opened(verb: str, stack: stacks.Stack, options: argparse.Namespace, what: str) -> tuple[Record, Path, GateProgress]:
    """See that all outputs can be written, say what begins, and return an empty record, a folder of its own, and who tells the progress."""
    outputs = _outputs(options)
    outputs.prepare()
    progress = GateProgress(plain_console(), time.monotonic())
    progress.console.print(Text(plain(f"{verb} {stack.label}: {what}"), style="bold"))
    record = writer.begin(verb, stack.name, provenance.host_facts(stack))
    return record, outputs.folder(record), progress


def make_comparison(
    options: argparse.Namespace, stack: stacks.Stack, base: Variant, head: Variant, progress: GateProgress
) -> Comparison:
    """Choose the profile, build both environments or read the stored base, and return what is compared."""
    options.profile = options.profile or plan.load().profile(stack.device)
    preset = profile_named(options.profile).preset
    recalled = stored.load(base.record, preset) if base.record else None
    live = [head] if recalled else [base, head]
    names = {*base.environment, *head.environment}
    return Comparison(
        specs=tuple(_spec(one, stack, options, progress).lacking(names) for one in live),
        preset=preset,
        kind=stack.device,
        plan=plan.load(),
        minutes=options.minutes,
        only=tuple(options.only),
        unlike=bool(getattr(options, "unlike", False)),
        stored=recalled,
        scale=options.deadline_scale,
        host_facts=provenance.host_facts(stack),
    )


def _compare(comparison: Comparison, record: Record, folder: Path, progress: GateProgress, accepted: bool) -> None:
    began = time.monotonic()
    try:
        outcome = compare(comparison, folder, progress)
    except SideEndedError as ended:
        record.checks.append(compared(PROCESS, "start-up", ended.verdict, str(ended)))
        record.verdict = ended.verdict
    except KeyboardInterrupt:
        record.checks.append(compared(PROCESS, "start-up", Verdict.INTERRUPTED, "interrupted from outside"))
        record.verdict = Verdict.INTERRUPTED
    else:
        conclude(outcome, record, comparison.preset, accepted)
    record.seconds = time.monotonic() - began


def _method(comparison: Comparison) -> str:
    how = "NOT INTERLEAVED, the base is a stored record" if comparison.stored else "interleaved A B B A"
    drill = "; a DRILL with a planted fault" if any(one.drill for one in comparison.specs) else ""
    return (
        f"{how}, {1 - comparison.plan.design.alpha:.0%} over {len(comparison.plan.design.looks)} declared looks{drill}"
    )


def _variants(options: argparse.Namespace) -> tuple[Variant, Variant]:
    base, head = (_variant(options, name) for name in (BASE, HEAD))
    if base.record and (options.base or base.lock or base.sources or base.environment):
        raise Refusal("--base-record is the whole base; leave --base, --base-lock, --base-source and --base-env out")
    if base.label == head.label and not options.same:
        raise Refusal(
            f"both sides are {base.label}; name what differs: --base REF, --head-env NAME=VALUE, --head-lock FILE, "
            "--head-source PACKAGE=PATH or --base-record FILE (or --same to see how much noise there is)"
        )
    return base, head


def _variant(options: argparse.Namespace, name: str) -> Variant:
    given = {key: getattr(options, f"{name}_{key}") for key in ("lock", "source", "env")}
    drill = options.head_drill if name == HEAD else ""
    planted.read(drill)
    return Variant(
        name, getattr(options, name) or "", given["lock"], sources(given["source"], f"--{name}-source"),
        assignments(given["env"], f"--{name}-env"), options.base_record if name == BASE else None, drill,
    )  # fmt: skip


def _spec(variant: Variant, stack: stacks.Stack, options: argparse.Namespace, progress: GateProgress) -> SideSpec:
    if options.unpinned:
        return unpinned(variant, stack, options.profile, options.device, options.unpinned.absolute())
    return prepared(variant, stack, options.profile, options.device, progress.say)


def finish(record: Record, folder: Path, options: argparse.Namespace, console: Console) -> int:
    """Keep the record and its pictures, show it, and return the exit code."""
    path = writer.keep(record, folder / "record.json", _outputs(options), report.markdown)
    report.picture(record, folder / "gate.svg")
    report.show(record, console)
    console.print(Text(f"record: {path}; picture: {folder / 'gate.svg'}", style="dim"), soft_wrap=True)
    if record.verdict is Verdict.INCONCLUSIVE and options.allow_inconclusive:
        return 0
    return record.verdict.exit_code


def run_sweep(options: argparse.Namespace) -> int:
    """Measure the grid and return the exit code of the contracts."""
    stack = chosen_stack(options)
    settings = sweep.grid(options.env, options.backend)
    record, folder, progress = opened("sweep", stack, options, f"{len(settings)} settings against the defaults")
    base, head = Variant("base"), Variant("head")
    comparison = _ranked(make_comparison(options, stack, base, head, progress), options.only)
    began = time.monotonic()
    results, defaults = sweep.sweep(comparison, settings, folder, progress)
    sweep.conclude(results, defaults, record)
    record.seconds = time.monotonic() - began
    record.provenance["settings"] = "; ".join(setting.label for setting in settings)
    path = writer.keep(record, folder / "record.json", _outputs(options), markdown)
    show(record, progress.console)
    progress.console.print(Text(f"record: {path}", style="dim"), soft_wrap=True)
    return record.verdict.exit_code


def _ranked(comparison: Comparison, only: list[str]) -> Comparison:
    """Let kinds that take ranks take part; without --only, they alone."""
    left_out = tuple(kind for kind in comparison.plan.design.left_out if kind not in plan.RANKED)
    kinds = () if only else tuple(kinds_of(comparison.specs[0].profile) - set(plan.RANKED))
    design = replace(comparison.plan.design, left_out=(*left_out, *kinds))
    return replace(comparison, plan=replace(comparison.plan, design=design))


def show(record: Record, console: Console) -> None:
    """Print the settings that were ignored first, then by subject all settings, the fastest first."""
    for check in record.checks:
        if check.outcome is CellWord.IGNORED or check.verdict.exit_code not in (0, Verdict.INCONCLUSIVE.exit_code):
            console.print(
                Text(plain(f"{check.id.removeprefix('sweep/')}: {check.reason}"), style="bold red"), soft_wrap=True
            )
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("subject", "setting", "against the defaults", "better  <  same  >  worse", "rate", "sees from"):
        table.add_column(title, no_wrap=title != "setting")
    for row in _rows(record):
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(table)


def _rows(record: Record) -> list[tuple[str, ...]]:
    ignored = {check.group for check in record.checks if check.outcome is CellWord.IGNORED}
    return [
        (
            check.subject,
            check.group + (" (IGNORED)" if check.group in ignored else ""),
            f"{word(check)} {_change(check)}".strip(),
            strip(check),
            _rate(check),
            sees(check),
        )
        for check in sweep.ranked(record)
    ]


def _change(check: Check) -> str:
    return f"{100 * (float(check.figures['ratio']) - 1):+.1f} %" if "ratio" in check.figures else ""


def _rate(check: Check) -> str:
    return shown(float(check.figures["seconds"]), str(check.figures["unit"])) if "seconds" in check.figures else ""


def markdown(record: Record) -> str:
    """Return the ranked table for a comment or a job's summary."""
    head = ["| subject | setting | against the defaults | | rate | sees from |", "|---|---|---|---|---|---:|"]
    escaped = [
        [in_markdown(cell) if number != 3 else f"`{cell.replace('|', '¦')}`" for number, cell in enumerate(row)]
        for row in _rows(record)
    ]
    ignored = [
        f"- {in_markdown(check.id)}: {in_markdown(check.reason)}"
        for check in record.checks
        if check.outcome is CellWord.IGNORED
    ]
    return "\n".join(
        [
            f"### stackproof sweep: {record.stack}",
            "",
            *ignored,
            "",
            *head,
            *(f"| {' | '.join(row)} |" for row in escaped),
            "",
        ]
    )

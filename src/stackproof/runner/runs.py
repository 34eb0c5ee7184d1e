"""One run of a verb: is the stack here, is the environment its lock, do a project's workloads build, then the suites and the record."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import files, places, processes
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.base.text import counted, tail
from stackproof.device import names
from stackproof.project import projects
from stackproof.project.projects import Project
from stackproof.record import resume, writer
from stackproof.record.outcomes import take_over_rows
from stackproof.record.records import Check, Figure, Record, Verdict
from stackproof.record.writer import Outputs
from stackproof.runner import supervise
from stackproof.runner.request import Request
from stackproof.runner.supervise import Observer
from stackproof.stack import environment_proof, hosts, provenance
from stackproof.stack.stacks import Stack


def conduct(request: Request, outputs: Outputs, observer: Observer, go_on: bool = False) -> tuple[Record, Path]:
    """Run the request and return its record and where it was written.

    `go_on`: take over what the last run of this verb, stack and environment had when it was stopped.
    """
    from stackproof.record import console  # needs rich, which what only asks for `vet` may lack

    began = time.monotonic()
    outputs.prepare()
    record = writer.begin(request.verb, request.stack.name)
    folder = outputs.folder(record)
    try:
        record.provenance |= provenance.host_facts(request.stack)
        record.provenance |= request.facts()
        stopped = resume.newest(outputs.results, request.verb, request.stack.name, but=folder) if go_on else None
        _establish(request, record, observer)
        if stopped:
            _take_over(record, stopped)
            take_over_rows(stopped.parent, folder)
    except (StackUnavailableError, EnvironmentMismatchError) as refusal:
        absent = isinstance(refusal, StackUnavailableError)
        record.verdict = Verdict.UNAVAILABLE if absent else Verdict.MISMATCHED
        _add(record, observer, Check("host" if absent else "environment", record.verdict, str(refusal), 0.0))
    except Refusal:
        with contextlib.suppress(OSError):  # what it has already stays
            folder.rmdir()
        raise
    except KeyboardInterrupt:
        record.checks.append(Check("environment", Verdict.INTERRUPTED, "interrupted from outside", 0.0))
        record.verdict = Verdict.INTERRUPTED
    else:
        supervise.run(request, record, observer, folder)
    record.seconds += time.monotonic() - began
    record.logs = [os.path.relpath(log, folder) for log in record.logs]
    return record, writer.keep(record, folder / "record.json", outputs, console.markdown)


def _establish(request: Request, record: Record, observer: Observer) -> None:
    began, stack = time.monotonic(), request.stack
    present = hosts.inspect(stack)
    evidence = (
        "; ".join(f"{finding.what}: {finding.evidence}" for finding in present.findings)
        or "it needs nothing that a host may lack"
    )
    if not present.present:
        evidence = _torch_sees(stack, present)
    _add(record, observer, Check("host", Verdict.PASSED, evidence, 0.0))
    proved = environment_proof.prove(stack, request.deep)
    record.provenance |= provenance.proof_facts(proved)
    seconds = time.monotonic() - began
    _add(
        record,
        observer,
        Check("environment", Verdict.PASSED, proved.sentence(stack), seconds, dict(provenance.proof_facts(proved))),
    )
    if request.device:
        names.require_in(Path(sys.executable), stack, request.device)
    began = time.monotonic()
    if vetted := vet(environment=stack.process_environment(), scale=request.deadline_scale):
        record.provenance |= vetted.facts()
        seconds = time.monotonic() - began
        _add(record, observer, Check("project", Verdict.PASSED, vetted.sentence(), seconds))


# Facts that have to be the same for a stopped run to be continued: other bits would be judged together.
_SAME = (
    "host", "cpu", "kernel", "driver.", "env.", "drilled", "lock", "torch", "commit", "code", "project.folder", "project.digest",
    "rehearsed", "suites", "only", "preset", "device", "dataset", "minutes", "seed", "case",
)  # fmt: skip


def _take_over(record: Record, path: Path) -> None:
    """Add what an interrupted run had; its interrupted check runs again."""
    earlier = resume.stopped(path, record.provenance, _SAME)
    own = {check.id for check in record.checks}
    record.checks += [row for row in earlier.checks if row.id not in own and row.verdict is not Verdict.INTERRUPTED]
    record.measurements += earlier.measurements
    record.seconds += earlier.seconds
    record.provenance["continues"] = path.parent.name


def _torch_sees(stack: Stack, availability: hosts.Availability) -> str:
    """In somebody's container the nodes may have other names; there, what torch sees counts."""
    try:
        from stackproof.device import devices

        cards = devices.count(stack.device)
    except StackUnavailableError as refusal:
        raise StackUnavailableError(f"{availability.refusal()}; {refusal}") from refusal
    except (ImportError, OSError, Refusal):  # no torch, or one that does not load here
        cards = 0
    if not cards:
        raise availability.refusal()
    unseen = "; no ".join(row.what for row in availability.findings if not row.found)
    return f"torch sees {cards} '{stack.device}' device(s), although the host shows no {unseen}"


def _add(record: Record, observer: Observer, check: Check) -> None:
    record.checks.append(check)
    observer.finished(check)


_SECONDS = 300.0


@dataclass(frozen=True)
class Vetted:
    """A project, or what packages offer, after every workload was built once."""

    project: Project | None
    workloads: Mapping[str, Mapping[str, str]]
    """By name: its `file`, the `digest` of the text that was run (SHA-256), and what was `seen` of it."""

    def sentence(self) -> str:
        """Say what stands beside ours."""
        lines = [
            f"{name} ({self._display_path(row['file'])} {row['digest'][:12]}: {row['seen']})"
            for name, row in self.workloads.items()
        ]
        where = f"project {self.project.name} at {self.project.folder}" if self.project else "packages"
        return f"{where}: {counted(len(lines), 'workload')}" + (f": {'; '.join(lines)}" if lines else "")

    def facts(self) -> dict[str, Figure]:
        figures: dict[str, Figure] = dict(self.project.facts()) if self.project else {}
        return figures | {
            f"workload.{name}": f"{self._display_path(row['file'])} {row['digest']}"
            for name, row in self.workloads.items()
        }

    def _display_path(self, file: str) -> str:
        return self.project.display_path(Path(file)) if self.project else file


def vet(
    python: Path = Path(sys.executable), environment: Mapping[str, str] | None = None, scale: float = 1.0
) -> Vetted | None:
    """Build every workload that is not ours once; None where nobody offers any.

    Args:
        python: the interpreter of the environment in which they will run.
        environment: variables besides ours, such as a side's.
        scale: what the deadline is multiplied by, for slow hosts.

    Raises:
        Refusal: one cannot be imported, or lacks something; the sentence names its file and the remedy.
    """
    project = projects.at((environment or {}).get(places.PROJECT, "")) or projects.current()
    if project is None and not projects.packaged():
        return None
    if project is not None and not project.workloads and not projects.packaged():
        return Vetted(project, {})
    command = [str(python), "-m", "stackproof.workloads.catalogue"]
    variables = {places.PROJECT: str(project.folder) if project else "", **(environment or {})}
    ended = processes.run(command, seconds=_SECONDS * scale, environment=variables)
    if ended.timed_out:
        where = str(project.folder) if project else "installed packages"
        raise Refusal(f"the workloads of {where} were not built in {_SECONDS * scale:.0f} s; make `tiny` smaller")
    if ended.code == Refusal.exit_code:
        raise Refusal(tail(ended.errors, 1, most=2000))
    last = ["", *ended.output.strip().splitlines()][-1]
    if ended.code or not last.startswith("{"):
        where = f"{last or 'a workload'}: ended its process with {processes.describe_exit(ended.code)} as it was imported or built"
        raise Refusal(f"{where}; {tail(ended.errors, 3, most=2000)}")
    value = files.parse_json(last, "what the workloads say of themselves")
    return Vetted(project, value)

"""One run of a verb from host to record: is the stack here, is the environment its lock, then the suite."""

from __future__ import annotations

import os
import time
from pathlib import Path

from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.record import console, resume, writer
from stackproof.record.records import Check, Record, Verdict
from stackproof.record.writer import Outputs
from stackproof.runner import supervise, vetting
from stackproof.runner.request import Request
from stackproof.runner.supervise import Observer, variables_of
from stackproof.stack import environment_proof, hosts, provenance
from stackproof.stack.stacks import Stack


def conduct(request: Request, outputs: Outputs, observer: Observer, go_on: bool = False) -> tuple[Record, Path]:
    """Run the request and return its record and where it was written.

    `go_on`: take over what the last run of this verb, stack and environment had when it was stopped.
    """
    outputs.prepare()
    record = writer.begin(request.verb, request.stack.name)
    folder = outputs.folder(record)
    try:
        record.provenance |= provenance.host_facts(request.stack)
        record.provenance |= request.facts()
        _establish(request, record, observer)
        if go_on:
            _take_over(request, record, outputs, folder)
    except (StackUnavailableError, EnvironmentMismatchError) as refusal:
        _refused(record, refusal, observer)
    except KeyboardInterrupt:
        record.checks.append(Check("environment", Verdict.INTERRUPTED, "interrupted from outside", 0.0))
        record.verdict = Verdict.INTERRUPTED
    else:
        supervise.run(
            request, record, observer, folder, lambda current: writer.checkpoint(current, folder / "record.json")
        )
    record.logs = [os.path.relpath(log, folder) for log in record.logs]
    return record, writer.keep(record, folder / "record.json", outputs, console.markdown)


def _establish(request: Request, record: Record, observer: Observer) -> None:
    """Add the checks that need no suite: the host has the stack, and the environment is proved."""
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
    began = time.monotonic()
    if found := vetting.vet(environment=variables_of(stack), scale=request.deadline_scale):
        record.provenance |= found.facts()
        seconds = time.monotonic() - began
        _add(record, observer, Check("project", Verdict.PASSED, found.sentence(), seconds))


# Facts that have to be the same for a stopped run to be continued: other bits would be judged together.
_SAME = (
    "lock", "torch", "commit", "code", "project.folder", "project.digest", "rehearsed", "suites", "only", "preset", "device", "dataset",
    "minutes", "seed", "case",
)  # fmt: skip


def _take_over(request: Request, record: Record, outputs: Outputs, folder: Path) -> None:
    """Add what an interrupted run had; its interrupted check runs again."""
    path = resume.newest(outputs.results, request.verb, request.stack.name, but=folder)
    earlier = resume.stopped(path, record.provenance, _SAME)
    own = {check.id for check in record.checks}
    record.checks += [row for row in earlier.checks if row.id not in own and row.verdict is not Verdict.INTERRUPTED]
    record.measurements += earlier.measurements
    record.seconds += earlier.seconds
    record.provenance["continues"] = path.parent.name


def _torch_sees(stack: Stack, found: hosts.Availability) -> str:
    """In somebody's container the nodes may have other names; there, what torch sees counts."""
    try:
        from stackproof.device import devices

        cards = devices.count(stack.device)
    except StackUnavailableError as refusal:
        raise StackUnavailableError(f"{found.refusal()}; {refusal}") from refusal
    except (ImportError, OSError, Refusal):  # no torch, or one that does not load here
        cards = 0
    if not cards:
        raise found.refusal()
    unseen = "; no ".join(row.what for row in found.findings if not row.found)
    return f"torch sees {cards} '{stack.device}' device(s), although the host shows no {unseen}"


_REFUSED = {
    StackUnavailableError: ("host", Verdict.UNAVAILABLE),
    EnvironmentMismatchError: ("environment", Verdict.MISMATCHED),
}


def _refused(record: Record, refusal: Refusal, observer: Observer) -> None:
    name, verdict = _REFUSED[type(refusal)]
    _add(record, observer, Check(name, verdict, str(refusal), 0.0))
    record.verdict = verdict


def _add(record: Record, observer: Observer, check: Check) -> None:
    record.checks.append(check)
    observer.finished(check)

"""The same as figures for Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterator

from stackproof.extras import exposition
from stackproof.extras.exposition import Gauge, Labels
from stackproof.extras.nights.nodes.reading import Gathered, NodeSummary, Ran, seconds

HELP = {
    "doctor_findings": "What the doctor found on the node, by level.",
    "doctor_timestamp_seconds": "When the doctor looked.",
    "run_passed": "Whether the newest run of the verb on the stack ended with exit code 0.",
    "run_exit_code": "0 passed, 1 failed, 3 no such stack here, 4 not its lock, 5 hung, 6 inconclusive, 130 interrupted.",
    "run_timestamp_seconds": "When the newest run began.",
    "run_duration_seconds": "How long it took.",
    "run_checks": "How its checks ended, by verdict.",
    "run_info": "What it ran on.",
    "measurement": "What it measured, in the unit of the label.",
}


def text(found: Gathered) -> str:
    """Return the whole file; what stands twice is told once, and a figure that is no number is left out."""
    return exposition.text(HELP, (sample for _, node in sorted(found.nodes.items()) for sample in _of(node)))


def _of(node: NodeSummary) -> Iterator[Gauge]:
    own = {"node": node.name}
    if node.look:
        for level, count in node.look.count.items():
            yield Gauge("doctor_findings", {**own, "level": level}, count)
        if (when := seconds(node.look.when)) is not None:
            yield Gauge("doctor_timestamp_seconds", own, when)
    for key in sorted(node.runs):
        yield from _of_run(node.runs[key], own)


def _of_run(ran: Ran, own: Labels) -> Iterator[Gauge]:
    record, facts = ran.record, ran.record.provenance
    run = {**own, "stack": record.stack, "verb": record.verb, "rehearsed": str(ran.rehearsed).lower()}
    yield Gauge("run_passed", run, not record.verdict.exit_code)
    yield Gauge("run_exit_code", run, record.verdict.exit_code)
    yield Gauge("run_duration_seconds", run, record.seconds)
    if (when := seconds(ran.when)) is not None:
        yield Gauge("run_timestamp_seconds", run, when)
    counts: dict[str, int] = {}
    for check in record.checks:
        counts[check.verdict.value] = counts.get(check.verdict.value, 0) + 1
    for verdict, count in counts.items():
        yield Gauge("run_checks", {**run, "verdict": verdict}, count)
    told = {key: str(facts.get(key, "")) for key in ("torch", "lock", "stackproof")}
    yield Gauge("run_info", {**run, **told, "verdict": record.verdict.value}, 1)
    for row in record.measurements:
        if math.isfinite(row.value):
            what = {"workload": row.workload, "preset": row.preset, "dtype": row.dtype, "ranks": str(row.world_size)}
            yield Gauge("measurement", {**run, **what, "metric": row.metric, "unit": row.unit}, row.value)

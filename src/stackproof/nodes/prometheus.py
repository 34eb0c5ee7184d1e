r"""The same as figures for Prometheus, in its text format, which the node exporter reads from a file (its textfile collector).

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stackproof.base.text import plain
from stackproof.nodes.reading import Gathered, NodeSummary, Ran, seconds

Labels = dict[str, str]
_MOST = 200

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


@dataclass(frozen=True)
class _Sample:
    name: str
    labels: Labels
    value: float

    def line(self) -> str:
        """Return it as Prometheus reads it."""
        labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in self.labels.items())
        number = int(self.value) if float(self.value).is_integer() else self.value
        return f"stackproof_{self.name}{{{labels}}} {number!r}"


def text(found: Gathered) -> str:
    """Return the whole file; what stands twice is told once, and a figure that is no number is left out."""
    samples = [sample for _, node in sorted(found.nodes.items()) for sample in _of(node)]
    lines = []
    for name, help_ in HELP.items():
        same = {sample.line().rpartition(" ")[0]: sample.line() for sample in reversed(samples) if sample.name == name}
        if same:
            lines += [f"# HELP stackproof_{name} {help_}", f"# TYPE stackproof_{name} gauge", *reversed(same.values())]
    return "".join(f"{line}\n" for line in lines)


def _of(node: NodeSummary) -> Iterator[_Sample]:
    own = {"node": node.name}
    if node.look:
        for level, count in node.look.count.items():
            yield _Sample("doctor_findings", {**own, "level": level}, count)
        if (when := seconds(node.look.when)) is not None:
            yield _Sample("doctor_timestamp_seconds", own, when)
    for key in sorted(node.runs):
        yield from _of_run(node.runs[key], own)


def _of_run(ran: Ran, own: Labels) -> Iterator[_Sample]:
    record, facts = ran.record, ran.record.provenance
    run = {**own, "stack": record.stack, "verb": record.verb, "rehearsed": str(ran.rehearsed).lower()}
    yield _Sample("run_passed", run, not record.verdict.exit_code)
    yield _Sample("run_exit_code", run, record.verdict.exit_code)
    yield _Sample("run_duration_seconds", run, record.seconds)
    if (when := seconds(ran.when)) is not None:
        yield _Sample("run_timestamp_seconds", run, when)
    counts: dict[str, int] = {}
    for check in record.checks:
        counts[check.verdict.value] = counts.get(check.verdict.value, 0) + 1
    for verdict, count in counts.items():
        yield _Sample("run_checks", {**run, "verdict": verdict}, count)
    told = {key: str(facts.get(key, "")) for key in ("torch", "lock", "stackproof")}
    yield _Sample("run_info", {**run, **told, "verdict": record.verdict.value}, 1)
    for row in record.measurements:
        if math.isfinite(row.value):
            what = {"workload": row.workload, "preset": row.preset, "dtype": row.dtype, "ranks": str(row.world_size)}
            yield _Sample("measurement", {**run, **what, "metric": row.metric, "unit": row.unit}, row.value)


def _escaped(value: str) -> str:
    """Return a label's value as one line, without what a terminal or a page would obey."""
    shown = plain(value, _MOST, lines=False)
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

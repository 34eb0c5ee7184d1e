"""One table of hosts: of each the newest answer of `doctor --json`, the newest runs, and what the newest judgement of a fleet calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, files, text
from stackproof.api.record import Record, outline, reading
from stackproof.extras.fleet import judgement
from stackproof.extras.fleet.judgement import BAD, FleetJudgement, HostVerdict

LEVELS = ("problem", "warning", "note")
_DOCTOR, _RECORD = "stackproof.doctor", "stackproof-record-"
_KNOWN = (f"{_DOCTOR}/1", f"{_DOCTOR}/2")
_ANSWER = {"findings", "looked"}
"""What makes an object an answer of the doctor, whatever it calls itself."""
_KINDS: dict[type, str] = {str: "text", int: "whole number", list: "list"}
_CLOCKS = timedelta(hours=1)
"""So much the clocks of hosts may differ before an answer is from the future."""
_OF_PROCESSES = "stage-"
"""How the folders of a run's processes begin."""
_OF_ANOTHER = ("gate", "sweep", "bisect", "asv", "watch", "pytest", "triage", "drill")
"""Verbs that judge a commit, somebody's job or our own checks, and not their host."""
_MOST_BYTES = 64 << 20
_NEVER = datetime.min.replace(tzinfo=timezone.utc)
_HEAD = ("node", "doctor", "stack", "verb", "verdict", "checks", "when", "torch")
_WIDEST = 60
_REMEDY = "name what `doctor --json FILE` or `--json FILE` of a run has written, or a folder of such files"


@dataclass(frozen=True)
class DoctorAnswer:
    """One answer of the doctor. `count`: findings by level; `worst`: the sentence of the first problem, or else warning."""

    node: str
    when: datetime
    count: dict[str, int]
    worst: str


@dataclass
class NodeSummary:
    """One host: its doctor, its newest run of each stack and verb on the card and rehearsed, and its newest judgement.

    `judged`: when that was made, what it calls the host, and the fleet.
    """

    name: str
    doctor: DoctorAnswer | None = None
    runs: dict[tuple[str, str, bool], Record] = field(default_factory=dict)
    judged: tuple[str, str, str] = ("", "", "")

    @property
    def wrong(self) -> list[str]:
        """What its fleet, its doctor and its newest runs have against it, but for those that judge something else."""
        lines, (when, word, fleet) = [], self.judged
        if word in (*BAD, HostVerdict.NOT_REACHED, HostVerdict.INCOMPLETE):
            lines.append(f"{word} among the hosts of {fleet[:_WIDEST]}, judged {when}")
        if self.doctor and self.doctor.count["problem"]:
            lines.append(f"doctor: {self.doctor.worst}")
        for record in self.runs.values():
            if record.verb not in _OF_ANOTHER and record.verdict.exit_code:
                first = next((check for check in record.checks if check.verdict is record.verdict), None)
                why = f": {first.id}: {first.reason[:300]}" if first else ""
                lines.append(f"{record.verb} of {record.stack} {record.verdict.value}{why}")
        return lines


@dataclass
class Nodes:
    """The hosts by name, and a sentence for each file that could not be read."""

    hosts: dict[str, NodeSummary] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    def add(self, answer: DoctorAnswer | Record | FleetJudgement) -> None:
        """Keep it if it is the newest of its kind."""
        if isinstance(answer, FleetJudgement):
            for host in answer.hosts:
                node = self._of(host.host)
                node.judged = max(node.judged, (answer.judged, host.standing.value, answer.fleet))
        elif isinstance(answer, DoctorAnswer):
            node = self._of(answer.node)
            if node.doctor is None or node.doctor.when <= answer.when:
                node.doctor = answer
        else:
            runs = self._of(str(answer.provenance.get("host", "unnamed"))).runs
            key = (answer.stack, answer.verb, bool(answer.provenance.get("rehearsed")))
            if key not in runs or _time(runs[key].started) <= _time(answer.started):
                runs[key] = answer

    def _of(self, name: str) -> NodeSummary:
        return self.hosts.setdefault(name, NodeSummary(name))


class _ForeignError(Refusal):
    """It is JSON, and nothing of ours."""


def gather(places: Iterable[Path]) -> Nodes:
    """Read files and folders; in a folder what is nothing of ours is passed over, and what is damaged is named.

    Refusal: a file that was named is neither a record, a judgement nor an answer of the doctor.
    """
    nodes = Nodes()
    for place in places:
        if not place.is_dir():
            nodes.add(_read(place))
            continue
        for path in sorted(place.rglob("*.json")):
            inside = any(part.startswith(_OF_PROCESSES) for part in path.relative_to(place).parts[:-1])
            if inside or path.is_dir():  # what processes of a run leave beside its record may be half written
                continue
            try:
                nodes.add(_read(path))
            except _ForeignError:
                continue
            except Refusal as refusal:
                nodes.damaged.append(str(refusal))
    return nodes


def _read(path: Path) -> DoctorAnswer | Record | FleetJudgement:
    if why := files.why_unreadable(path, _MOST_BYTES):
        raise Refusal(f"{path}: {why}; {_REMEDY}")
    value = files.read_json(path, _REMEDY)
    schema = str(value.get("schema", "")) if isinstance(value, dict) else ""
    if schema.startswith(_DOCTOR) or (isinstance(value, dict) and value.keys() >= _ANSWER):
        return _doctor_answer(value, path)
    if schema == judgement.SCHEMA:
        return judgement.read(path)
    if schema.startswith(_RECORD):
        return reading.read(path)
    raise _ForeignError(f"{path}: is neither a record nor an answer of the doctor; {_REMEDY}")


def _doctor_answer(fields: dict[str, Any], path: Path) -> DoctorAnswer:
    """Take from an answer what is shown; older ones do not say of whom they are, and are called by their file."""
    anew = "write it anew with `doctor --json`"
    if (schema := fields.get("schema")) not in _KNOWN:
        raise Refusal(f"{path}: calls itself '{schema!s:.60}', and what is read here is {' or '.join(_KNOWN)}; {anew}")
    for name, kind in (("node", str), ("looked", str), ("exit_code", int), ("findings", list)):
        if not isinstance(fields.get(name, kind()), kind):
            raise Refusal(f"{path}: has {fields[name]!r:.60} for '{name}', which is no {_KINDS[kind]}; {anew}")
    try:
        findings = [(str(row["level"]), str(row["sentence"])) for row in fields["findings"]]
    except (KeyError, TypeError) as error:
        raise Refusal(f"{path}: is no whole answer of `doctor --json`; {anew}") from error
    if strange := {level for level, _ in findings} - {*LEVELS, "ok"}:
        raise Refusal(f"{path}: has a finding of level '{min(strange):.60}', which is none; {anew}")
    count = {level: sum(word == level for word, _ in findings) for level in LEVELS}
    worst = next((sentence for level in LEVELS[:2] for word, sentence in findings if word == level), "")
    if (looked := _time(fields.get("looked", ""))) is _NEVER and "looked" in fields:
        raise Refusal(f"{path}: 'looked' is no time; {anew}")
    if looked > datetime.now(timezone.utc) + _CLOCKS:
        raise Refusal(
            f"{path}: was written at {looked.isoformat()}, in the future; set the clock of its host, and {anew}"
        )
    if bool(fields.get("exit_code", count["problem"])) != bool(count["problem"]):
        why = f"ended with {fields['exit_code']}, and holds {text.counted(count['problem'], 'problem')}"
        raise Refusal(f"{path}: {why}, so that it was changed or cut; {anew}")
    return DoctorAnswer(fields.get("node") or path.stem, looked, count, worst)


def _time(words: str) -> datetime:
    try:
        time = datetime.fromisoformat(words.replace("Z", "+00:00"))
    except ValueError:
        return _NEVER
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def terminal(nodes: Nodes) -> str:
    """Return one sentence of all, what is wrong with each node that is not well, and the table, those first."""
    return outline.text(_parts(nodes))


def _parts(table: Nodes) -> Iterator[outline.Part]:
    nodes = sorted(table.hosts.values(), key=lambda node: (not node.wrong, node.name))
    ill = [node for node in nodes if node.wrong]
    every = text.counted(len(nodes), "node")
    passed = f"; {text.counted(len(table.damaged), 'file')} passed over" if table.damaged else ""
    well = f"{every} that could be read, well" if passed else f"{every}, all well"
    yield outline.TextLine(f"NOT WELL: {len(ill)} of {every}{passed}" if ill else f"{well}{passed}")
    yield from (outline.TextLine(f"{node.name[:_WIDEST]}: {why}", 1) for node in ill for why in node.wrong)
    yield outline.TextTable(_HEAD, [row for node in nodes for row in _rows(node)])


def _rows(node: NodeSummary) -> Iterator[tuple[str, ...]]:
    doctor = "-"
    if node.doctor:
        counts = [text.counted(count, level) for level, count in node.doctor.count.items() if count]
        doctor = ", ".join(counts[:2]) if node.doctor.count["problem"] + node.doctor.count["warning"] else "no problem"
    if not node.runs:
        yield (node.name[:_WIDEST], doctor, *("-" for _ in _HEAD[2:]))
    for (stack, verb, rehearsed), record in sorted(node.runs.items()):
        executed = [check for check in record.checks if check.verdict.executed]
        passed = f"{sum(check.verdict.exit_code == 0 for check in executed)} of {len(executed)}"
        shown = f"{verb} (rehearsed)" if rehearsed and verb != "rehearse" else verb
        pinned = "" if record.provenance.get("pinned", True) else " unpinned"
        torch = str(record.provenance.get("torch", "-"))[:_WIDEST] + pinned
        when = _ago(_time(record.started))
        yield node.name[:_WIDEST], doctor, stack[:_WIDEST], shown, record.verdict.value, passed, when, torch
        doctor = ""


def _ago(when: datetime) -> str:
    if when == _NEVER:
        return "unknown"
    passed = (datetime.now(timezone.utc) - when).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if passed >= size:
            return f"{int(passed // size)} {unit} ago"
    return "just now" if passed >= 0 else "in the future"

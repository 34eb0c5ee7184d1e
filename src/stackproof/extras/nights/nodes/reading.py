"""What hosts have written, answers of `doctor --json` and records of runs: the newest of each host, as one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, files
from stackproof.api.record import NOT_EXECUTED, SUITE_VERBS, Record, outline, reading
from stackproof.extras.fleet import judgement
from stackproof.extras.fleet.judgement import BAD, FleetJudgement

LEVELS = ("problem", "warning", "note")
_DOCTOR, _RECORD = "stackproof.doctor/", "stackproof-record-"
_OF_PROCESSES = "stage-"
"""How the folders of a run's processes begin."""
_MOST_BYTES = 64 << 20
_NEVER = datetime.min.replace(tzinfo=timezone.utc)
_HEAD = ("node", "doctor", "stack", "verb", "verdict", "checks", "when", "torch")
_WIDEST = 60


@dataclass(frozen=True)
class Look:
    """One answer of the doctor. `count`: findings by level; `worst`: the sentence of the first problem, or else warning."""

    node: str
    when: datetime
    present: tuple[str, ...]
    count: dict[str, int]
    worst: str


@dataclass(frozen=True)
class Ran:
    """The newest run of one verb on one stack."""

    record: Record
    path: Path

    @property
    def when(self) -> datetime:
        """When it began; never, if its word for that is no time."""
        return _time(self.record.started)

    @property
    def rehearsed(self) -> bool:
        """Whether the stack's card had no part in it."""
        return bool(self.record.provenance.get("rehearsed"))

    @property
    def bad(self) -> bool:
        """Whether it speaks against the host; what a gate or a sweep finds does not."""
        return self.record.verb in SUITE_VERBS and bool(self.record.verdict.exit_code)


@dataclass
class NodeSummary:
    """One host by its name."""

    name: str
    look: Look | None = None
    runs: dict[tuple[str, str, bool], Ran] = field(default_factory=dict)
    """By stack, verb, and whether it was rehearsed."""
    judged: tuple[str, str, str] = ("", "", "")
    """When the newest judgement of a fleet was made, what it calls the host, and the fleet."""

    @property
    def odd(self) -> bool:
        """Whether a fleet calls it slow or wrong."""
        return self.judged[1] in BAD

    @property
    def well(self) -> bool:
        """Whether neither its doctor, nor a newest run that proves a stack, nor its fleet has anything against it."""
        problem = bool(self.look and self.look.count["problem"])
        return not (problem or self.odd or any(ran.bad for ran in self.runs.values()))


@dataclass
class Gathered:
    """The hosts by name, and what could not be read: a sentence each."""

    nodes: dict[str, NodeSummary] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    def add(self, found: Look | Ran | FleetJudgement) -> None:
        """Keep it if it is the newest of its kind."""
        if isinstance(found, FleetJudgement):
            for host in found.hosts:
                node = self.nodes.setdefault(host.host, NodeSummary(host.host))
                node.judged = max(node.judged, (found.judged, host.standing.value, found.fleet))
            return
        if isinstance(found, Look):
            node = self.nodes.setdefault(found.node, NodeSummary(found.node))
            if node.look is None or node.look.when <= found.when:
                node.look = found
            return
        name = str(found.record.provenance.get("host", "unnamed"))
        runs = self.nodes.setdefault(name, NodeSummary(name)).runs
        key = (found.record.stack, found.record.verb, found.rehearsed)
        if key not in runs or runs[key].when <= found.when:
            runs[key] = found


def gather(places: Iterable[Path]) -> Gathered:
    """Read files and folders; in a folder what is neither a record nor the doctor's is passed over, and what is damaged is told.

    Refusal: a file that was named is neither, or a folder cannot be read.
    """
    found = Gathered()
    for place in places:
        if not place.is_dir():
            found.add(_read(place))
            continue
        for path in _files(place):
            try:
                found.add(_read(path))
            except _ForeignError:
                continue
            except Refusal as refusal:
                found.damaged.append(str(refusal))
    return found


class _ForeignError(Refusal):
    """It is JSON, and nothing of ours."""


def _files(folder: Path) -> Iterator[Path]:
    """Yield what may be a record or an answer: not what the processes of a run leave beside its record, empty or half written."""
    for path in sorted(folder.rglob("*.json")):
        inside = any(part.startswith(_OF_PROCESSES) for part in path.relative_to(folder).parts[:-1])
        if path.is_file() and not path.is_symlink() and not inside:
            yield path


def _read(path: Path) -> Look | Ran | FleetJudgement:
    remedy = "name what `doctor --json FILE` or `--json FILE` of a run has written, or a folder of such files"
    if why := files.why_unreadable(path, _MOST_BYTES):
        raise Refusal(f"{path}: {why}; {remedy}")
    found = files.read_json(path, remedy)
    schema = str(found.get("schema", "")) if isinstance(found, dict) else ""
    if schema.startswith(_DOCTOR):
        return _look(found, path)
    if schema == judgement.SCHEMA:
        return judgement.read(path)
    if schema.startswith(_RECORD):
        return Ran(reading.read(path), path)
    raise _ForeignError(f"{path}: is neither a record nor an answer of the doctor; {remedy}")


def _look(found: dict[str, Any], path: Path) -> Look:
    """Take from an answer what is shown; older ones do not say of whom they are, and are called by their file."""
    try:
        findings = [(str(row["level"]), str(row["sentence"])) for row in found["findings"]]
        present = tuple(str(name) for name in found["present"])
    except (KeyError, TypeError) as error:
        raise Refusal(f"{path}: is no whole answer of `doctor --json`; write it anew") from error
    count = {level: sum(one == level for one, _ in findings) for level in LEVELS}
    worst = next((said for level in LEVELS[:2] for one, said in findings if one == level), "")
    return Look(str(found.get("node") or path.stem), _time(str(found.get("looked", ""))), present, count, worst)


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return _NEVER
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def text(found: Gathered) -> str:
    """Return one sentence of all, the table, and what is wrong with each node that is not well."""
    return outline.text(_parts(found))


def _parts(found: Gathered) -> Iterator[outline.Part]:
    ill = [node for node in found.nodes.values() if not node.well]
    yield outline.TextLine(f"{len(found.nodes)} node{'' if len(found.nodes) == 1 else 's'}, {len(ill)} not well")
    yield outline.TextTable(_HEAD, [row for _, node in sorted(found.nodes.items()) for row in _rows(node)])
    yield from (outline.TextLine(line) for node in sorted(ill, key=lambda one: one.name) for line in _wrong(node))


def _rows(node: NodeSummary) -> Iterator[tuple[str, ...]]:
    doctor = _doctor(node)
    if not node.runs:
        yield (node.name[:_WIDEST], doctor, *("-" for _ in _HEAD[2:]))
    for key in sorted(node.runs):
        yield (node.name[:_WIDEST], doctor, *_run(node.runs[key]))
        doctor = ""


def _doctor(node: NodeSummary) -> str:
    if node.look is None:
        return "-"
    said = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in node.look.count.items() if count]
    return ", ".join(said[:2]) if node.look.count["problem"] + node.look.count["warning"] else "no problem"


def _run(ran: Ran) -> tuple[str, ...]:
    record = ran.record
    executed = [check for check in record.checks if check.verdict not in NOT_EXECUTED]
    passed = sum(check.verdict.exit_code == 0 for check in executed)
    verb = f"{record.verb} (rehearsed)" if ran.rehearsed and record.verb != "rehearse" else record.verb
    pinned = "" if record.provenance.get("pinned", True) else " unpinned"
    torch = str(record.provenance.get("torch", "-"))[:_WIDEST] + pinned
    return record.stack[:_WIDEST], verb, record.verdict.value, f"{passed} of {len(executed)}", _ago(ran.when), torch


def _ago(when: datetime) -> str:
    if when == _NEVER:
        return "unknown"
    passed = (datetime.now(timezone.utc) - when).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if passed >= size:
            return f"{int(passed // size)} {unit} ago"
    return "just now" if passed >= 0 else "in the future"


def _wrong(node: NodeSummary) -> Iterator[str]:
    if node.odd:
        when, word, fleet = node.judged
        yield f"{node.name[:_WIDEST]}: {word} among the hosts of {fleet[:_WIDEST]}, judged {when}"
    if node.look and node.look.count["problem"]:
        yield f"{node.name[:_WIDEST]}: doctor: {node.look.worst}"
    for ran in node.runs.values():
        if ran.bad:
            first = next((one for one in ran.record.checks if one.verdict is ran.record.verdict), None)
            why = f": {first.id}: {first.reason[:300]}" if first else ""
            yield f"{node.name[:_WIDEST]}: {ran.record.verb} of {ran.record.stack} {ran.record.verdict.value}{why}"

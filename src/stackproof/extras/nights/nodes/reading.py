"""Reads what hosts have written, answers of `doctor --json` and records of runs, and keeps the newest of each host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, files
from stackproof.api.record import SUITE_VERBS, Record, reading
from stackproof.extras.fleet import judgement
from stackproof.extras.fleet.judgement import BAD, FleetJudgement

LEVELS = ("problem", "warning", "note")
_DOCTOR, _RECORD = "stackproof.doctor/", "stackproof-record-"
_OF_PROCESSES = "stage-"
"""How the folders of a run's processes begin."""
_MOST_BYTES = 64 << 20
NEVER = datetime.min.replace(tzinfo=timezone.utc)


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

    Raises:
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
        return NEVER
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)

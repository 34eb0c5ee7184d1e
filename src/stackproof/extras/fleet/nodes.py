"""One table of hosts: of each the newest answer of `doctor --json`, the newest run of each verb, and what its newest sweep calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, files, text
from stackproof.api.record import Record, outline, reading
from stackproof.extras.fleet import answers
from stackproof.extras.fleet.judgement import BAD, SCHEMA, HostVerdict

_OF_PROCESSES = "stage-"
"""How the folders of a run's processes begin; what they leave beside its record may be half written."""
_OF_ANOTHER = ("gate", "sweep", "bisect", "asv", "watch", "pytest", "triage", "drill")
"""Verbs that judge a commit, somebody's job or our own checks, and not their host."""
_UNWELL = (*BAD, HostVerdict.NOT_REACHED, HostVerdict.INCOMPLETE)
_REMEDY = "name what `doctor --json FILE` or `--json FILE` of a run has written, or a folder of such files"


@dataclass(frozen=True)
class NodeAnswer:
    """What is said of a host, by whom and when (ISO 8601, UTC)."""

    node: str
    by: str
    when: str
    word: str
    reason: str
    wrong: bool


def gather(places: Iterable[Path]) -> tuple[list[NodeAnswer], list[str]]:
    """Return the newest answer of each node and kind, those first that are wrong, and a sentence for each damaged file.

    A run of chosen checks is a kind of its own, and does not stand for the whole run before it. In a folder what is nothing of ours is
    passed over.

    Refusal: a file that was named is damaged, or neither a record, a judgement nor an answer of the doctor.
    """
    newest, damaged = dict[tuple[str, str], NodeAnswer](), list[str]()
    for place in places:
        for path in sorted(place.rglob("*.json")) if place.is_dir() else [place]:
            if path.is_dir() or any(part.startswith(_OF_PROCESSES) for part in path.relative_to(place).parts):
                continue
            try:
                found = _read(path)
            except Refusal as refusal:
                if path == place:
                    raise
                damaged.append(str(refusal))
                continue
            if path == place and not found:
                raise Refusal(f"{path}: is neither a record nor an answer of the doctor; {_REMEDY}")
            for answer in found:
                key = answer.node, answer.by
                if key not in newest or newest[key].when <= answer.when:
                    newest[key] = answer
    return sorted(newest.values(), key=lambda answer: (not answer.wrong, answer.node, answer.by)), damaged


def _read(path: Path) -> list[NodeAnswer]:
    if why := files.why_unreadable(path):
        raise Refusal(f"{path}: {why}; {_REMEDY}")
    value = files.read_json(path, _REMEDY)
    schema = str(value.get("schema", "")) if isinstance(value, dict) else ""
    if schema.startswith("stackproof-record-"):
        return [_of_record(reading.read(path))]
    try:
        if schema.startswith("stackproof.doctor"):
            return [_of_doctor(value)]
        return [*_of_fleet(value)] if schema == SCHEMA else []
    except (KeyError, TypeError, ValueError) as error:
        raise Refusal(f"{path}: is damaged ({error}); write it anew") from error


def _of_record(record: Record) -> NodeAnswer:
    facts, wrong = record.provenance, record.verb not in _OF_ANOTHER and bool(record.verdict.exit_code)
    by = f"{record.verb} of {record.stack}{' (rehearsed)' if facts.get('rehearsed') else ''}{reading.only(record)}"
    unpinned = "" if facts.get("pinned", True) else " unpinned"
    said = answers.reason(record) or f"{len(record.checks)} checks, torch {facts.get('torch', 'unknown')}{unpinned}"
    said = "; ".join(filter(None, (said, reading.unproved(record))))
    return NodeAnswer(str(facts.get("host", "unnamed")), by, record.started, record.verdict.value, said, wrong)


def _of_doctor(value: dict[str, Any]) -> NodeAnswer:
    said = {
        level: [row["sentence"] for row in value["findings"] if row["level"] == level]
        for level in ("problem", "warning")
    }
    word = next((text.counted(len(lines), level) for level, lines in said.items() if lines), "no problem")
    first = next(iter(said["problem"] + said["warning"]), "")
    return NodeAnswer(_text(value["node"]), "doctor", _text(value["looked"]), word, _text(first), bool(said["problem"]))


def _of_fleet(value: dict[str, Any]) -> Iterator[NodeAnswer]:
    for host in value["hosts"]:
        word = HostVerdict(host["standing"])
        why = f"{value['fleet']}: {host['reason']}"
        yield NodeAnswer(_text(host["host"]), "fleet", _text(value["judged"]), word.value, why, word in _UNWELL)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def parts(found: Sequence[NodeAnswer], damaged: int) -> Iterator[outline.Part]:
    nodes, ill = {answer.node for answer in found}, {answer.node for answer in found if answer.wrong}
    every, unread = text.counted(len(nodes), "node"), f"{text.counted(damaged, 'file')} passed over"
    said = f"NOT WELL: {len(ill)} of {every}{f'; {unread}' if damaged else ''}" if ill else f"{every}, all well"
    yield outline.TextLine(f"CANNOT SAY: {unread}; {every} read, all well" if damaged and not ill else said)
    rows = [(row.node, row.by, row.word, row.when[:16].replace("T", " "), row.reason) for row in found]
    yield outline.TextTable(("node", "by", "verdict", "when (UTC)", "what was seen"), rows, wide=(4,))
    if ill or damaged:
        yield outline.TextLine("what to do: on a node, what its sentence says; then let it write its file again")

"""Records: one JSON object per run, held against a published schema, written whole or not at all; `reading` reads them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.text import plain

SCHEMA = Path(__file__).with_name("record.schema.json")
SCHEMA_NAME = "stackproof-record-2"
_READ = ("stackproof-record-1", SCHEMA_NAME)
"""What is read; the first had no typed fields of a check, and is written anew as the second."""

Figure = float | int | str | bool


class Verdict(str, Enum):
    """The closed set of words that a check, or a whole run, can end in."""

    PASSED = "passed"
    SKIPPED = "skipped"
    NOT_APPLICABLE = "not applicable"
    KNOWN_ISSUE = "known issue"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"
    CRASHED = "crashed"
    HUNG = "hung"
    UNAVAILABLE = "unavailable"
    MISMATCHED = "mismatched"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> int:
        """The exit code of the contracts; 130 is what shells give a program that Ctrl-C ended."""
        return _EXIT_CODES[self]

    @property
    def executed(self) -> bool:
        """Whether a check that ended so says anything about the stack."""
        return self not in (Verdict.SKIPPED, Verdict.NOT_APPLICABLE)


_EXIT_CODES = {
    Verdict.PASSED: 0,
    Verdict.SKIPPED: 0,
    Verdict.NOT_APPLICABLE: 0,
    Verdict.KNOWN_ISSUE: 0,
    Verdict.FAILED: 1,
    Verdict.CRASHED: 1,
    Verdict.UNAVAILABLE: 3,
    Verdict.MISMATCHED: 4,
    Verdict.HUNG: 5,
    Verdict.INCONCLUSIVE: 6,
    Verdict.INTERRUPTED: 130,
}

SUITE_VERBS = ("smoke", "verify", "rehearse", "ddp", "bench", "explore", "upstream", "agree")
"""Verbs that run suites, `agree` in records of before: besides the host and the environment, a check of one has to have run."""
TYPED = "typed"
"""The fact of a record that says with which words it was asked for."""

COMMITTED = "commit.date"
"""The fact of a record that says when the commit was made that it measured."""
LOADING = "loading_seconds"
"""The fact of what all processes of a run took, together, before each began its first check: imports and collection."""

# When checks ended differently, the run is called by the first of these that occurred.
GRAVITY = (
    Verdict.INTERRUPTED,
    Verdict.MISMATCHED,
    Verdict.UNAVAILABLE,
    Verdict.HUNG,
    Verdict.CRASHED,
    Verdict.FAILED,
    Verdict.INCONCLUSIVE,
    Verdict.PASSED,
    Verdict.KNOWN_ISSUE,
)


class Kind(str, Enum):
    """What sort of row a check is, where readers tell sorts apart."""

    SUITE = "suite"
    CELL = "cell"
    SETTING = "setting"
    CONDITIONS = "conditions"
    FAULT = "fault"
    CLEAN = "clean"


class CellWord(str, Enum):
    """The one word of a cell: the head beside the base, a setting beside the defaults."""

    FASTER = "FASTER"
    SAME = "SAME"
    SLOWER = "SLOWER"
    CHANGED = "CHANGED"
    INCONCLUSIVE = "INCONCLUSIVE"
    IGNORED = "IGNORED"
    BLIND = "blind"
    NOT_JUDGED = "not judged"


@dataclass
class Check:
    """How one check ended: verdict, reason in one sentence, seconds, and the figures that it saw.

    The rest is optional, and there so that nobody reads it back out of `id` and `reason`. `group`: of what it is one of several
    (a suite, a setting, an area of the drill); `subject`: what was looked at; `aspect`: what of it; `outcome`: the word of a cell.
    """

    id: str
    verdict: Verdict
    reason: str
    seconds: float
    figures: dict[str, Figure] = field(default_factory=dict)
    kind: Kind | None = None
    group: str = ""
    subject: str = ""
    aspect: str = ""
    outcome: CellWord | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Check:
        """Return the check of a row of JSON, its words made words of the closed sets again."""
        words = {name: kind(row[name]) for name, kind in _WORDS.items() if row.get(name)}
        return cls(**{**row, **words})


_WORDS: dict[str, type[Enum]] = {"verdict": Verdict, "kind": Kind, "outcome": CellWord}
_TYPED = ("kind", "group", "subject", "aspect", "outcome")


def of_suite(check: Check) -> Check:
    """Place a check of a suite, `suite/file::name`; what stands for a whole run or a whole suite is left as it is."""
    path, mark, name = check.id.partition("::")
    if mark:
        check.kind, check.group, check.subject = Kind.SUITE, path.partition("/")[0], name
    return check


@dataclass
class Measurement:
    """One measured quantity; `note` says what limits it, such as 'indicative'.

    `version` is that of what was measured: figures of different versions are not comparable. Only what has one has a history.
    `figures` explain it: interval, clocks, memory, what was verified.
    """

    workload: str
    preset: str
    dtype: str
    world_size: int
    metric: str
    unit: str
    value: float
    samples: list[float]
    note: str = ""
    version: str = ""
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def countable(self) -> bool:
        """Whether every sample is a number above 0: a word for one (nan, inf) is a finding of its run, no point of a history."""
        return all(math.isfinite(sample) and sample > 0 for sample in self.samples)


@dataclass
class Record:
    """One run of one verb on one stack."""

    verb: str
    stack: str
    started: str
    seconds: float = 0.0
    verdict: Verdict = Verdict.INCONCLUSIVE
    provenance: dict[str, Figure] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each log and, as "record", of the record itself without this one (`chain`)."""
    schema: str = SCHEMA_NAME

    @property
    def runs_suites(self) -> bool:
        return self.verb in SUITE_VERBS

    @property
    def overall(self) -> Verdict:
        """The gravest verdict of its checks."""
        return overall(check.verdict for check in self.checks)

    def as_row(self) -> dict[str, Any]:
        """Return the record as JSON has it, sealed as it is now if it has digests; NaN and infinity are words."""
        fields = asdict(self)
        if not self.digests:
            del fields["digests"]
        for row in fields["checks"]:
            for name in _TYPED:
                if not row[name]:
                    del row[name]
        row = dict(finite(fields))
        if self.digests:
            row["digests"][RECORD] = sealed(row)
        return row

    def as_json(self) -> str:
        return json.dumps(self.as_row(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def sealed(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 over a parsed record without its own digest, however it was laid out."""
    digests = {name: value for name, value in fields.get("digests", {}).items() if name != RECORD}
    text = json.dumps({**fields, "digests": digests}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


RECORD = "record"
"""What the digest over the whole record is called among its digests; the others are called as the logs are."""


def seal(record: Record, folder: Path) -> None:
    """Give a record the digests of its logs in this folder, then its own."""
    values = {log: files.digest(folder / log, "sha256").hex() for log in record.logs if (folder / log).is_file()}
    record.digests = {**values, RECORD: "0" * 64}
    record.digests = record.as_row()["digests"]


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the gravest verdict; a run in which everything was skipped, or nothing ran, has failed."""
    seen = set(verdicts)
    return next((verdict for verdict in GRAVITY if verdict in seen), Verdict.FAILED)


def write(record: Record, path: Path, flag: str = "--json") -> None:
    """Validate and write a record, whose place `flag` names (Refusal: it is none, or cannot be written)."""
    validate(record.as_row(), path)
    write_file(path, record.as_json(), "record", flag)


def write_file(path: Path, text: str, what: str, flag: str) -> None:
    """Write a file of a run: to a temporary file beside `path`, flushed, then renamed over it.

    Raises:
        Refusal: it cannot be written; what stood there before still does.
    """
    with files.writing(path, f"free space or choose another file with {flag}", f"the {what} "):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(path, text)


def validate(value: Any, path: Path) -> None:
    """Hold a parsed record against the published JSON Schema."""
    import fastjsonschema

    try:
        _validator()(value)
    except fastjsonschema.JsonSchemaValueException as error:
        remedy = "name a record that a run has written, or run again"
        theirs = value.get("schema") if isinstance(value, dict) else None
        if isinstance(theirs, str) and theirs not in _READ:
            raise Refusal(
                f"{path}: is of schema '{plain(theirs, 60)}', and this stackproof reads {' and '.join(_READ)}; read it with the "
                "stackproof that wrote it, or a newer one"
            ) from error
        raise Refusal(
            f"{path}: is not a record of schema {SCHEMA_NAME}: {plain(error.message, 300)}; {remedy}"
        ) from error


@cache
def _validator() -> Callable[[Any], Any]:
    import fastjsonschema

    schema = files.read_json(SCHEMA)
    compiled: Callable[[Any], Any] = fastjsonschema.compile(_inlined(schema, schema["definitions"]))
    return compiled


def _inlined(part: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema with its definitions where they are named: checked so, a record takes a sixth of the time."""
    if isinstance(part, dict):
        known = definitions[part["$ref"].rpartition("/")[2]] if "$ref" in part else None
        return (
            _inlined(known, definitions) if known else {key: _inlined(item, definitions) for key, item in part.items()}
        )
    return [_inlined(item, definitions) for item in part] if isinstance(part, list) else part


def finite(value: Any) -> Any:
    """Return what JSON holds to the letter: NaN and infinity are words."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value

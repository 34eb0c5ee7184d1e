"""How a run that was stopped goes on: from its newest record, which must have been stopped, or from a journal; of the same facts."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from stackproof.base import files, text
from stackproof.base.errors import Refusal
from stackproof.record import reading
from stackproof.record.records import Record, Verdict

RECORD = "record.json"
JOURNAL = "journal.jsonl"
_ANEW = "run without --continue"
Answer = dict[str, Any]
"""What JSON can say."""
Value = TypeVar("Value")


def earlier(results: Path, verb: str, stack: str, name: str = RECORD, but: Path | None = None) -> list[Path]:
    """Return this file of every run of a verb, oldest first; `but`: the folder of a run that is left out."""
    return sorted(path for path in (results / stack).glob(f"*-{verb}-*/{name}") if path.parent != but)


def newest(results: Path, verb: str, stack: str, name: str = RECORD, but: Path | None = None) -> Path:
    """Return this file of the newest run of a verb (Refusal: there is none)."""
    if not (paths := earlier(results, verb, stack, name, but)):
        raise Refusal(f"there is no earlier {verb} of {stack} under {results}; {_ANEW}")
    return paths[-1]


def require_same(path: Path, then: Mapping[str, object], now: Mapping[str, object], facts: Iterable[str]) -> None:
    """Refuse to go on with what was asked of something else, or found something else."""
    for fact in facts:
        if then.get(fact, "") != now.get(fact, ""):
            values = f"{then.get(fact, '')!r} then, {now.get(fact, '')!r} now"
            raise Refusal(f"{path} cannot be continued: '{fact}' is {values}; {_ANEW}")


def stopped(path: Path, now: Mapping[str, object], facts: Iterable[str]) -> Record:
    """Return the record of a run that was stopped; one that was killed has no digests, as the end gives them.

    A fact that ends with a dot stands for all whose names begin so, such as `env.`.

    Raises:
        Refusal: it was not stopped, or one of these facts is another now.
    """
    record = reading.read(path)
    if record.verdict is not Verdict.INTERRUPTED and record.digests:
        raise Refusal(f"{path} was not stopped, it ended as '{record.verdict.value}'; {_ANEW}")
    ran = any("::" in check.id for check in record.checks)  # else it may have ended before it knew all of them
    groups = tuple(fact for fact in facts if fact.endswith("."))
    every = dict.fromkeys((*facts, *(name for name in (*record.provenance, *now) if name.startswith(groups))))
    require_same(path, record.provenance, now, [fact for fact in every if ran or fact in record.provenance])
    return record


class Journal:
    """What a run has found out, by key, in a file of JSON lines; one that goes on asks the same, and is answered from it.

    Refusal: the file cannot be used, is damaged, or is of another verb or of something else than `about`.
    """

    def __init__(self, path: Path, verb: str, about: Mapping[str, str]) -> None:
        self.path, self._verb = path, verb
        self.known: dict[str, Answer] = {}
        if path.exists() and (not path.is_file() or path.stat().st_size):
            self._read({"schema": f"stackproof-{verb}-1", **about})
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"schema": f"stackproof-{verb}-1", **about})

    def once(self, key: str, find_out: Callable[[], Answer], read: Callable[[Answer], Value]) -> Value:
        """Return what is known under a key as `read` makes it, or find it out and keep it."""
        if key not in self.known:
            fields = find_out()
            self._append({"key": key, "told": fields})
            self.known[key] = fields
            return read(fields)
        try:
            return read(self.known[key])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._foreign(key, self.known[key]) from error

    def _foreign(self, key: str, row: object) -> Refusal:
        shown = text.plain(json.dumps(row), most=120, lines=False)
        return Refusal(
            f"{self.path}: '{text.plain(key)}' is nothing that `{self._verb}` writes ({shown}); the file was left as it is: mend or take "
            "out that line, or begin anew without --continue"
        )

    def _append(self, row: Answer) -> None:
        """Add a row; none where the disk is full, because what was found out on it may say so and nothing else."""
        with files.writing(self.path, "make room, or write elsewhere with --results"):
            if files.is_full(self.path.parent):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row, sort_keys=True) + "\n")
                stream.flush()
                os.fsync(stream.fileno())

    def _read(self, about: Mapping[str, str]) -> None:
        """Take what the file holds; a last line that was cut short by a kill, or by a full disk, is taken off it."""
        path, foreign = self.path, f"is no journal of `{self._verb}`; name the {JOURNAL} of the run to go on with"
        if not path.is_file():
            raise Refusal(f"{path}: {foreign}")
        data = files.read_bytes(path, f"name a journal that `{self._verb}` has written")
        whole, _, torn = data.rpartition(b"\n")
        rows = [files.parse_json(line, f"{path}:{at}", _ANEW) for at, line in enumerate(whole.splitlines(), 1)]
        begun = rows[0] if rows and isinstance(rows[0], dict) else {}
        if begun.get("schema") != about["schema"]:
            raise Refusal(f"{path}: {foreign}")
        require_same(path, begun, about, about)
        for number, row in enumerate(rows[1:], 2):
            if not isinstance(row, dict) or set(row) != {"key", "told"} or not isinstance(row["told"], dict):
                raise self._foreign(f"line {number}", row)
            self.known[str(row["key"])] = row["told"]
        if torn:
            with files.writing(path, "make it writable to go on with it"):
                os.truncate(path, len(data) - len(torn))

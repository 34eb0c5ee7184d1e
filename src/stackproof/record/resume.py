"""How a run that was stopped goes on: its newest record must have been stopped, and be of the same facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.record import reading
from stackproof.record.records import Record, Verdict

RECORD = "record.json"
_ANEW = "run without --continue"


def earlier(results: Path, verb: str, stack: str, name: str = RECORD, but: Path | None = None) -> list[Path]:
    """Return this file of every run of a verb, oldest first; `but`: the folder of a run that is left out."""
    return sorted(path for path in (results / stack).glob(f"*-{verb}-*/{name}") if path.parent != but)


def newest(results: Path, verb: str, stack: str, name: str = RECORD, but: Path | None = None) -> Path:
    """Return this file of the newest run of a verb.

    Raises:
        Refusal: there is none.
    """
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

    Raises:
        Refusal: it was not stopped, or one of these facts is another now.
    """
    record = reading.read(path)
    if record.verdict is not Verdict.INTERRUPTED and record.digests:
        raise Refusal(f"{path} was not stopped, it ended as '{record.verdict.value}'; {_ANEW}")
    require_same(path, record.provenance, now, facts)
    return record

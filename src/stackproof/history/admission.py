"""Admission of a record to the published results: what stands there was verified, and somebody else can measure it again."""

from __future__ import annotations

from pathlib import Path

from .. import records
from ..errors import Refusal
from ..records import Record, Verdict
from . import store
from .entries import entry


def admit(path: Path, base: Path = store.PUBLISHED) -> Path:
    """Copy a record among the published ones and return the new file; a record that is there already stays the only one.

    Raises:
        Refusal: it is no record, or what keeps it out, with the remedy.
    """
    record = records.read(path)
    if reason := objection(record):
        raise Refusal(f"{path}: is not admitted: {reason}")
    into = store.folder(record, base)
    twin = next((old for old, same in store.load([into]).records.items() if same == record), None)
    return twin or store.append(record, into)


def objection(record: Record) -> str:
    """Return in one phrase what keeps a record out of the published results; nothing if it may be published.

    A run in which some benchmarks failed may: the figures that it has were verified, and the failures belong to the history.
    """
    found = entry(record)
    if record.verb not in store.MEASURING or found is None:
        return "it holds no figures with a version; publish records of `bench` or `asv`"
    if record.verdict is Verdict.MISMATCHED:
        return "its environment was not its lock; build the environment again and measure again"
    if not found.commit:
        return (
            f"its commit is '{found.state.commit}', which nobody can go back to; commit the changes and measure again"
        )
    if "host" not in record.provenance:
        return "it does not say on which host it was measured; measure again with this version"
    return ""

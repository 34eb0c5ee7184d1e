"""The history of each place: its states in order and the figures in each; nothing of it is stored, it is made from the records."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from stackproof.base import git
from stackproof.base.errors import Refusal
from stackproof.base.processes import BUSY
from stackproof.base.text import first_few
from stackproof.record import reading, store
from stackproof.record.records import Measurement, Record, Verdict
from stackproof.record.store import Place, State, changes, place, state


@dataclass(frozen=True)
class SeriesKey:
    """What is measured: figures of different keys have nothing to do with each other."""

    subject: str
    preset: str
    unit: str


@dataclass(frozen=True)
class Entry:
    """The figures of one run in one state of one place."""

    place: Place
    state: State
    started: datetime
    figures: Mapping[SeriesKey, Measurement]

    @property
    def commit(self) -> str:
        """The commit, or "" where the code had local changes or was of no repository: nobody can go back to that."""
        return self.state.commit if git.is_reachable(self.state.commit) else ""


@dataclass(frozen=True)
class Pooled:
    """The samples of one figure over all runs of one state, in seconds per unit and in the order they were taken."""

    key: SeriesKey
    version: str
    samples: tuple[float, ...]
    started: datetime
    busy: bool = False
    """Whether others used the host in every run of it."""


def entry(record: Record) -> Entry | None:
    """Return what a record adds; nothing if none of its figures has a version.

    A subject may have several units, which are multiples of each other: the first is the one with a history.
    """
    figures: dict[SeriesKey, Measurement] = {}
    seen = set()
    for row in record.measurements:
        if row.version and (row.workload, row.preset) not in seen and row.countable:
            seen.add((row.workload, row.preset))
            figures[SeriesKey(row.workload, row.preset, row.unit)] = row
    if not figures:
        return None
    facts = record.provenance
    return Entry(place(facts), state(facts), datetime.fromisoformat(record.started), figures)


def entries(records: Mapping[Path, Record]) -> list[Entry]:
    """Return what these records add, in the order in which they were started.

    A run in which some benchmarks failed counts: each figure was verified before it was taken.
    """
    rows = [row for record in records.values() if record.verdict is not Verdict.MISMATCHED and (row := entry(record))]
    return sorted(rows, key=lambda row: row.started)


def pooled(group: Iterable[Entry]) -> list[Pooled]:
    """Return each figure of a group of entries with all its samples; of several versions only the latest counts.

    Where some runs had the host for themselves, they alone count.
    """
    rows: dict[SeriesKey, list[tuple[datetime, Measurement]]] = {}
    for entry in group:
        for key, row in entry.figures.items():
            rows.setdefault(key, []).append((entry.started, row))
    pools = []
    for key, pairs in rows.items():
        started, newest = pairs[-1]
        same = [row for _, row in pairs if row.version == newest.version]
        quiet = [row for row in same if BUSY not in row.note]
        samples = tuple(sample for row in quiet or same for sample in row.samples)
        pools.append(Pooled(key, newest.version, samples, started, busy=not quiet))
    return pools


_WHO = "stackproof <stackproof@localhost>"


@dataclass
class Stay:
    """The entries that were made while a place stayed in one state."""

    place: Place
    state: State
    entries: list[Entry] = field(default_factory=list)

    @property
    def seconds(self) -> int:
        """When the state was first seen, in seconds since 1970."""
        return int(self.entries[0].started.timestamp())


def stays(entries: Iterable[Entry]) -> dict[str, list[Stay]]:
    """Return the states of each place (by its slug) in the order in which they were measured; one that comes back is another stay."""
    groups: dict[str, list[Stay]] = {}
    for entry in entries:
        chain = groups.setdefault(entry.place.slug, [])
        if not chain or chain[-1].state != entry.state:
            chain.append(Stay(entry.place, entry.state))
        chain[-1].entries.append(entry)
    return groups


def subject(before: Stay | None, now: Stay) -> str:
    """Return the first line of a state's commit: which groups changed, and how where that is short."""
    if before is None:
        return f"first seen: {now.place.label}"
    changed = changes(before.state, now.state).items()
    return "; ".join(f"{group}: {first_few(phrases, 1)}" for group, phrases in changed)


def write(chains: dict[str, list[Stay]], repository: Path) -> dict[str, list[str]]:
    """Make the repository anew, a branch for each place, and return the hashes of its commits, oldest first.

    A new driver is no commit of anybody's code, so a history by commit cannot show it. Here every state of the stack (driver, wheels,
    code, settings) is a manifest, and each change of it a commit whose message says what changed: any tool that reads a history by
    commit, asv first of all, then shows a driver like a patch. The same records make the same commits everywhere.

    Raises:
        Refusal: git is missing, or fails.
    """
    shutil.rmtree(repository, ignore_errors=True)
    repository.parent.mkdir(parents=True, exist_ok=True)
    git.output(repository.parent, "init", "--quiet", "--bare", "--object-format=sha1", str(repository.resolve()))
    marks = repository.resolve() / "stays.marks"
    stream = b"".join(_stream(chains))
    git.output(repository, "fast-import", "--quiet", f"--export-marks={marks}", stdin=stream, seconds=600)
    rows = (line.split() for line in marks.read_text(encoding="ascii").splitlines())
    hashes = {int(mark.removeprefix(":")): commit for mark, commit in rows}
    numbered = iter(range(1, len(hashes) + 1))
    return {name: [hashes[next(numbered)] for _ in chain] for name, chain in chains.items()}


def _stream(chains: dict[str, list[Stay]]) -> Iterator[bytes]:
    """Yield what git's fast-import reads (git-fast-import(1)): one commit for each stay, its manifest as a file."""
    mark = 0
    for name, chain in chains.items():
        yield f"reset refs/heads/{name}\n\n".encode()
        seconds = 0
        for number, stay in enumerate(chain):
            mark += 1
            before = chain[number - 1] if number else None
            seconds = max(stay.seconds, seconds)
            yield f"commit refs/heads/{name}\nmark :{mark}\ncommitter {_WHO} {seconds} +0000\n".encode()
            yield _data(_message(before, stay))
            yield b"M 100644 inline state.json\n" + _data(stay.state.as_json())


def _message(before: Stay | None, now: Stay) -> str:
    groups = changes(before.state, now.state) if before else {}
    lines = [f"{group}: {phrase}" for group, phrases in groups.items() for phrase in phrases]
    return "\n".join([subject(before, now)[:200], "", *lines]) + "\n"


def _data(text: str) -> bytes:
    content = text.encode("utf-8", errors="surrogatepass")
    return b"data %d\n%s\n" % (len(content), content)


def admit(path: Path, base: Path = store.PUBLISHED) -> Path:
    """Copy a record among the published ones and return the new file; one that is there stays the only one.

    Raises:
        Refusal: it is no record, or what keeps it out, with the remedy.
    """
    record = reading.read_verified(path)
    if reason := objection(record):
        raise Refusal(f"{path}: is not admitted: {reason}")
    into = store.folder(record, base)
    known = store.read(store.files([into], (record.verb,))).records
    twin = next((old for old, same in known.items() if same == record), None)
    return twin or store.append(record, into, store.run_of(path))


def objection(record: Record) -> str:
    """Return in one phrase what keeps a record out of the published results; nothing if it may be published.

    A run in which some benchmarks failed may: the figures that it has were verified, and the failures belong to the history.
    """
    if record.verb not in store.PUBLISHING:
        return f"records of `{record.verb}` are not published; those of {', '.join(store.PUBLISHING)} are"
    if record.verb in store.MEASURING and entry(record) is None:
        return "it holds no figures with a version; publish records of `bench` or `asv`"
    if record.verdict is Verdict.MISMATCHED:
        return "its environment was not its lock; build the environment again and measure again"
    if record.verdict is Verdict.INTERRUPTED and record.verb not in store.MEASURING:
        return "it was interrupted; go on with it (--continue), or run it again"
    commit = store.state(record.provenance).commit
    if not git.is_reachable(commit):
        return f"its commit is '{commit}', which nobody can go back to; commit the changes and measure again"
    if "drilled" in record.provenance:
        return f"a fault was planted in it ({record.provenance['drilled']}); run again without the drill"
    if "host" not in record.provenance:
        return "it does not say on which host it was measured; measure again with this version"
    return f"it {why}; name a record as its run has written it" if (why := reading.unproved(record)) else ""

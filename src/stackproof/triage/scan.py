"""One pass over the logs of a run: every line that any probe may want is read, all others are only passed over."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from stackproof.triage import lines
from stackproof.triage.lines import LONGEST, Line
from stackproof.triage.logs import Source, Unzipped, Window, windows
from stackproof.triage.search import Hit, Position, Probe, Row, Shapes, Tally, Wanted, Who, shape

_BLOCK_LINES = 2000
_IN_LOGS = bytes(byte for byte in range(256) if byte in b"\t\n\r\x1b\x08" or 32 <= byte != 127)
_MOST_CONTROL = 0.05
_TAIL_BYTES, _TAIL_LINES = 4096, 3
LATE = 200
"""Lines at the end of a file in which a good end is looked for."""


@dataclass
class FileRead:
    """What was read of one file; `damage` says why it may not be all, `text` whether it begins like a text at all."""

    name: str
    bytes: int = 0
    lines: int = 0
    damage: str = ""
    text: bool = True
    rank: int | None = None
    tail: tuple[str, ...] = ()
    """Its last lines."""


@dataclass
class Evidence:
    """All that the probes found in the logs of one run."""

    files: list[FileRead] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    mentioned: dict[str, Tally] = field(default_factory=dict)
    """What stands in the sentences of documents."""

    def tally(self, key: str) -> Tally:
        """Return what the probe of that key found; nothing is an empty tally."""
        return self.tallies.get(key) or Tally()

    def place(self, hit: Hit) -> str:
        """Return file and line, as editors understand them."""
        return f"{self.files[hit.place.source].name}:{hit.place.line}"


def scan(sources: Iterable[Source], probes: Iterable[Probe]) -> Evidence:
    """Read the files once and return what the probes found.

    Raises:
        Refusal: a file cannot be read.
    """
    evidence, plans = Evidence(), _Plans(tuple(probes))
    for source in sources:
        _Reader(source, plans, evidence).read()
    return evidence


class _Asked:
    """Probes, and the texts that they look for."""

    def __init__(self, probes: Iterable[Probe]) -> None:
        self.by_text: dict[bytes, list[Probe]] = {}
        for probe in probes:
            for text in probe.texts:
                self.by_text.setdefault(text, []).append(probe)
        self.shapes = _shapes(tuple(self.by_text))
        self._by: dict[tuple[bytes, ...], tuple[Probe, ...]] = {}

    def by(self, texts: tuple[bytes, ...]) -> tuple[Probe, ...]:
        """Return the probes that look for any of the texts."""
        if texts not in self._by:
            self._by[texts] = tuple({probe.key: probe for text in texts for probe in self.by_text[text]}.values())
        return self._by[texts]


class _Plans:
    def __init__(self, probes: tuple[Probe, ...]) -> None:
        self.all = _Asked(probe for probe in probes if not probe.late)
        self.late = _Asked(probe for probe in probes if probe.late)
        self.barren: dict[int, set[str]] = {}
        """The probes that looked in vain at a line of such a shape and would again."""
        self.full: set[str] = set()
        """The probes that remember as many hits as they may."""


@lru_cache(maxsize=4)
def _shapes(texts: tuple[bytes, ...]) -> Shapes:
    return Shapes(texts)


class _Reader:
    def __init__(self, source: Source, plans: _Plans, evidence: Evidence) -> None:
        self.source, self.plans, self.evidence = source, plans, evidence
        self.number = len(evidence.files)
        self.file = FileRead(source.name, rank=source.rank)
        self.counts: Counter[str] = Counter()
        self.last = False
        self.document: lines.Document | None = None
        evidence.files.append(self.file)

    def read(self) -> None:
        """Read window by window; the last one with all probes, however sated."""
        with self.source.open() as stream:
            for count, window in enumerate(windows(stream)):
                if not count:
                    control = len(window.data.translate(None, _IN_LOGS))
                    self.file.text = control <= _MOST_CONTROL * len(window.data)
                    self.document = lines.document(window.data)
                if window.last or not count:
                    self.plans.all.shapes.wake()
                self.last = window.last
                self._read_window(window)
                self.file.bytes += window.end - window.start
                if window.last:
                    self.file.lines = window.line - 1 + window.data.count(b"\n", window.start, window.end)
                    self.file.tail = _tail(window)
            self.file.damage = stream.damage if isinstance(stream, Unzipped) else ""

    def _read_window(self, window: Window) -> None:
        self._offer_all(window, self.plans.all, self._wanted)
        if window.last and self.plans.late.by_text:
            before, *after = window.data.rsplit(b"\n", LATE)
            start = len(before) + 1 if len(after) == LATE else 0
            line = window.line - window.data.count(b"\n", start, window.start)
            self._offer_all(replace(window, start=start, line=line), self.plans.late, lambda *_: True)

    def _offer_all(self, window: Window, asked: _Asked, wanted: Wanted) -> None:
        line, counted = window.line, window.start
        for begin, end, texts in _rows(window, asked.shapes.lines(window, wanted)):
            if begin > counted:
                line += window.data.count(b"\n", counted, begin)
                counted = begin
            self._offer(_Spot(window, begin, end, line), asked.by(texts))

    def _wants(self, probe: Probe) -> bool:
        return probe.key not in self.plans.full and (self.last or self.counts[probe.key] < probe.counted)

    def _wanted(self, key: int, texts: tuple[bytes, ...]) -> bool:
        through = self.plans.barren.get(key, ())
        return any(probe.key not in through and self._wants(probe) for probe in self.plans.all.by(texts))

    def _offer(self, spot: _Spot, probes: tuple[Probe, ...]) -> None:
        raw = spot.window.data[spot.begin : spot.end]
        through = self.plans.barren.setdefault(hash(shape(raw)), set())
        asked = [probe for probe in probes if probe.key not in through and self._wants(probe)]
        for probe in asked:
            self.counts[probe.key] += probe.frugal
        if asked:
            hits = self._ask_all(asked, spot)
            through.update(probe.key for probe in asked if probe.key not in hits and probe.alike)

    def _ask_all(self, probes: list[Probe], spot: _Spot) -> set[str]:
        text = spot.window.data[spot.begin : spot.end].decode("utf-8", "replace")
        parts = enumerate(map(lines.parse, lines.split(text)))
        return {probe.key for part, line in parts for probe in probes if self._ask(probe, spot, line, part)}

    def _ask(self, probe: Probe, spot: _Spot, line: Line, part: int) -> bool:
        text = line.head if probe.raw else line.text
        if probe.span > 1:
            text = "\n".join([text, *(after.text for after in spot.after(line, probe.span - 1))])
        if not (match := probe.match(text)):
            return False
        mentioned = self._only_mentioned(probe, spot, match.start()) or lines.quotes(text, match.start())
        book = self.evidence.mentioned if mentioned else self.evidence.tallies
        tally = book.setdefault(probe.key, Tally())
        who = self._who(line)
        seconds = spot.seconds(line) if probe.timed and tally.keeps(who, probe.kept) else None
        place = Position(self.number, spot.window.offset + spot.begin, part, spot.line)
        block = lines.follow(line, spot.line, spot.after(None, _BLOCK_LINES)) if probe.follows else None
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        tally.add(Hit(place, text, who, seconds, groups, block), probe.kept * (1 + spot.window.last))
        if probe.sample and not mentioned and len(tally.kept) >= probe.kept:
            self.plans.full.add(probe.key)
        self.counts[probe.key] += not probe.frugal
        return True

    def _only_mentioned(self, probe: Probe, spot: _Spot, at: int) -> bool:
        if self.document is None:
            return False
        position = spot.window.offset + spot.begin
        kind, starts = self.document.kind(position), at == 0 and position in self.document.begins
        return probe.asks or (kind == "prose" and not starts) or (probe.terse and kind != "fenced")

    def _who(self, line: Line) -> Who:
        if line.rank is not None:
            return "rank", line.rank
        if self.source.rank is not None:
            return "rank", self.source.rank
        return ("pid", line.pid) if line.pid is not None else ("file", self.number)


@dataclass(slots=True)
class _Spot:
    window: Window
    begin: int
    end: int
    line: int

    def after(self, like: Line | None, count: int) -> Iterator[Line]:
        """Yield up to `count` lines that follow; with `like`, only those of its rank."""
        data = self.window.data
        end = data.find(b"\n", self.end)
        while count > 0 and 0 <= end < len(data) - 1:
            begin, newline = end + 1, data.find(b"\n", end + 1)
            end = newline if newline >= 0 else len(data)
            line = lines.parse(data[begin : min(end, begin + LONGEST)].decode("utf-8", "replace"))
            if like is None or line.rank == like.rank:
                count -= 1
                yield line

    def seconds(self, line: Line) -> float | None:
        """Return the line's time, or that of the nearest line before it that has one."""
        if (own := lines.time_of(line.head)) is not None:
            return own
        before = self.window.data[max(0, self.begin - LONGEST) : self.begin].decode("utf-8", "replace")
        times = (lines.time_of(row, last=True) for row in reversed(before.split("\n")))
        return next((time for time in times if time is not None), None)


def _tail(window: Window) -> tuple[str, ...]:
    rows = window.data[-_TAIL_BYTES:].replace(b"\r", b"\n").decode("utf-8", "replace").split("\n")
    texts = (text for row in reversed(rows) if (text := lines.parse(row).text.strip()))
    return tuple(itertools.islice(texts, _TAIL_LINES))[::-1]


def _rows(window: Window, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield lines; of one that is long, or goes on outside of the window, the parts around its texts."""
    data = window.data
    for begin, end, texts in rows:
        first = begin > window.start or begin == 0 or data[begin - 1] in b"\n\r"
        if first and end - begin < LONGEST and (end < window.end or window.last):
            yield begin, end, texts
        else:
            last = 0
            for found in re.compile(b"|".join(map(re.escape, texts))).finditer(data, begin, end):
                if found.start() >= last:
                    start, last = _bounds(data, found.start())
                    yield start, last, tuple(text for text in texts if data.find(text, found.start(), last) >= 0)


def _bounds(data: bytes, position: int) -> tuple[int, int]:
    first, last = max(0, position - LONGEST), position + LONGEST
    begin = max(data.rfind(b"\n", first, position), data.rfind(b"\r", first, position)) + 1
    ends = [at for at in (data.find(b"\n", position, last), data.find(b"\r", position, last)) if at >= 0]
    return max(begin, first), min(ends, default=min(last, len(data)))

"""One line of a log as text: without escape sequences and prefixes, with the rank, process and time that they named."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

LONGEST = 4096
"""What of a line is read on either side of the place that matters, in bytes."""

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|\x1b[@-_]|[\x00\x07\x08]")

# What stands before a line. Ranks: torch's own, `torchrun --tee`, Open MPI `--tag-output`, `srun -l`, a driver's "r0"; a process: Ray;
# neither: seconds since the start, container and cloud columns, vLLM's logger, dates.
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r" {0,2}\[rank(?P<rank>\d{1,6})\]:? ?",
        r"\[(?!Rank|rank)[A-Za-z_]+(?P<rank>\d{1,6})\]:",
        r"\[\d+,(?P<rank>\d{1,6})\]<std(?:out|err)>: ?",
        r" {0,4}(?P<rank>\d{1,5}): (?=\S)| {0,4}(?P<rank2>\d{1,5}): (?= +(?:File |\^|[a-z]))",
        r"\((?:\w+ )?pid=(?P<pid>\d{1,9})(?:, ip=[0-9a-fA-F.:]+)?\) ?",
        r"\[ {0,8}\d+\.\d+\] (?:r(?P<rank>\d{1,6}) )?",
        r" {0,4}\| |[\w.-]+-\d+ +\| ?",
        r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\] ?",
        r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]? ?(?:\| )?",
    )
)
_MOST_PREFIXES = 5
_HEAD = 200
_HOST = re.compile(r"[\w.-]+:(?P<pid>\d{1,9}):\d+ \[\d+\] ")
_ONECCL = re.compile(r":\( *(?P<pid>\d{1,9})\) \|CCL_|:(?P<pid2>\d{1,9}):\[(?P<rank>\d{1,6})\] \|CCL_")
_AGENT = re.compile(r"[IWEF]\d{3,4} [\d:.]+ (?P<pid>\d{1,9}) \S*torch/")
_WATCHDOG = re.compile(r"\[(?:PG (?:ID )?[^\]]{0,80} )?Rank (?P<rank>\d{1,6})\]")

# oneCCL's ranks write to one stream without taking turns: a line may hold several.
_GLUED = re.compile(r"(?<=.)(?=\d{4}:\d\d:\d\d-\d\d:\d\d:\d\d:[( \d]+[)\[])")

_TIMES = re.compile(
    r"(?P<y>\d{4})(?P<s>[:-])(?P<mo>\d\d)(?P=s)(?P<d>\d\d)[-T _](?P<t>\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
    r"|(?<![A-Za-z])[IWEF](?P<mo2>\d{1,2})(?P<d2>\d\d) (?P<t2>\d\d:\d\d:\d\d(?:\.\d{1,6})?)"
)
_LEAP = 2000


@dataclass(frozen=True)
class Line:
    """A line: its text, and the rank and the process that wrote it as far as it says; `head` is its beginning with all prefixes."""

    text: str
    rank: int | None
    pid: int | None
    head: str

    @property
    def seconds(self) -> float | None:
        """The time that the line names, in seconds since the start of the year."""
        return time_of(self.head)


def parse(raw: str) -> Line:
    """Read one line; whatever it holds, it is only text."""
    text = _ESCAPES.sub("", raw).rstrip("\r\n")
    head = text[:_HEAD]
    rank: int | None = None
    pid: int | None = None
    for _ in range(_MOST_PREFIXES):
        found = next((found for prefix in _PREFIXES if (found := prefix.match(text))), None)
        if found is None:
            break
        named = found.groupdict()
        rank = _number(named.get("rank") or named.get("rank2"), rank)
        pid = _number(named.get("pid"), pid)
        text = text[found.end() :]
    if found := _HOST.match(text) or _ONECCL.search(text[:80]) or _AGENT.match(text):
        named = found.groupdict()
        pid = _number(named["pid"] or named.get("pid2"), pid)
        rank = _number(named.get("rank"), rank)
    if rank is None and (found := _WATCHDOG.search(text[:_HEAD])):
        rank = int(found["rank"])
    return Line(text, rank, pid, head)


def split(raw: str) -> list[str]:
    """Return the lines that several ranks wrote into one."""
    return _GLUED.split(raw) if raw.count("|CCL_") > 1 else [raw]


def time_of(text: str, last: bool = False) -> float | None:
    """Return the first (or last) time in the text, in seconds since the start of its year; not all formats name the year."""
    found = list(_TIMES.finditer(text))
    return _seconds(found[-1 if last else 0]) if found else None


def _seconds(found: re.Match[str]) -> float | None:
    month, day = int(found["mo"] or found["mo2"]), int(found["d"] or found["d2"])
    clock = (found["t"] or found["t2"]).replace(",", ".")
    hours, minutes, rest = clock.split(":")
    try:
        ordinal = datetime.date(_LEAP, month, day).toordinal() - datetime.date(_LEAP, 1, 1).toordinal()
    except ValueError:
        return None
    return ordinal * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + float(rest)


def _number(text: str | None, otherwise: int | None) -> int | None:
    return int(text) if text else otherwise

"""One line of a log as text: without escape sequences and prefixes, with the rank, process and time that they named.

A traceback as a whole: its lines may be mixed with those of other ranks.

Which files are the logs of which run, which rank wrote each, and how each is opened.

A stream of bytes of any length, in windows of bounded size that are cut at the ends of lines.
"""

from __future__ import annotations

import datetime
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from stackproof.base.errors import Refusal
from stackproof.triage.probes import Block

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


_FRAMES = 12
_LONGEST = 400


def follow(head: Line, number: int, rest: Iterable[Line]) -> Block:
    """Read the traceback that `head` (line `number` of the log) begins; lines of other ranks are passed over.

    It ends with the first line of the same rank that is not indented: the exception. A log may be cut before that.
    """
    frames: list[str] = []
    last, margin, code = number, len(head.text) - len(head.text.lstrip(" |+")), False
    for count, line in enumerate(rest, 1):
        if count > _LONGEST:
            break
        if line.rank != head.rank:
            continue
        last = number + count
        text = line.text[margin:] if line.text[:margin].strip(" |+") == "" else line.text
        is_frame = text.lstrip().startswith('File "')
        if text.strip() and not (text.startswith((" ", "\t")) or is_frame or code):
            return Block(text.strip(), tuple(frames[-_FRAMES:]), last)
        code = is_frame and not text.startswith((" ", "\t"))  # pasted without its indentation, as in threads
        if is_frame:
            frames.append(text.strip())
    return Block("", tuple(frames[-_FRAMES:]), last)


STDIN = "-"
_MOST_FILES = 20000

# Names that say which rank wrote a file; what lies before the number tells runs apart. torchrun keeps
# attempt_N/RANK/stderr.log below a folder for each run, Slurm's %j-%t is job and task, Paddle writes workerlog.N.
_NAMES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<run>.*?)/?attempt_\d+/(?P<rank>\d{1,6})/(?:stdout|stderr)\.log$",
        r"(?P<run>.*slurm-\d+)[.-](?P<rank>\d{1,6})\.(?:out|err|log)$",
        r"(?P<run>.*workerlog)\.(?P<rank>\d{1,6})$",
        r"(?P<run>.*?)(?:^|[/._-])(?:global_?|local_?)?(?:rank|task|proc|worker)[._-]?(?P<rank>\d{1,6})"
        r"(?:[./_-](?:stdout|stderr|out|err|log))?(?:\.(?:log|out|err|txt))?$",
        r"(?P<run>.*?)(?:^|[/._-])node[._-]?\d{1,6}(?:\.(?:log|out|err|txt))?$",
    )
)
_LOGS = (".log", ".out", ".err", ".txt", ".gz")
_LOG_NAMES = re.compile(r"(?:stdout|stderr|workerlog\.\d+|log\.\d+|.*\.o\d+|.*\.e\d+)$")
_FOREIGN = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstdcat"),
    b"\xfd7zXZ": ("xz", "xzcat"),
    b"BZh": ("bzip2", "bzcat"),
    b"PK\x03\x04": ("zip", "unzip -p"),
}


class Stream:
    """An open log: bytes, and after they are read, what was wrong with the file."""

    def __init__(self, inner: Readable) -> None:
        self._inner = inner

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        return self._inner.read(size)

    @property
    def damage(self) -> str:
        """Why the text may not be all, or an empty string."""
        return self._inner.damage if isinstance(self._inner, Unzipped) else ""


@dataclass(frozen=True)
class Source:
    """One log; without a path it is standard input."""

    name: str
    path: Path | None
    rank: int | None = None

    @contextmanager
    def open(self) -> Iterator[Stream]:
        """Open the log for reading; one that is compressed with gzip is unpacked, whatever its name.

        Raises:
            Refusal: it cannot be read, or is compressed otherwise.
        """
        try:
            with self._binary() as stream:
                yield Stream(self._unpacked(stream))
        except OSError as error:
            raise Refusal(
                f"{self.name}: cannot be read ({error.strerror}); name a log that exists and is readable"
            ) from error

    @contextmanager
    def _binary(self) -> Iterator[BinaryIO]:
        if self.path is None:
            yield sys.stdin.buffer
            return
        with self.path.open("rb") as stream:
            yield stream

    def _unpacked(self, stream: BinaryIO) -> Readable:
        head = stream.read(6)
        for magic, (name, tool) in _FOREIGN.items():
            if head.startswith(magic):
                raise Refusal(
                    f"{self.name}: is compressed with {name}; run `{tool} FILE | python -m stackproof triage -`"
                )
        whole = _Rejoined(head, stream)
        return Unzipped(whole) if head.startswith(GZIP) else whole


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes were looked at."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        super().__init__()
        self._head, self._stream = head, stream

    def read(self, size: int = -1, /) -> bytes:
        head, self._head = self._head, b""
        return head + self._stream.read(size)


@dataclass
class Run:
    """The logs that belong together."""

    name: str
    sources: list[Source] = field(default_factory=list)


def runs(arguments: Sequence[str], together: bool = False) -> list[Run]:
    """Return the runs whose logs are named: files, folders, `-` for standard input; `together` makes them all one run.

    Raises:
        Refusal: something named does not exist, or a folder holds no log.
    """
    sources = [(run, source) for argument in arguments for run, source in _expand(argument)]
    found: dict[str, Run] = {}
    for name, source in sources:
        key = "all logs" if together and len(sources) > 1 else name
        run = found.setdefault(key, Run(key))
        if source not in run.sources:
            run.sources.append(source)
    return list(found.values())


def named(paths: Iterable[Path]) -> Run:
    """Return these files as one run."""
    return Run("", [_source(path)[1] for path in paths])


def _expand(argument: str) -> Iterator[tuple[str, Source]]:
    path = Path(argument)
    if argument == STDIN:
        yield "standard input", Source("standard input", None)
    elif path.is_dir():
        yield from _folder(path)
    elif path.exists():
        yield _source(path)
    else:
        raise Refusal(f"{argument}: there is no such log; name files or folders, or - for standard input")


def _folder(folder: Path) -> Iterator[tuple[str, Source]]:
    """Yield what looks like a log below a folder, in order of name."""
    paths = sorted(Path(where) / name for where, _, names in os.walk(folder) for name in names if _is_log(name))
    regular = [path for path in paths if _is_regular(path)]
    if not regular:
        kinds = ", ".join(f"*{ending}" for ending in _LOGS)
        raise Refusal(f"{folder}: holds no log ({kinds}); name the files themselves")
    if len(regular) > _MOST_FILES:
        raise Refusal(f"{folder}: holds {len(regular)} logs, more than {_MOST_FILES}; name the folder of one run")
    yield from map(_source, sorted(regular, key=lambda path: _natural(str(path))))


def _is_log(name: str) -> bool:
    return name.endswith(_LOGS) or bool(_LOG_NAMES.match(name))


def _is_regular(path: Path) -> bool:
    """Whether it is a file with something in it; a pipe or a device in a folder would wait for ever."""
    try:
        found = path.stat()
    except OSError:
        return True  # opening it will say why
    return stat.S_ISREG(found.st_mode) and found.st_size > 0


def _source(path: Path) -> tuple[str, Source]:
    """Return the log and the name of its run; a log that names no rank is a run of its own."""
    text = path.as_posix()
    bare = text.removesuffix(".gz")
    for pattern in _NAMES:
        if found := pattern.match(bare):
            named = found.groupdict()
            rank = int(named["rank"]) if named.get("rank") else None
            return found["run"] or ".", Source(text, path, rank)
    return text, Source(text, path)


def _natural(text: str) -> list[tuple[int, str]]:
    """Sort numbers in names as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d{1,18})", text)]


CHUNK = 1 << 20
BEHIND = 1 << 14
AHEAD = 1 << 17
GZIP = b"\x1f\x8b"
_COMPRESSED = 1 << 16


class Readable(Protocol):
    """What bytes come from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        ...


@dataclass(frozen=True)
class Window:
    """A part of a log: `data[start:end]` is this window's own, the rest is what lies around it."""

    data: bytes
    start: int
    end: int
    offset: int
    """Where `data` begins in the log, in bytes."""
    line: int
    """The number of the line, from 1, in which `start` lies."""
    last: bool


def windows(stream: Readable) -> Iterator[Window]:
    """Yield the whole stream; a line longer than a window is cut, every other one lies in one window."""
    data, start, offset, line, last = b"", 0, 0, 1, False
    while not last:
        chunk = stream.read(CHUNK)
        last = not chunk
        data += chunk
        end = len(data) if last else _cut(data, start)
        if end > start or last:
            yield Window(data, start, end, offset, line, last)
            line += data.count(b"\n", start, end)
            kept = max(0, end - BEHIND)
            data, start, offset = data[kept:], end - kept, offset + kept


def _cut(data: bytes, start: int) -> int:
    """Return where the window ends: after a line with enough behind it, or within one that is too long."""
    limit = len(data) - AHEAD
    newline = data.rfind(b"\n", start, max(start, limit))
    if newline >= 0:
        return newline + 1
    return limit if limit - start >= CHUNK else start


class Unzipped:
    """A gzip stream that gives what it can: one that is cut short or damaged ends there, and `damage` says so."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._rest = b""
        self._member = zlib.decompressobj(wbits=31)
        self.damage = ""
        self._over = False

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes of text, however much a few compressed bytes stand for."""
        while not self._over:
            self._rest = self._rest or self._stream.read(_COMPRESSED)
            exhausted = not self._rest
            if text := self._decompress(size):
                return text
            if exhausted:
                self._finish("" if self._member.eof else "is cut short")
        return b""

    def _decompress(self, size: int) -> bytes:
        if self._member.eof and not self._begins_member():
            return b""
        try:
            text = self._member.decompress(self._rest, size)
        except zlib.error as error:
            self._finish(f"is damaged ({error})")
            return b""
        self._rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return text

    def _begins_member(self) -> bool:
        """Go on with a further member, as concatenated files have; padding of zeros is no member."""
        self._rest = self._rest.lstrip(b"\0")
        if not self._rest:
            return False
        if not GZIP.startswith(self._rest[:2]):
            self._finish("has bytes after its end")
            return False
        self._member = zlib.decompressobj(wbits=31)
        return True

    def _finish(self, damage: str) -> None:
        self._over, self.damage = True, damage

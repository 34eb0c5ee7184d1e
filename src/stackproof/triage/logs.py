"""Which files are the logs of which run, which rank wrote each, and how each is read: in windows of bounded size."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from stackproof.base import files
from stackproof.base.errors import Refusal

STDIN = "-"

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
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # what PowerShell's > writes
_FOREIGN = (b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh", b"PK\x03\x04")  # zstd, xz, bzip2, zip


@dataclass(frozen=True)
class Source:
    """One log; without a path it is standard input."""

    name: str
    path: Path | None
    rank: int | None = None

    @contextmanager
    def open(self) -> Iterator[Readable]:
        """Open the log for reading; one that is compressed with gzip is unpacked, whatever its name.

        Raises:
            Refusal: it cannot be read, or is compressed otherwise.
        """
        if self.path is None and sys.stdin is None:
            raise Refusal(f"{self.name} is closed; name a file")
        try:
            with files.opened(self.path) if self.path else nullcontext(sys.stdin.buffer) as stream:
                yield self._unpacked(stream)
        except OSError as error:
            raise Refusal(
                f"{self.name}: cannot be read ({error.strerror}); name a log that exists and is readable"
            ) from error

    def _unpacked(self, stream: BinaryIO) -> Readable:
        head = stream.read(512)
        if head[257:262] == b"ustar" or head.startswith(_FOREIGN) or self.name.endswith((".tar.gz", ".tgz")):
            raise Refusal(
                f"{self.name}: is an archive, or compressed otherwise than with gzip; unpack it, and name the logs or the folder, "
                "or write such as `zstdcat FILE | python -m stackproof triage -`"
            )
        whole = files.Begun(head, stream)
        if head.startswith(_UTF_16):
            return codecs.EncodedFile(cast("Any", whole), "utf-8", "utf-16", "replace")
        return Unzipped(whole) if head.startswith(GZIP) else whole


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
    sources = [pair for argument in arguments for pair in _expand(argument)]
    together = together and len(sources) > 1
    by_name: dict[str, Run] = {}
    for name, source in dict.fromkeys(sources):
        key = "all logs" if together else name
        by_name.setdefault(key, Run(key)).sources.append(source)
    return list(by_name.values())


def named(paths: Iterable[Path]) -> Run:
    return Run("", [_source(path)[1] for path in paths])


def _expand(argument: str) -> Iterator[tuple[str, Source]]:
    path = Path(argument)
    if not argument.strip():  # a variable that is not set is not the folder one stands in
        raise Refusal(f"{argument!r} names nothing; name files or folders, or - for standard input")
    if argument == STDIN:
        yield "standard input", Source("standard input", None)
        return
    try:
        path.stat()
    except OSError as error:
        raise Refusal(
            f"{argument}: there is no such log ({error.strerror}); name files or folders, or - for standard input"
        ) from error
    if path.is_dir():
        yield from _folder(path)
    else:
        yield _source(path)


def _folder(folder: Path) -> Iterator[tuple[str, Source]]:
    names = (Path(where) / name for where, _, names in os.walk(folder) for name in names)
    paths = [path for path in names if path.name.endswith(_LOGS) or _LOG_NAMES.match(path.name)]
    regular = [path for path in paths if path.is_file() and path.stat().st_size]
    if not regular:
        kinds = ", ".join(f"*{ending}" for ending in _LOGS)
        raise Refusal(f"{folder}: holds no log ({kinds}); name the files themselves")
    yield from map(_source, sorted(sorted(regular), key=_natural))


def _source(path: Path) -> tuple[str, Source]:
    text = path.as_posix()
    bare = text.removesuffix(".gz")
    for pattern in _NAMES:
        if match := pattern.match(bare):
            named = match.groupdict()
            rank = int(named["rank"]) if named.get("rank") else None
            return match["run"] or ".", Source(text, path, rank)
    return text, Source(text, path)


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"(\d{1,18})", str(path))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


CHUNK = 1 << 20
_FIRST = 1 << 16  # most logs of ranks are short, and room for a chunk costs more than they do
BEHIND = 1 << 14
AHEAD = 1 << 17
GZIP = b"\x1f\x8b"


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
        chunk = stream.read(CHUNK if len(data) >= _FIRST else min(CHUNK, _FIRST))
        last = not chunk
        data += chunk
        end = len(data) if last else _cut(data, start)
        if end > start or last:
            yield Window(data, start, end, offset, line, last)
            line += data.count(b"\n", start, end)
            kept = max(0, end - BEHIND)
            data, start, offset = data[kept:], end - kept, offset + kept


def _cut(data: bytes, start: int) -> int:
    limit = len(data) - AHEAD
    newline = data.rfind(b"\n", start, max(start, limit))
    if newline >= 0:
        return newline + 1
    return limit if limit - start >= CHUNK else start


class Unzipped:
    """A gzip stream that gives what it can: one that is cut short or damaged ends there, and `damage` says so."""

    def __init__(self, stream: Readable) -> None:
        self._stream = gzip.GzipFile(fileobj=cast("BinaryIO", stream))
        self.damage = ""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes of text, however much a few compressed bytes stand for."""
        text = b""
        try:
            while not self.damage and (part := self._stream.read1(size - len(text))):
                text += part
        except EOFError:
            self.damage = "is cut short"
        except (gzip.BadGzipFile, zlib.error) as error:
            self.damage = f"is damaged ({error})"
        return text

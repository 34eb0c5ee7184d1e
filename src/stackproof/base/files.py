"""Files: why one cannot be read or written, in a sentence; JSON, locks, output kept in part."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from stackproof.base.errors import Refusal
from stackproof.base.text import plain

MOST_BYTES = 1 << 30
"""What is read whole is smaller: records, keys, locks."""
_POLL_S = 0.05
_ROOM = 1 << 16
"""Bytes for which there is room unless a disk is full."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""What a path begins with that is meant for something else, such as https://host."""
_KINDS = {
    stat.S_IFDIR: "folder", stat.S_IFSOCK: "socket", stat.S_IFBLK: "device", stat.S_IFCHR: "device", stat.S_IFIFO: "named pipe",
}  # fmt: skip
_NO = (
    errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT,
    errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR,
)  # fmt: skip
_OPENED = ("/dev/fd/", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/proc/self/fd/")


def _kind(path: Path) -> str:
    """Return what it is, if that is no file; what the shell has opened for us may be anything."""
    what = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    return f"is a {what}, not a file" if what and not str(path).startswith((*_OPENED, os.devnull)) else ""


def why_unreadable(path: Path, most: int = MOST_BYTES) -> str:
    """Return why a file cannot be read whole, such as "is a folder, not a file"; an empty string where it can."""
    try:
        if (kind := _kind(path)) or str(path).startswith(_OPENED):
            return kind
        if path.stat().st_size > most:
            return f"is larger than {most >> 20} MiB, and nothing that is read here is"
        path.open("rb").close()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


_FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a write of an open file says, without its name."""


def disk_refusal(error: OSError) -> Refusal | None:
    """Return the refusal of a file system that is full, read-only or closed to us; None for any other error, which is a bug."""
    if error.errno not in (_NO if error.filename else _FULL):
        return None
    place = error.filename or "a file that is written"
    return Refusal(
        f"{place}: cannot be used ({error.strerror}); make room or make it writable, or work in a folder that is"
    )


def exists(path: Path) -> bool:
    """Whether something is there, as far as this user may look; what another user's home holds is not there."""
    return os.path.exists(path)  # noqa: PTH110 - `Path.exists` raises an error for a folder that is closed to us


def sorted_matches(folder: Path, pattern: str) -> list[Path]:
    """Return what matches below a folder, in order; nothing below one that this user may not look into."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def expand_user(text: str | Path) -> Path:
    """Return a path with its `~` written out; a user whom nobody knows stays as typed, and is no folder."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - `Path.expanduser` raises an error for such a user


def why_no_such_folder(folder: Path) -> str:
    """Return what stands where a folder was expected, or why nothing does."""
    try:
        return _kind(folder).replace("not a file", "not a folder") or "is not a folder"
    except OSError as error:
        return f"does not exist ({error.strerror})"


def read_bytes(path: Path, remedy: str = "name a file that can be read") -> bytes:
    """Return what a file holds.

    Raises:
        Refusal: it is no file, is too large, or cannot be read; the sentence ends with the remedy.
    """
    if why := why_unreadable(path):
        raise Refusal(f"{path}: {why}; {remedy}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refusal(f"{path}: cannot be read ({error.strerror}); {remedy}") from error


def read_text(path: Path, remedy: str = "name a file that can be read") -> str:
    """Return the text of a file, without a mark of its byte order (Refusal: it cannot be read, or is not UTF-8)."""
    try:
        return read_bytes(path, remedy).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{error.object[error.start]:02x}"
        raise Refusal(f"{path}: is not UTF-8 ({byte}); save it as UTF-8, or name another") from error


class NotJsonError(Refusal):
    """What should be JSON is none: it was cut short or damaged, or never was any."""


def parse_json(text: str | bytes, what: object, remedy: str = "make it anew", *, strict: bool = False) -> Any:
    """Return what JSON says; `what` names it in a refusal, which ends with the remedy.

    `strict`: RFC 8259 to the letter, so that NaN and a key that stands twice in an object are refused.

    Raises:
        NotJsonError: it is no JSON.
    """
    try:
        return json.loads(text, **_STRICT) if strict else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotJsonError(
            f"{what}: is not JSON: it is damaged or cut short ({plain(str(error), 120)}); {remedy}"
        ) from error


def read_json(path: Path, remedy: str = "make it anew") -> Any:
    """Return what a file of JSON says.

    Raises:
        NotJsonError: it holds no JSON.
        Refusal: it is no file, is too large, or cannot be read.
    """
    return parse_json(read_bytes(path, remedy), path, remedy)


def try_parse_json(text: str | bytes) -> Any:
    """Return what JSON says, or None where it is none: for what may be anything, such as a line of a log."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def try_read_json(path: Path) -> Any:
    """Return what a file of JSON says, or None where there is none: for caches and marks that are made anew."""
    try:
        return read_json(path)
    except Refusal:
        return None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' is in it twice")
    return fields


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


_STRICT: dict[str, Any] = {"parse_constant": _no_constant, "object_pairs_hook": _unique_keys}


@contextmanager
def writing(path: Path, remedy: str, what: str = "") -> Iterator[None]:
    """Refuse, with the remedy, what cannot be written within the block."""
    try:
        yield
    except OSError as error:
        raise Refusal(f"{path}: {what}cannot be written ({error.strerror}); {remedy}") from error


def digest(path: Path, algorithm: str) -> bytes:
    """Return the digest of a file of any size."""
    whole = hashlib.new(algorithm)
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            whole.update(part)
    return whole.digest()


def kernel_value(path: Path) -> str:
    """Return what a small file of the kernel says, without the blanks around it; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file of any size, or a pipe that the shell has opened (OSError: why it cannot be)."""
    if kind := _kind(path):
        raise OSError(errno.EINVAL, kind)
    with path.open("rb") as stream:
        yield stream


class Begun:
    """A stream of which the first bytes are read already, and come back."""

    def __init__(self, first: bytes, stream: BinaryIO) -> None:
        self._first, self._stream = first, stream

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, or what was read before."""
        first, self._first = self._first[:size] if size >= 0 else self._first, self._first[size:] if size >= 0 else b""
        return first or self._stream.read(size)


def lock(path: Path, wait_s: float = math.inf) -> BinaryIO | None:
    """Open a file, made if need be, that this process alone holds until it closes it or ends, however it does.

    None where another still holds it after `wait_s` seconds.

    Raises:
        OSError: it cannot be opened, or lies on a file system that has no locks.
    """
    import fcntl

    stream = os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666), "rb+")
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return stream
        except BlockingIOError:
            if time.monotonic() >= until:
                stream.close()
                return None
        time.sleep(_POLL_S)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time do what follows; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if stream := lock(path):
        with stream:
            yield


def why_unwritable(path: Path) -> str:
    """Return why a file cannot be written, or an empty string; nothing is left behind by asking.

    A device may still turn out to be full, and a disk too.
    """
    try:
        kind = _kind(path)
    except FileNotFoundError:
        return why_no_folder(path.parent)
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    if kind and "device" not in kind:
        return kind
    if (suffix := path.resolve().suffix) in (".py", ".toml", ".lock") and path.stat().st_size:
        return f"holds what runs are made of ({suffix}), which would be lost"
    return "" if os.access(path, os.W_OK) else "cannot be written (Permission denied)"


def is_full(folder: Path) -> bool:
    """Whether nothing more can be written below a folder because a disk or a quota has no room."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            probe.write(bytes(_ROOM))
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def why_no_folder(path: Path) -> str:
    """Return why nothing can be written below a folder, which may not be there yet."""
    if _ADDRESS.match(str(path)):
        return "is an address, not a place on this host"
    place = path.absolute()
    try:
        while not place.exists():
            if place.is_symlink():
                place.stat()  # says why
            place = place.parent
        with tempfile.TemporaryFile(dir=place):
            return ""
    except OSError as error:
        return f"cannot be written ({error.strerror})"


def write_atomically(path: Path, text: str, *, durably: bool = True) -> None:
    """Replace `path` in one step, so that a killed run leaves either the old file or the new one.

    A link stays and what it names is replaced; a pipe or a device (`/dev/stdout`) is written to, never replaced. Everyone may read it.
    `durably`: on the disk when this returns, so that a host that loses power keeps it too.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            if durably:
                os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException as error:
        if isinstance(error, OSError):  # a full disk names no file
            error.filename = str(path)
        Path(temporary).unlink(missing_ok=True)
        raise


HEAD = TAIL = 1 << 20
"""Bytes of the beginning and of the end that are kept, unless somebody reads further back."""
_CHUNK = 1 << 16
_LAST_S = 5.0
"""How long after the end a process that nobody could end may keep the output open."""


@contextmanager
def kept_output(path: Path, tail: int = TAIL) -> Iterator[IO[bytes]]:
    """Yield where a program writes to; behind the block, when all of its processes have ended, the file has head and tail of it.

    Raises:
        Refusal: the file cannot be written.
    """
    try:
        file = path.open("wb", buffering=0)
    except OSError as error:
        raise _unkept(path, error) from error
    source, target = os.pipe()
    with file, os.fdopen(target, "wb", buffering=0) as writable:
        copy = _Copy(source, file, tail)
        try:
            yield writable
        finally:
            writable.close()
            copy.join(_LAST_S)
            copy.finish()
    if copy.error:
        raise _unkept(path, copy.error) from copy.error


def _unkept(path: Path, error: OSError) -> Refusal:
    return Refusal(f"{path}: the output of a program cannot be kept ({error.strerror}); make room, then run it again")


class _Copy(threading.Thread):
    """Reads a pipe to its end: the head goes to the file as it comes, of the rest the end is held."""

    def __init__(self, source: int, file: IO[bytes], tail: int) -> None:
        super().__init__(daemon=True)
        self.error: OSError | None = None
        self._source, self._file, self._most = source, file, tail
        self._written = self._left_out = 0
        self._tail, self._ended = bytearray(), False
        self.start()

    def run(self) -> None:
        """Read on whatever happens: a program must never wait for us."""
        with os.fdopen(self._source, "rb", buffering=0) as stream:
            while (chunk := stream.read(_CHUNK)) and not self._ended:
                head = chunk[: max(0, HEAD - self._written)]
                self._write(head)
                self._tail += chunk[len(head) :]
                if len(self._tail) > 2 * self._most:
                    self._cut()

    def _write(self, chunk: bytes) -> None:
        self._written += len(chunk)
        try:
            while chunk and self.error is None:
                chunk = chunk[self._file.write(chunk) :]
        except OSError as error:
            self.error = error

    def _cut(self) -> None:
        cut = max(0, len(self._tail) - self._most)
        self._left_out += cut
        del self._tail[:cut]

    def finish(self) -> None:
        """Add the end to the head, and say between them how much was left out."""
        self._ended = True
        self._cut()
        if self._left_out:
            self._write(f"\n[{self._left_out} bytes left out]\n".encode())
        self._write(bytes(self._tail))

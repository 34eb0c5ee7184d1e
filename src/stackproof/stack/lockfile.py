"""Reads a stack's lock: what must be installed, with which hashes, and whether it still satisfies `requirements.in`.

The format is that of `uv pip compile --generate-hashes` below a header of our own, without any download address. This runs inside
vendors' environments: standard library and packaging only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from stackproof.base import advice, files, places
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.stack.stacks import Stack

HEADER_KEYS = ("stack", "kind", "python", "platform", "packages", "unhashed", "content")
KINDS = ("stack", "rehearsal")

_FIELD = re.compile(r"# ([a-z]+): (.*)")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)(?: ; (.+?))?( \\)?")
_PATH = re.compile(r"(\./wheels/([^\s;/]+\.whl))(?: ; (.+?))?( \\)?")
_HASH = re.compile(r"    --hash=(sha256:[0-9a-f]{64})( \\)?")
_COMMENT = re.compile(r"\s*#.*|")
_FROZEN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])? *===? *([^\s;#]+)(?: *; *(.+?))? *(?= --hash| #|$)")
_NO_ROW = re.compile(r"#.*|-(?!e ).*|--(?!editable).*|")
"""Lines of requirements that name no package: comments, and options but for what is installed from a checkout."""
_REMEDY = "name a lock, what `pip freeze` or `uv pip compile` prints, or the folder of an environment"
_NOT_PINNED = ("pip", "stackproof")


@dataclass(frozen=True)
class Pin:
    """One package at one version.

    `path` is set when its wheel lies in the stack's wheelhouse; it has no hashes when nobody could fetch it.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    path: str
    text: str
    """The lines of the lock that say so."""

    @property
    def unhashed(self) -> bool:
        """Whether nothing but name and version protects this pin."""
        return not self.hashes

    @property
    def requirement(self) -> str:
        """The pin as an installer's argument."""
        return f"{self.name}=={self.version}"

    @property
    def marked(self) -> str:
        """The pin with its marker, as a line of requirements."""
        return f"{self.requirement} ; {self.marker}" if self.marker else self.requirement

    def applies(self, environment: Mapping[str, str] | None = None) -> bool:
        """Whether the marker holds, for the running interpreter unless another one is described."""
        described = None if environment is None else dict(environment)
        return not self.marker or Marker(self.marker).evaluate(described)


@dataclass(frozen=True)
class Lock:
    """A lock that was read and found whole."""

    path: Path
    digest: str
    """SHA-256 of the file's bytes: what provenance records."""
    header: Mapping[str, str]
    pins: tuple[Pin, ...]

    @property
    def unhashed(self) -> tuple[Pin, ...]:
        """The vendor wheels that could not be reached where the lock was made."""
        return tuple(pin for pin in self.pins if pin.unhashed)

    def expected(self, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return what must be installed: canonical name to version, markers evaluated."""
        found: dict[str, str] = {}
        for pin in self.pins:
            if not pin.applies(environment):
                continue
            if found.setdefault(pin.name, pin.version) != pin.version:
                both = f"{found[pin.name]} and to {pin.version}"
                raise _broken(self.path, 0, f"pins {pin.name} to {both} for one interpreter")
        return found

    def hashed_text(self, only: Collection[str] = ()) -> str:
        """Return the part that `uv pip sync --require-hashes` installs, or these packages of it.

        Run it in the lock's folder: a wheel in the wheelhouse is a path relative to that.
        """
        return "".join(pin.text for pin in self.pins if not pin.unhashed and (not only or pin.name in only))

    def vendor_text(self, only: Collection[str] = ()) -> str:
        """Return the part without hashes, to be installed by exact version and without dependencies."""
        return "".join(f"{pin.marked}\n" for pin in self.unhashed if not only or pin.name in only)


def read(path: Path) -> Lock:
    """Return the lock; one that is missing, truncated or edited by hand is refused with file, line and remedy."""
    try:
        raw = path.read_bytes()
        lines = raw.decode("utf-8").splitlines(keepends=True)
    except OSError as error:
        again = f"make it with {advice.relock(path.parent.name, path)}"
        raise Refusal(f"{path}: cannot be read ({error.strerror}); {again}") from error
    except UnicodeDecodeError as error:
        raise _broken(path, 0, "is not UTF-8 text") from error
    header, first = _header(path, lines)
    lock = Lock(path, hashlib.sha256(raw).hexdigest(), header, tuple(_pins(path, lines, first)))
    for key, found in (("packages", len(lock.pins)), ("unhashed", len(lock.unhashed))):
        if header[key] != str(found):
            raise _broken(path, 0, f"says '{key}: {header[key]}' in its header and has {found}")
    if header["content"] != content_digest("".join(lines[first:])):
        raise _broken(path, 0, "was changed after it was made: it does not match the digest in its header")
    return lock


def read_of(path: Path, stack: Stack) -> Lock:
    """Return a lock; one of another stack, or a rehearsal's where the stack itself is meant, is refused."""
    found, own = read(path), read(stack.lock)
    for key, what in (("stack", "of the stack"), ("kind", "of the kind")):
        if found.header[key] != own.header[key]:
            raise Refusal(
                f"{path}: is a lock {what} '{found.header[key]}', and '{own.header[key]}' is asked for; name a lock that "
                f"{advice.relock(stack.name, stack.folder)} has made"
            )
    return found


def adopt(path: Path, stack: Stack) -> Path:
    """Return a lock of a stack: the file itself, or one made of what `pip freeze`, `uv pip compile` or an environment's folder pins.

    A pin that the stack's own lock has takes its hashes from there; all others are installed by exact version.
    Refusal: a line pins no release, or the environment is of another Python.
    """
    own = read(stack.lock)
    if path.is_dir():
        rows = [
            f"{one.name}=={one.version}"
            for one in _installed(path, own)
            if canonicalize_name(one.name) not in _NOT_PINNED
        ]
    else:
        text = files.read_bytes(path, _REMEDY).decode("utf-8", errors="replace")
        if any(line.startswith("# content: ") for line in text.splitlines()):
            return path
        rows = [line.strip() for line in text.replace("\\\n", " ").splitlines() if not _NO_ROW.fullmatch(line.strip())]
    known, pins = {(pin.name, pin.version): pin for pin in own.pins}, dict[str, str]()
    for row in rows:
        if (found := _FROZEN.match(row)) is None:
            why = f"'{plain(row, 60, lines=False)}' pins no release"
            raise Refusal(
                f"{path}: {why}; take it out, and name a checkout of the package with --good-source or --base-source"
            )
        hashes = "".join(f" \\\n    --hash={digest}" for digest in re.findall(r"--hash=(sha256:[0-9a-f]{64})", row))
        text = f"{found[1]}=={found[2]}{f' ; {found[3]}' if found[3] else ''}{hashes}\n"
        pin = _pin(path, 0, found, (), text)
        pins[text] = known.get((pin.name, pin.version), pin).text
    if not pins:
        raise Refusal(f"{path}: pins no package; {_REMEDY}")
    body = "".join(pins[key] for key in sorted(pins))
    header = {
        **own.header,
        "packages": str(len(pins)),
        "unhashed": str(sum("--hash" not in one for one in pins.values())),
    }
    header["content"] = content_digest(body)
    made = places.HOME / "locks" / header["content"][:16] / stack.lock.name
    made.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(made, "".join(f"# {key}: {header[key]}\n" for key in HEADER_KEYS) + body)
    return made


def _installed(folder: Path, own: Lock) -> Iterator[metadata.Distribution]:
    sites = sorted(folder.glob("lib/python*/site-packages"))
    if not sites:
        raise Refusal(
            f"{folder}: has no lib/python*/site-packages; name the folder of an environment, or a file with pins"
        )
    python = sites[0].parent.name.removeprefix("python")
    if python not in own.header["python"].split(", "):
        raise Refusal(f"{folder}: is of Python {python}, and '{own.header['stack']}' runs on {own.header['python']}")
    yield from (one for one in metadata.distributions(path=[str(sites[0])]) if one.metadata["Name"])


def content_digest(body: str) -> str:
    """Return what the header's `content` says of everything below the header."""
    return hashlib.sha256(body.encode("utf-8")).hexdigest()


def _header(path: Path, lines: list[str]) -> tuple[dict[str, str], int]:
    """Return the header's fields and the number of lines that it takes."""
    length = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    fields = {match[1]: match[2] for line in lines[:length] if (match := _FIELD.fullmatch(line.rstrip("\n")))}
    for key in HEADER_KEYS:
        if key not in fields:
            raise _broken(path, 0, f"has no '{key}' in its header")
    if fields["kind"] not in KINDS:
        raise _broken(path, 0, f"says 'kind: {fields['kind']}' in its header; allowed: {', '.join(KINDS)}")
    return fields, length


def _pins(path: Path, lines: list[str], first: int) -> Iterator[Pin]:
    """Yield the pins, one after the other, each with the lines that it was read from."""
    at = first
    while at < len(lines):
        if _COMMENT.fullmatch(lines[at].rstrip("\n")):
            at += 1
            continue
        start, hashes = at, []
        head = _PIN.fullmatch(lines[at].rstrip("\n")) or _PATH.fullmatch(lines[at].rstrip("\n"))
        if head is None:
            raise _broken(path, at + 1, f"is not a pin ({lines[at].strip()[:60]!r})")
        more, at = bool(head[4]), at + 1
        while more:
            found = _HASH.fullmatch(lines[at].rstrip("\n")) if at < len(lines) else None
            if found is None:
                raise _broken(path, at + 1, "should be a hash and is not")
            hashes.append(found[1])
            more, at = bool(found[2]), at + 1
        yield _pin(path, start + 1, head, tuple(hashes), "".join(lines[start:at]))


def _pin(path: Path, line: int, head: re.Match[str], hashes: tuple[str, ...], text: str) -> Pin:
    try:
        if head.re is _PATH:
            name, version, _, _ = parse_wheel_filename(head[2])
        else:
            name, version = canonicalize_name(head[1]), Version(head[2])
        Marker(head[3] or "python_version > '0'")
    except (InvalidWheelFilename, InvalidVersion, InvalidMarker) as error:
        raise _broken(path, line, f"is not a pin ({' '.join(str(error).split())})") from error
    return Pin(name, str(version), head[3] or "", hashes, head[1] if head.re is _PATH else "", text)


def _broken(path: Path, line: int, what: str) -> Refusal:
    where = f"{path}:{line}" if line else f"{path}"
    remedy = f"restore it from version control or make it anew with {advice.relock(path.parent.name, path)}"
    return Refusal(f"{where}: {what}; {remedy}")


def requirements(path: Path) -> list[Requirement]:
    """Return what a `requirements.in` asks for; a line that cannot be read, or a name without a range, is refused."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: cannot be read ({error}); every stack needs one") from error
    found = [(number, f" {line}".partition(" #")[0].strip()) for number, line in enumerate(lines, 1)]
    return [_requirement(path, number, line) for number, line in found if line]


def overrides(stack: Stack) -> list[Requirement]:
    """Return what uv must believe instead of what wheels ask for (`overrides.in`, which few stacks have).

    Source: https://docs.astral.sh/uv/concepts/resolution/#dependency-overrides
    """
    path = stack.folder / "overrides.in"
    return requirements(path) if path.exists() else []


def stale(stack: Stack) -> list[str]:
    """Return what the lock no longer satisfies of `requirements.in`, one sentence each; needs no network."""
    lock, found = read(stack.lock), list[str]()
    for python in stack.pythons:
        environment = environment_of(python)
        pins = lock.expected(environment)
        for wanted in asked(stack, environment):
            version = pins.get(canonicalize_name(wanted.name))
            if version is None:
                found.append(f"{stack.lock}: does not pin {wanted.name} for Python {python}")
            elif not wanted.specifier.contains(version, prereleases=True):
                found.append(f"{stack.lock}: pins {wanted.name} {version} and {stack.inputs.name} asks for {wanted}")
    return found


def is_vendor_build(asked: Requirement) -> bool:
    """Whether a requirement names a local version such as `2.8.0+xpu`, which public indexes never serve."""
    return any("+" in part.version for part in asked.specifier)


def asked(stack: Stack, environment: Mapping[str, str]) -> list[Requirement]:
    """Return what the lock must satisfy there: a rehearsal has substitutes in place of the vendor's wheels."""
    wanted = requirements(stack.inputs)
    if stack.lock.name != "requirements.lock":
        # A rehearsed stack has no vendor rows left; those of its inputs carry a local version.
        wanted = [row for row in wanted if not is_vendor_build(row)]
        wanted += map(Requirement, stack.rehearsal.substitutes)
    return [row for row in wanted if row.marker is None or row.marker.evaluate(dict(environment))]


def _requirement(path: Path, number: int, line: str) -> Requirement:
    try:
        row = Requirement(line)
    except InvalidRequirement as error:
        remedy = "write a name and a range such as 'numpy>=2,<3'"
        raise Refusal(f"{path}:{number}: {line!r} is not a requirement; {remedy}") from error
    if not row.specifier:
        remedy = f"write one such as '{row.name}>=1,<2'"
        raise Refusal(f"{path}:{number}: '{line}' names a package without a range; {remedy}")
    return row


def environment_of(python: str) -> dict[str, str]:
    """Describe Linux on x86-64 with that Python, for markers."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }

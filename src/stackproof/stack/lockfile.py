"""A stack's lock: read and found whole, held against `requirements.in`, and made anew with uv.

The format is that of `uv pip compile --generate-hashes` below a header of our own, without any download address. All that can be
reached is hashed, the rest pinned by exact version and source: a vendor's wheel out of reach is stood in for by its metadata, whose
hash never reaches the lock. This runs inside vendors' environments: standard library and packaging only.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from stackproof.base import advice, files, places, processes
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.stack import installed_files
from stackproof.stack.stacks import Stack, Vendor

HARNESS = {"fastjsonschema", "packaging", "pytest", "rich"}
"""What this harness is made of: pyproject.toml, `dependencies`."""
HEADER_KEYS = ("stack", "kind", "python", "platform", "packages", "unhashed", "content")

_FIELD = re.compile(r"# ([a-z]+): (.*)")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)(?: ; (.+?))?( \\)?")
_PATH = re.compile(r"(\./wheels/([^\s;/]+\.whl))(?: ; (.+?))?( \\)?")
_HASH = re.compile(r"    --hash=(sha256:[0-9a-f]{64})( \\)?")
_COMMENT = re.compile(r"\s*#.*|")
_FROZEN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])? *===? *([^\s;#]+)(?: *; *(.+?))? *(?= --hash| #|$)")
_NO_ROW = re.compile(r"#.*|-(?!e |r).*|--(?!editable|requirement).*|")
"""Lines of requirements that name no package: comments, and options but for what is installed from a checkout."""
_REMEDY = "name a lock, what `pip freeze` or `uv pip compile` prints, or the folder of an environment"


@dataclass(frozen=True)
class Pin:
    """One package at one version; it has no hashes when nobody could fetch it."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    text: str
    """The lines of the lock that say so; a wheel in the stack's wheelhouse is a path in them."""

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
        return {pin.name: pin.version for pin in self.pins if pin.applies(environment)}

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
        raise _broken(path, 0, f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _broken(path, 0, "is not UTF-8 text") from error
    header, first = _header(path, lines)
    lock = Lock(path, hashlib.sha256(raw).hexdigest(), header, tuple(_pins(path, lines, first)))
    made = _header_of("".join(lines[first:]), len(lock.pins), len(lock.unhashed))
    if wrong := next((key for key, value in made.items() if header[key] != value), ""):
        raise _broken(path, 0, f"was changed after it was made: its header's '{wrong}' is not that of its pins")
    return lock


def read_of(path: Path, stack: Stack) -> Lock:
    """Return a lock; one of another stack, or a rehearsal's where the stack itself is meant, is refused."""
    lock, kind = read(path), "rehearsal" if stack.substituted else "stack"
    for key, fit in (("stack", (stack.name,)), ("kind", (kind,)), ("python", stack.pythons)):
        if not {*(found := lock.header[key]).split(", ")}.intersection(fit):
            what = f"is a lock of the {key} '{plain(found, 60)}', and '{', '.join(fit)}' is asked for"
            if path == stack.lock:
                raise _broken(path, 0, what)
            raise Refusal(f"{path}: {what}; name a lock that {advice.relock(stack.name, stack.folder)} has made")
    return lock


def own(stack: Stack) -> Lock:
    """Return the lock of a stack or of its rehearsal; one that was copied from another stack is refused."""
    return read_of(stack.lock, stack)


def adopt(path: Path, stack: Stack) -> Path:
    """Return a lock of a stack: the file itself, or one made of what `pip freeze`, `uv pip compile` or an environment's folder pins.

    A pin that the stack's own lock has takes its hashes from there; all others are installed by exact version.
    Refusal: a line pins no release, or the environment is of another Python.
    """
    like = own(stack)
    if path.is_dir():
        there = {
            name: versions for name, versions in installed_files.installed([_site(path, like)]).items() if name != "pip"
        }
        rows = [f"{name}=={version}" for name, versions in there.items() for version in versions]
    else:
        text = files.read_text(path, _REMEDY)
        if any(line.startswith("# content: ") for line in text.splitlines()):
            return path
        rows = [line.strip() for line in text.replace("\\\n", " ").splitlines() if not _NO_ROW.fullmatch(line.strip())]
    known, pins = {(pin.name, pin.version): pin for pin in like.pins}, dict[str, str]()
    versions = dict[tuple[str, str | None], str]()
    for row in rows:
        if (match := _FROZEN.match(row)) is None:
            why = f"'{plain(row, 60, lines=False)}' pins no release"
            remedy = (
                "write NAME==VERSION; take out what is of a checkout, and name that with the --...-source of this side"
            )
            raise Refusal(f"{path}: {why}; {remedy}")
        hashes = "".join(f" \\\n    --hash={digest}" for digest in re.findall(r"--hash=(sha256:[0-9a-f]{64})", row))
        text = f"{match[1]}=={match[2]}{f' ; {match[3]}' if match[3] else ''}{hashes}\n"
        pin = _pin(path, 0, match, (), text)
        if (other := versions.setdefault((pin.name, match[3]), pin.version)) != pin.version:
            raise Refusal(f"{path}: pins {pin.name} twice, {other} and {pin.version}; keep one of them")
        pins[text] = known.get((pin.name, pin.version), pin).text
    if not pins:
        raise Refusal(f"{path}: pins no package; {_REMEDY}")
    text = text_of(like.header, [pins[key] for key in sorted(pins)])
    made = places.HOME / "locks" / content_digest(text)[:16] / stack.lock.name
    made.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(made, text)
    return made


def adopt_side(path: Path, stack: Stack) -> Path:
    """Return the same for a side that runs in that environment; one that cannot is refused."""
    lock = adopt(path, stack)
    lost = sorted({*HARNESS, "torch"} - {pin.name for pin in read_of(lock, stack).pins})
    if lock != path and lost:
        why = "which stackproof needs in every environment that it compares"
        raise Refusal(f"{path}: has no {', '.join(lost)}, {why}; install them there, and freeze it anew")
    return lock


def text_of(like: Mapping[str, str], pins: Collection[str], *titles: str) -> str:
    """Return the text of a lock with these pins, each as its lines; `like`: of which stack it is, kind, Pythons and platform."""
    body = "".join(pins)
    header = {**like, **_header_of(body, len(pins), sum("--hash" not in pin for pin in pins))}
    return "".join(f"# {line}\n" for line in (*titles, *(f"{key}: {header[key]}" for key in HEADER_KEYS))) + body


def _site(folder: Path, own: Lock) -> Path:
    sites = sorted(folder.glob("lib/python*/site-packages"))
    if not sites:
        raise Refusal(
            f"{folder}: has no lib/python*/site-packages; name the folder of an environment, or a file with pins"
        )
    python = sites[0].parent.name.removeprefix("python")
    if python not in own.header["python"].split(", "):
        raise Refusal(f"{folder}: is of Python {python}, and '{own.header['stack']}' runs on {own.header['python']}")
    return sites[0]


def _header_of(body: str, packages: int, unhashed: int) -> dict[str, str]:
    return {"content": content_digest(body), "packages": str(packages), "unhashed": str(unhashed)}


def content_digest(body: str) -> str:
    """Return what the header's `content` says of everything below the header."""
    return hashlib.sha256(body.encode("utf-8")).hexdigest()


def _header(path: Path, lines: list[str]) -> tuple[dict[str, str], int]:
    length = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    fields = {match[1]: match[2] for line in lines[:length] if (match := _FIELD.fullmatch(line.rstrip("\n")))}
    for key in HEADER_KEYS:
        if key not in fields:
            raise _broken(path, 0, f"has no '{key}' in its header")
    return fields, length


def _pins(path: Path, lines: list[str], first: int) -> Iterator[Pin]:
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
            match = _HASH.fullmatch(lines[at].rstrip("\n")) if at < len(lines) else None
            if match is None:
                raise _broken(path, at + 1, "should be a hash and is not")
            hashes.append(match[1])
            more, at = bool(match[2]), at + 1
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
    return Pin(name, str(version), head[3] or "", hashes, text)


def _broken(path: Path, line: int, what: str) -> Refusal:
    where = f"{path}:{line}" if line else f"{path}"
    remedy = _REMEDY
    if (path.parent / "stack.toml").is_file():
        remedy = f"restore it from version control or make it anew with {advice.relock(path.parent.name, path)}"
    return Refusal(f"{where}: {what}; {remedy}")


def requirements(path: Path) -> list[Requirement]:
    """Return what a `requirements.in` asks for; a line that cannot be read, or a name without a range, is refused."""
    lines = files.read_text(path, "every stack needs one").splitlines()
    pairs = [(number, f" {line}".partition(" #")[0].strip()) for number, line in enumerate(lines, 1)]
    return [_requirement(path, number, line) for number, line in pairs if line]


def overrides(stack: Stack) -> list[Requirement]:
    """Return what uv must believe instead of what wheels ask for (`overrides.in`, which few stacks have).

    Source: https://docs.astral.sh/uv/concepts/resolution/#dependency-overrides
    """
    path = stack.folder / "overrides.in"
    return requirements(path) if path.exists() else []


def stale(stack: Stack) -> list[str]:
    """Return what the lock no longer satisfies of `requirements.in`, one sentence each; needs no network."""
    lock, lines = own(stack), list[str]()
    for python in stack.pythons:
        environment = environment_of(python)
        pins = lock.expected(environment)
        for row in asked(stack, environment):
            version = pins.get(canonicalize_name(row.name))
            if version is None:
                lines.append(f"{stack.lock}: does not pin {row.name} for Python {python}")
            elif not row.specifier.contains(version, prereleases=True):
                lines.append(f"{stack.lock}: pins {row.name} {version} and {stack.inputs.name} asks for {row}")
    return lines


def is_vendor_build(asked: Requirement) -> bool:
    """Whether a requirement names a local version such as `2.8.0+xpu`, which public indexes never serve."""
    return any("+" in part.version for part in asked.specifier)


def asked(stack: Stack, environment: Mapping[str, str]) -> list[Requirement]:
    """Return what the lock must satisfy there: a rehearsal has substitutes in place of the vendor's wheels."""
    rows = requirements(stack.inputs)
    if stack.substituted:
        # A rehearsed stack has no vendor rows left; those of its inputs carry a local version.
        rows = [row for row in rows if not is_vendor_build(row)]
        rows += map(Requirement, stack.rehearsal.substitutes)
    return [row for row in rows if row.marker is None or row.marker.evaluate(dict(environment))]


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
        "python_version": python, "python_full_version": f"{python}.0", "implementation_version": f"{python}.0",
        "implementation_name": "cpython", "platform_python_implementation": "CPython", "sys_platform": "linux",
        "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix", "platform_release": "",
        "platform_version": "", "extra": "",
    }  # fmt: skip


# Zip files know no earlier time; a fixed one makes equal wheels equal bytes.
_EARLIEST = (1980, 1, 1, 0, 0, 0)
BACKSLASH = " \\\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: stackproof\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make(rows: Iterable[Vendor], folder: Path) -> Path:
    """Write one stand-in wheel a row into `folder` and return it, for `--find-links`.

    Source: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
    """
    folder.mkdir(exist_ok=True)
    for row in rows:
        requires = "".join(f"Requires-Dist: {line}\n" for line in row.requires)
        metadata = f"Metadata-Version: 2.1\nName: {row.name}\nVersion: {row.version}\n{requires}"
        stem = f"{row.name.replace('-', '_')}-{row.version}"
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            for name, text in (("METADATA", metadata), ("WHEEL", _WHEEL), ("RECORD", "")):
                wheel.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{name}", _EARLIEST), text)
    return folder


def without_hashes(body: str, rows: Sequence[Vendor]) -> str:
    """Return the lock's body with each stand-in's hash replaced by where the real wheel comes from."""
    stood_in = {canonicalize_name(row.name): row for row in rows}
    text = ""
    for head, rest in entries(body):
        if row := stood_in.get(canonicalize_name(head.partition("==")[0])):
            notes = "".join(f"{line}\n" for line in rest.splitlines() if "--hash=" not in line)
            text += f"{head.rstrip(BACKSLASH)}\n    # no hash yet, from {row.index or row.file}\n{notes}"
        else:
            text += head + rest
    return text


def entries(body: str) -> list[tuple[str, str]]:
    """Return each pin as its first line and the lines that belong to it."""
    return re.findall(r"^([^\s#].*\n?)((?:(?:[ \t#].*)?\n)*)", body, re.MULTILINE)


GLIBC = "x86_64-manylinux_2_28"
PROBE_SECONDS = 20
RESOLVE_SECONDS = 900

_QUICK = {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}
_ROOT = "requirements-in"  # the name that uv's "via" comments show for what the stack itself asks for
_VIA = re.compile(r"    # via (.*)\n")
_UNIVERSAL = "any; markers tell platforms and Pythons apart"
_LINUX = "linux x86_64 with glibc 2.28 or newer"
_TITLES = {
    "stack": ["What this stack installs, with the hash of every file that it may install."],
    "rehearsal": [
        "REHEARSAL on the CPU: what stands in for this stack where its hardware is missing.",
        "Upstream builds replace the vendor's; the companions are those of requirements.lock.",
    ],
}

Say = Callable[[str], None]


def lock(stack: Stack, uv: Path, *, upgrade: bool = False, say: Say = print) -> list[Path]:
    """Write the stack's lock, and its rehearsal's where that differs; existing pins stay unless `upgrade`, all if uv finds no solution."""
    say(f"resolving {stack.name}")
    inputs = requirements(stack.inputs)
    _agree(stack, inputs)
    with tempfile.TemporaryDirectory(prefix="stackproof-lock-") as folder:
        own = _Resolver(stack, uv, Path(folder), upgrade).stack(inputs, say)
        written = {stack.folder / "requirements.lock": own}
        if stack.rehearsal.substitutes:
            say(f"resolving the rehearsal of {stack.name}")
            rehearsed = _Resolver(stack, uv, Path(folder), upgrade).rehearsal(inputs, own)
            written[stack.folder / "rehearsal.lock"] = rehearsed
    for path, text in written.items():
        with files.writing(path, "the old lock is unchanged"):
            files.write_atomically(path, text)
    return list(written)


class _Resolver:
    """One stack's resolutions in one scratch folder."""

    def __init__(self, stack: Stack, uv: Path, folder: Path, upgrade: bool) -> None:
        self.row, self.uv, self.folder, self.upgrade = stack, uv, folder, upgrade
        self.vendor = {canonicalize_name(row.name): row for row in stack.vendor}
        self.universal = len(stack.pythons) > 1

    def stack(self, inputs: Sequence[Requirement], say: Say) -> str:
        wheels = self._wheelhouse(say)
        missing = [row for name, row in self.vendor.items() if name not in wheels]
        served = [row for row in missing if row.index]
        with ThreadPoolExecutor(
            max_workers=max(len(served), 1)
        ) as pool:  # all at once, so that a dead index costs little
            reached = [row for row, there in zip(served, pool.map(self._serves, served), strict=True) if there]
        out_of_reach = [row for row in missing if row not in reached]
        for row in out_of_reach:
            say(f"{row.pin} cannot be had here; pinned without a hash")
        sources = [f'{name} = {{ path = "./wheels/{path.name}" }}' for name, path in wheels.items()]
        sources += [f'{canonicalize_name(row.name)} = {{ index = "{_slug(row.index)}" }}' for row in reached]
        others = [str(row) for row in inputs if canonicalize_name(row.name) not in self.vendor]
        lines = others + [row.pin for row in self.vendor.values()]
        old = self.row.folder / "requirements.lock"
        body = self._compile(lines, sources, {row.index for row in reached}, out_of_reach, (), old)
        return self._text("stack", without_hashes(body, out_of_reach), out_of_reach)

    def rehearsal(self, inputs: Sequence[Requirement], own: str) -> str:
        """Return the text of `rehearsal.lock`: substitutes for the vendor's wheels, the same companions."""
        substitutes = [Requirement(line) for line in self.row.rehearsal.substitutes]
        replaced = {canonicalize_name(row.name) for row in substitutes} | self.vendor.keys()
        others = [str(row) for row in inputs if canonicalize_name(row.name) not in replaced]
        path = self.folder / "own.lock"
        path.write_text(own, encoding="utf-8")
        same = [pin.marked for pin in read(path).pins if pin.name not in replaced]
        old = self.row.folder / "rehearsal.lock"
        body = self._compile(others + [str(row) for row in substitutes], (), (), (), same, old)
        return self._text("rehearsal", body, ())

    def _compile(
        self,
        lines: Iterable[str],
        sources: Sequence[str],
        indexes: Iterable[str],
        out_of_reach: Sequence[Vendor],
        same: Sequence[str],
        old: Path,
    ) -> str:
        project = self._project(lines, sources, indexes)
        output = self.folder / "output.txt"
        output.write_text("" if self.upgrade else _preferences(old, self.vendor), encoding="utf-8")
        command = [*self._command(project), "--output-file", str(output), "--annotation-style", "line"]
        command += ["--no-header", "--upgrade"] if self.upgrade else ["--no-header"]
        # Files, not [tool.uv] tables: those are not read where the user has set UV_NO_CONFIG.
        command += ["--constraints", self._file("constraints.txt", same)]
        command += ["--overrides", self._file("overrides.txt", map(str, overrides(self.row)))]
        if out_of_reach:
            command += ["--find-links", str(make(out_of_reach, self.folder / "standins"))]
        self._run(command)
        return _VIA.sub(self._via, output.read_text(encoding="utf-8"))

    def _via(self, match: re.Match[str]) -> str:
        """Say who asks for a package, without the scratch files that uv counts among them."""
        asking = [word for word in match[1].split(", ") if not word.startswith("-")]
        line = ", ".join(asking).replace(f"{_ROOT} (pyproject.toml)", self.row.inputs.name)
        return f"    # via {line}\n" if line else ""

    def _file(self, name: str, lines: Iterable[str]) -> str:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return name

    def _project(self, lines: Iterable[str], sources: Sequence[str], indexes: Iterable[str]) -> Path:
        """Write the project that says which package comes from where; only a project can say that to uv."""
        text = f'[project]\nname = "{_ROOT}"\nversion = "0"\ndependencies = {json.dumps(list(lines))}\n'  # JSON's strings are TOML's
        text += "[tool.uv.sources]\n" + "".join(f"{line}\n" for line in sources)
        for url in sorted(set(indexes)):
            text += f'[[tool.uv.index]]\nname = "{_slug(url)}"\nurl = "{url}"\nexplicit = true\n'
        wheels = self.folder / "wheels"
        if not wheels.is_symlink() and (self.row.folder / "wheels").is_dir():
            wheels.symlink_to(self.row.folder / "wheels")
        path = self.folder / "pyproject.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def _command(self, source: Path) -> list[str]:
        lowest = min(self.row.pythons, key=lambda version: [int(part) for part in version.split(".")])
        where = ["--universal"] if self.universal else ["--python-platform", GLIBC]
        chosen = ["--python", sys.executable, "--python-version", lowest]
        return [str(self.uv), "pip", "compile", source.name, "--quiet", "--generate-hashes", *chosen, *where]

    def _wheelhouse(self, say: Say) -> dict[str, Path]:
        """Return the wheels that somebody put beside the lock by hand, by the package that they hold."""
        paths: dict[str, Path] = {}
        for path in sorted((self.row.folder / "wheels").glob("*.whl")):
            try:
                name, version, _, _ = parse_wheel_filename(path.name)
            except (InvalidWheelFilename, InvalidVersion) as error:
                raise Refusal(f"{path}: does not have a wheel's name ({error}); name it as the vendor does") from error
            row = self.vendor.get(canonicalize_name(name))
            if row is None or str(version) != row.version:
                say(f"{path} is not what stack.toml names; not used")
            elif paths.setdefault(name, path) != path:
                both = f"{paths[name].name} and {path.name} hold one package"
                raise Refusal(f"{path.parent}: {both}; keep the one for this stack's Python")
        return paths

    def _serves(self, row: Vendor) -> bool:
        source = self.folder / f"probe-{canonicalize_name(row.name)}.in"
        source.write_text(f"{row.pin}\n", encoding="utf-8")
        command = [*self._command(source), "--no-deps", "--default-index", row.index]
        return self._uv(command, PROBE_SECONDS, _QUICK).ok

    def _run(self, command: list[str]) -> None:
        ended = self._uv(command, RESOLVE_SECONDS, {})
        if ended.timed_out:
            why = f"uv found no answer within {RESOLVE_SECONDS} s"
            raise Refusal(f"{self.row.inputs}: {why}; see whether the package index can be reached")
        if not ended.ok:
            # Hints follow uv's own last words.
            lines = [line.strip() for line in ended.errors.partition("\nhint:")[0].splitlines() if line.strip()]
            why = lines[-1].removeprefix("cause: ") if lines else f"exit status {ended.code}"
            remedy = "change a range there, or [[vendor]] in stack.toml"
            raise Refusal(f"{self.row.inputs}: uv could not resolve it ({why}); {remedy}")

    def _uv(self, command: list[str], seconds: float, extra: dict[str, str]) -> processes.Ended:
        # A reason is one line, however long the paths in it.
        return processes.run(command, seconds=seconds, cwd=self.folder, environment={"UV_NO_WRAP": "1", **extra})

    def _text(self, kind: str, body: str, out_of_reach: Sequence[Vendor]) -> str:
        row, again = self.row, f"`nox -s lock -- {self.row.name}`"
        titles = [*_TITLES[kind], f"Made by {again}, never by hand."]
        if out_of_reach:
            titles += ["These wheels were out of reach here; name, version and source are exact:"]
            titles += [f"  {vendor.pin}  {vendor.index or vendor.file}" for vendor in out_of_reach]
            titles += [
                f"Where they can be reached, or with their files in stacks/{row.name}/wheels/, {again} adds the hashes."
            ]
        platform = _UNIVERSAL if self.universal else _LINUX
        header = {"stack": row.name, "kind": kind, "python": ", ".join(row.pythons), "platform": platform}
        return text_of(header, [head + rest for head, rest in entries(body)], *titles)


def _agree(stack: Stack, inputs: Iterable[Requirement]) -> None:
    """Refuse inputs and vendor rows that name different versions of one wheel."""
    rows = {canonicalize_name(row.name): row for row in stack.vendor}
    for asked in inputs:
        row = rows.get(canonicalize_name(asked.name))
        if row is None and is_vendor_build(asked):
            raise Refusal(f"{stack.inputs}: '{asked}' is a vendor's build; add its [[vendor]] row to stack.toml")
        if row is not None and not asked.specifier.contains(row.version, prereleases=True):
            raise Refusal(f"{stack.inputs}: asks for '{asked}' and stack.toml has {row.pin}; make the two agree")


def _preferences(old: Path, vendor: Iterable[str]) -> str:
    """Return the pins to keep; a lock that cannot be read keeps nothing."""
    try:
        pins = read(old).pins
    except Refusal:
        return ""
    return "".join(pin.text for pin in pins if pin.name not in vendor and not pin.unhashed)


def _slug(url: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", url.lower()).strip("-")

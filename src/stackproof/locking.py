"""Makes a stack's lock with uv: everything hashed that can be reached, the rest pinned by exact version and source.

Vendors' wheels lie on indexes that many machines cannot reach, or on none at all. For such a wheel a stand-in is
generated (metadata only: name, version, and what stack.toml says that the real one declares), so that everything
around it is a true resolution with true hashes; the stand-in's own hash never reaches the lock.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from . import locks, standins
from .errors import Refusal
from .stacks import Stack, Vendor

GLIBC = "x86_64-manylinux_2_28"
PROBE_SECONDS = 20
RESOLVE_SECONDS = 900

_QUICK = {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}
_ROOT = "requirements-in"  # the name that uv's "via" comments show for what the stack itself asks for

Say = Callable[[str], None]


def lock(stack: Stack, uv: Path, *, upgrade: bool = False, say: Say = print) -> list[Path]:
    """Write the stack's lock, and its rehearsal's where that differs; existing pins stay unless `upgrade`.

    Raises:
        Refusal: the inputs are broken or uv found no solution; the existing locks are untouched.
    """
    say(f"resolving {stack.inputs.parent.name}")
    wanted = requirements(stack.inputs)
    _agree(stack, wanted)
    with tempfile.TemporaryDirectory(prefix="stackproof-lock-") as folder:
        own = _Resolver(stack, uv, Path(folder), upgrade).stack(wanted, say)
        written = {stack.folder / "requirements.lock": own}
        if stack.rehearsal.substitutes:
            say(f"resolving the rehearsal of {stack.name}")
            rehearsed = _Resolver(stack, uv, Path(folder), upgrade).rehearsal(wanted, own)
            written[stack.folder / "rehearsal.lock"] = rehearsed
    for path, text in written.items():
        _replace(path, text)
    return list(written)


def requirements(path: Path) -> list[Requirement]:
    """Return what a `requirements.in` asks for; a name without a range is refused.

    Raises:
        Refusal: a line cannot be read, or names a package without a range.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: cannot be read ({error}); every stack needs one") from error
    found = [(number, line.partition(" #")[0].strip()) for number, line in enumerate(lines, 1)]
    return [_requirement(path, number, line) for number, line in found if line and not line.startswith("#")]


def stale(stack: Stack) -> list[str]:
    """Return what the lock no longer satisfies of `requirements.in`, one sentence each; needs no network."""
    held = locks.read(stack.lock)
    found = []
    for python in stack.pythons:
        environment = _environment(python)
        pins = held.expected(environment)
        for wanted in _asked(stack):
            if wanted.marker is not None and not wanted.marker.evaluate(environment):
                continue
            version = pins.get(canonicalize_name(wanted.name))
            if version is None:
                found.append(f"{stack.lock}: does not pin {wanted.name} for Python {python}")
            elif not wanted.specifier.contains(version, prereleases=True):
                found.append(f"{stack.lock}: pins {wanted.name} {version} and {stack.inputs.name} asks for {wanted}")
    return found


def _asked(stack: Stack) -> list[Requirement]:
    """Return what the lock in use must satisfy: a rehearsal has substitutes in place of the vendor's wheels."""
    wanted = requirements(stack.inputs)
    if stack.lock.name == "requirements.lock":
        return wanted
    # A rehearsed stack has no vendor rows left; those of its inputs carry a local version.
    companions = [row for row in wanted if not _local(row)]
    return companions + [Requirement(line) for line in stack.rehearsal.substitutes]


class _Resolver:
    """One stack's resolutions in one scratch folder."""

    def __init__(self, stack: Stack, uv: Path, folder: Path, upgrade: bool) -> None:
        self.row, self.uv, self.folder, self.upgrade = stack, uv, folder, upgrade
        self.vendor = {canonicalize_name(row.name): row for row in stack.vendor}
        self.universal = len(stack.pythons) > 1

    def stack(self, wanted: Sequence[Requirement], say: Say) -> str:
        """Return the text of `requirements.lock`."""
        wheels = {name: found for name, row in self.vendor.items() if (found := self._wheel(row))}
        reached = self._reached([row for name, row in self.vendor.items() if row.index and name not in wheels])
        out_of_reach = [row for name, row in self.vendor.items() if name not in wheels and row not in reached]
        for row in out_of_reach:
            say(f"{row.pin} cannot be had here; pinned without a hash")
        sources = [f'{name} = {{ path = "./wheels/{found.name}" }}' for name, found in wheels.items()]
        sources += [f'{canonicalize_name(row.name)} = {{ index = "{_index_name(row)}" }}' for row in reached]
        others = [str(row) for row in wanted if canonicalize_name(row.name) not in self.vendor]
        lines = others + [row.pin for row in self.vendor.values()]
        old = self.row.folder / "requirements.lock"
        body = self._compile(lines, sources, {row.index for row in reached}, out_of_reach, (), old)
        return self._text("stack", standins.without_hashes(body, out_of_reach), out_of_reach)

    def rehearsal(self, wanted: Sequence[Requirement], own: str) -> str:
        """Return the text of `rehearsal.lock`: substitutes for the vendor's wheels, the same companions."""
        substitutes = [Requirement(line) for line in self.row.rehearsal.substitutes]
        replaced = {canonicalize_name(row.name) for row in substitutes} | self.vendor.keys()
        others = [str(row) for row in wanted if canonicalize_name(row.name) not in replaced]
        path = self.folder / "own.lock"
        path.write_text(own, encoding="utf-8")
        same = [_pinned(pin) for pin in locks.read(path).pins if pin.name not in replaced]
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
        """Run uv on a generated project and return the lock's body."""
        project = self._project(lines, sources, indexes, same)
        output = self.folder / "output.txt"
        output.write_text("" if self.upgrade else _preferences(old, self.vendor), encoding="utf-8")
        command = [*self._command(project), "--output-file", str(output), "--annotation-style", "line"]
        command += ["--no-header", "--upgrade"] if self.upgrade else ["--no-header"]
        if out_of_reach:
            command += ["--find-links", str(standins.make(out_of_reach, self.folder / "standins"))]
        self._run(command)
        text = output.read_text(encoding="utf-8")
        return text.replace(f"{_ROOT} (pyproject.toml)", self.row.inputs.name)

    def _project(self, lines: Iterable[str], sources: Sequence[str], indexes: Iterable[str], same: Sequence[str]) -> Path:
        """Write the project that says which package comes from where; only a project can say that to uv."""
        text = f'[project]\nname = "{_ROOT}"\nversion = "0"\ndependencies = {_strings(lines)}\n'
        text += f"[tool.uv]\nconstraint-dependencies = {_strings(same)}\n"
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

    def _wheel(self, row: Vendor) -> Path | None:
        """Return the wheel that somebody put into the wheelhouse by hand."""
        stem = f"{row.name.replace('-', '_')}-{row.version}-"
        found = sorted(path for path in (self.row.folder / "wheels").glob("*.whl") if path.name.startswith(stem))
        if len(found) > 1:
            names = " and ".join(path.name for path in found)
            raise Refusal(f"{self.row.folder / 'wheels'}: holds {names} for one package; keep the one for this stack's Python")
        return found[0] if found else None

    def _reached(self, rows: Sequence[Vendor]) -> list[Vendor]:
        """Return the wheels that their index serves to this machine; asked all at once, so that a dead one costs little."""
        with ThreadPoolExecutor(max_workers=max(len(rows), 1)) as pool:
            return [row for row, there in zip(rows, pool.map(self._serves, rows), strict=True) if there]

    def _serves(self, row: Vendor) -> bool:
        source = self.folder / f"probe-{canonicalize_name(row.name)}.in"
        source.write_text(f"{row.pin}\n", encoding="utf-8")
        command = [*self._command(source), "--no-deps", "--default-index", row.index]
        try:
            asked = subprocess.run(
                command, cwd=self.folder, env={**os.environ, **_QUICK}, capture_output=True, timeout=PROBE_SECONDS
            )
        except subprocess.TimeoutExpired:
            return False
        return asked.returncode == 0

    def _run(self, command: list[str]) -> None:
        try:
            ended = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=RESOLVE_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise Refusal(
                f"{self.row.inputs}: uv found no answer within {RESOLVE_SECONDS} s; see whether the package index can be reached"
            ) from error
        except OSError as error:
            raise Refusal(f"{self.uv}: cannot be started ({error.strerror}); install uv") from error
        if ended.returncode:
            said = [line.strip() for line in ended.stderr.splitlines() if line.strip()] or [f"exit status {ended.returncode}"]
            raise Refusal(f"{self.row.inputs}: uv could not resolve it ({said[-1]}); change a range there, or [[vendor]] in stack.toml")

    def _text(self, kind: str, body: str, out_of_reach: Sequence[Vendor]) -> str:
        """Put our header above uv's text."""
        row = self.row
        again = f"nox -s lock -- {row.name}"
        where = "any (markers tell platforms and Pythons apart)" if self.universal else "linux x86_64, glibc 2.28 or newer"
        what = f"Rehearsal of stack '{row.name}' on {row.rehearsal.device}" if kind == "rehearsal" else f"Stack '{row.name}'"
        head = [f"{what}: what is installed, file by file. Made by `{again}`, never by hand."]
        if kind == "rehearsal":
            head += ["Upstream builds stand in for the vendor's; the companions are those of requirements.lock."]
        head += [f"stack: {row.name}", f"kind: {kind}", f"python: {', '.join(row.pythons)}", f"platform: {where}"]
        head += [f"packages: {standins.count(body)}", f"unhashed: {len(out_of_reach)}"]
        head += standins.explanation(row, out_of_reach, again) if out_of_reach else []
        head += [f"content: {locks.content_digest(body)}"]
        return "".join(f"# {line}\n" for line in head) + body


def _requirement(path: Path, number: int, line: str) -> Requirement:
    try:
        row = Requirement(line)
    except InvalidRequirement as error:
        raise Refusal(f"{path}:{number}: {line!r} is not a requirement; write a name and a range such as 'numpy>=2,<3'") from error
    if not row.specifier:
        raise Refusal(f"{path}:{number}: '{line}' names a package without a range; write one such as '{row.name}>=1,<2'")
    return row


def _agree(stack: Stack, wanted: Iterable[Requirement]) -> None:
    """Refuse inputs and vendor rows that name different versions of one wheel."""
    rows = {canonicalize_name(row.name): row for row in stack.vendor}
    for asked in wanted:
        row = rows.get(canonicalize_name(asked.name))
        if row is None and _local(asked):
            raise Refusal(f"{stack.inputs}: '{asked}' is a vendor's build and stack.toml has no [[vendor]] row for it; add one")
        if row is not None and not asked.specifier.contains(row.version, prereleases=True):
            raise Refusal(f"{stack.inputs}: asks for '{asked}' and stack.toml has [[vendor]] {row.pin}; make the two agree")


def _local(asked: Requirement) -> bool:
    return any("+" in part.version for part in asked.specifier)


def _preferences(old: Path, vendor: Iterable[str]) -> str:
    """Return the pins to keep; a lock that cannot be read keeps nothing."""
    try:
        pins = locks.read(old).pins
    except Refusal:
        return ""
    return "".join(pin.text for pin in pins if pin.name not in vendor and not pin.unhashed)


def _pinned(pin: locks.Pin) -> str:
    return pin.requirement + (f" ; {pin.marker}" if pin.marker else "")


def _environment(python: str) -> dict[str, str]:
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


def _strings(lines: Iterable[str]) -> str:
    """Write a TOML list of strings; JSON's escapes are valid there, and markers hold quotes of both kinds."""
    return json.dumps(list(lines))


def _slug(url: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", url.lower()).strip("-")


def _index_name(row: Vendor) -> str:
    return _slug(row.index)


def _replace(path: Path, text: str) -> None:
    """Write beside and rename: whatever happens, the old lock or the new one is there, whole."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); the old lock is unchanged") from error
    finally:
        Path(name).unlink(missing_ok=True)

"""Makes a stack's lock with uv: all hashed that can be reached, the rest pinned by exact version and source.

A vendor's wheel that cannot be reached is stood in for by its metadata, whose hash never reaches the lock.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from stackproof.base import processes
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.stack import lockfile
from stackproof.stack.lockfile import is_vendor_build, overrides, requirements
from stackproof.stack.stacks import Stack, Vendor

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
        row = stood_in.get(canonicalize_name(head.partition("==")[0]))
        if row is None:
            text += head + rest
            continue
        notes = "".join(f"{line}\n" for line in rest.splitlines() if "--hash=" not in line)
        text += f"{head.rstrip(BACKSLASH)}\n    # no hash yet, from {row.index or row.file}\n{notes}"
    return text


def explanation(stack: Stack, rows: Sequence[Vendor], again: str) -> list[str]:
    """Return the header's lines about wheels without a hash: which, where from, what completes them."""
    head = ["These wheels were out of reach here; name, version and source are exact:"]
    head += [f"  {row.pin}  {row.index or row.file}" for row in rows]
    if any(row.file for row in rows):
        where = f"stacks/{stack.name}/wheels/"
        head += [f"No index serves them: download them into {where}, then `{again}` adds the hashes."]
    else:
        head += [f"On a machine that reaches their source `{again}` adds the hashes."]
    return head


def entries(body: str) -> Iterator[tuple[str, str]]:
    """Yield each pin as its first line and the lines that belong to it."""
    head, rest = "", ""
    for line in body.splitlines(keepends=True):
        if line[:1].isspace() or line.startswith("#"):
            rest += line
            continue
        if head:
            yield head, rest
        head, rest = line, ""
    if head:
        yield head, rest


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
    assert not stack.rehearsed, "a rehearsal has no vendor rows left; its lock is made with the stack's own"
    say(f"resolving {stack.name}")
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
        try:
            write_atomically(path, text)
        except OSError as error:
            raise Refusal(f"{path}: cannot be written ({error.strerror}); the old lock is unchanged") from error
    return list(written)


class _Resolver:
    """One stack's resolutions in one scratch folder."""

    def __init__(self, stack: Stack, uv: Path, folder: Path, upgrade: bool) -> None:
        self.row, self.uv, self.folder, self.upgrade = stack, uv, folder, upgrade
        self.vendor = {canonicalize_name(row.name): row for row in stack.vendor}
        self.universal = len(stack.pythons) > 1

    def stack(self, wanted: Sequence[Requirement], say: Say) -> str:
        """Return the text of `requirements.lock`."""
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
        sources = [f'{name} = {{ path = "./wheels/{found.name}" }}' for name, found in wheels.items()]
        sources += [f'{canonicalize_name(row.name)} = {{ index = "{_slug(row.index)}" }}' for row in reached]
        others = [str(row) for row in wanted if canonicalize_name(row.name) not in self.vendor]
        lines = others + [row.pin for row in self.vendor.values()]
        old = self.row.folder / "requirements.lock"
        body = self._compile(lines, sources, {row.index for row in reached}, out_of_reach, (), old)
        return self._text("stack", without_hashes(body, out_of_reach), out_of_reach)

    def rehearsal(self, wanted: Sequence[Requirement], own: str) -> str:
        """Return the text of `rehearsal.lock`: substitutes for the vendor's wheels, the same companions."""
        substitutes = [Requirement(line) for line in self.row.rehearsal.substitutes]
        replaced = {canonicalize_name(row.name) for row in substitutes} | self.vendor.keys()
        others = [str(row) for row in wanted if canonicalize_name(row.name) not in replaced]
        path = self.folder / "own.lock"
        path.write_text(own, encoding="utf-8")
        same = [pin.marked for pin in lockfile.read(path).pins if pin.name not in replaced]
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

    def _via(self, said: re.Match[str]) -> str:
        """Say who asks for a package, without the scratch files that uv counts among them."""
        asking = [word for word in said[1].split(", ") if not word.startswith("-")]
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
        found: dict[str, Path] = {}
        for path in sorted((self.row.folder / "wheels").glob("*.whl")):
            try:
                name, version, _, _ = parse_wheel_filename(path.name)
            except (InvalidWheelFilename, InvalidVersion) as error:
                raise Refusal(f"{path}: does not have a wheel's name ({error}); name it as the vendor does") from error
            row = self.vendor.get(canonicalize_name(name))
            if row is None or str(version) != row.version:
                say(f"{path} is not what stack.toml names; not used")
            elif found.setdefault(name, path) != path:
                both = f"{found[name].name} and {path.name} hold one package"
                raise Refusal(f"{path.parent}: {both}; keep the one for this stack's Python")
        return found

    def _serves(self, row: Vendor) -> bool:
        """Whether its index serves a wheel here."""
        source = self.folder / f"probe-{canonicalize_name(row.name)}.in"
        source.write_text(f"{row.pin}\n", encoding="utf-8")
        command = [*self._command(source), "--no-deps", "--default-index", row.index]
        return self._uv(command, PROBE_SECONDS, _QUICK).ok

    def _run(self, command: list[str]) -> None:
        ended = self._uv(command, RESOLVE_SECONDS, {})
        if ended.timed_out:
            why = f"uv found no answer within {RESOLVE_SECONDS} s"
            raise Refusal(f"{self.row.inputs}: {why}; see whether the package index can be reached")
        if ended.code in (processes.NOT_FOUND, processes.NOT_EXECUTABLE):
            raise Refusal(f"{ended.errors}; install uv")
        if not ended.ok:
            remedy = "change a range there, or [[vendor]] in stack.toml"
            raise Refusal(f"{self.row.inputs}: uv could not resolve it ({_reason(ended)}); {remedy}")

    def _uv(self, command: list[str], seconds: float, extra: dict[str, str]) -> processes.Ended:
        # A reason is one line, however long the paths in it.
        return processes.run(command, seconds=seconds, cwd=self.folder, environment={"UV_NO_WRAP": "1", **extra})

    def _text(self, kind: str, body: str, out_of_reach: Sequence[Vendor]) -> str:
        """Put our header above uv's text."""
        row, again = self.row, f"nox -s lock -- {self.row.name}"
        head = [*_TITLES[kind], f"Made by `{again}`, never by hand."]
        head += [f"stack: {row.name}", f"kind: {kind}", f"python: {', '.join(row.pythons)}"]
        head += [f"platform: {_UNIVERSAL if self.universal else _LINUX}"]
        head += [f"packages: {sum(1 for _ in entries(body))}", f"unhashed: {len(out_of_reach)}"]
        head += explanation(row, out_of_reach, again) if out_of_reach else []
        head += [f"content: {lockfile.content_digest(body)}"]
        return "".join(f"# {line}\n" for line in head) + body


def _reason(ended: processes.Ended) -> str:
    """Return uv's own last words; hints follow the reason and are left out."""
    said = [line.strip() for line in ended.errors.partition("\nhint:")[0].splitlines() if line.strip()]
    return said[-1].removeprefix("cause: ") if said else f"exit status {ended.code}"


def _agree(stack: Stack, wanted: Iterable[Requirement]) -> None:
    """Refuse inputs and vendor rows that name different versions of one wheel."""
    rows = {canonicalize_name(row.name): row for row in stack.vendor}
    for asked in wanted:
        row = rows.get(canonicalize_name(asked.name))
        if row is None and is_vendor_build(asked):
            raise Refusal(f"{stack.inputs}: '{asked}' is a vendor's build; add its [[vendor]] row to stack.toml")
        if row is not None and not asked.specifier.contains(row.version, prereleases=True):
            raise Refusal(f"{stack.inputs}: asks for '{asked}' and stack.toml has {row.pin}; make the two agree")


def _preferences(old: Path, vendor: Iterable[str]) -> str:
    """Return the pins to keep; a lock that cannot be read keeps nothing."""
    try:
        pins = lockfile.read(old).pins
    except Refusal:
        return ""
    return "".join(pin.text for pin in pins if pin.name not in vendor and not pin.unhashed)


def _slug(url: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", url.lower()).strip("-")

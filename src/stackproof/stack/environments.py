"""Builds the environment of a stack from its lock with uv, and asv's own beside them; a second call reuses them. Runs under nox."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from packaging.utils import canonicalize_name

from stackproof.base import advice, files, places, processes
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError, answer
from stackproof.base.places import ROOT, source_for
from stackproof.base.text import counted, tail
from stackproof.base.toml import read_toml
from stackproof.stack import installed_files, lockfile, stacks
from stackproof.stack.stacks import Stack, Vendor, display_path

HOME = places.HOME / "stacks"
TOOLS = places.HOME / "tools"
STAMP, DAMAGED = places.STAMP.name, "damaged"
_UV = "uv>=0.9,<1"
ASV_HOME, JUDGES_HOME = TOOLS / "asv", TOOLS / "judges"
REQUIREMENTS = ROOT / "benchmarks" / "requirements.in"
PROJECT = ROOT / "pyproject.toml"
_JUDGES = "judges"
"""The group of pyproject.toml that the verbs need which compare: the statistics, and what shows a record."""
_TOOL_STAMP = "requirements.sha256"
"""Files that a refusal names at most."""

Say = Callable[[str], None]


def location(stack: Stack) -> Path:
    """Return where the stack's environment lives; a rehearsal with substitutes has one of its own, and so has each project's stack."""
    name = f"{stack.name}.rehearsal" if stack.substituted else stack.name
    theirs = not stack.folder.is_relative_to(places.STACKS)
    return HOME / (f"{name}-{hashlib.sha256(str(stack.folder).encode()).hexdigest()[:6]}" if theirs else name)


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def prepare(stack: Stack, say: Say = print) -> Path:
    """Return the interpreter of the stack's environment, built from the lock unless it already was.

    Raises:
        Refusal: the lock is broken, or a wheel cannot be had.
        StackUnavailableError: no interpreter of the stack's version is installed.
        EnvironmentMismatchError: a file does not have the hash that the lock gives it.
    """
    lock = lockfile.own(stack)
    environment = location(stack)
    if not _built(environment, lock):
        interpreter = find_interpreter(stack)
        try:
            with only_builder(environment):
                if not _built(environment, lock):  # another session may have done it while this one waited
                    _build(stack, lock, environment, interpreter, say)
        except OSError as error:
            remedy = f"free space, delete that folder, or make it one that can be written{places.ELSEWHERE}"
            what = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
            raise Refusal(f"{environment}: cannot be built ({what}); {remedy}") from error
    if not python_of(environment).is_symlink():
        raise EnvironmentMismatchError(
            f"MISMATCHED: {python_of(environment)} is not the link to Python that the build left; {advice.REBUILD}"
        )
    if places.INSTALLED:
        os.environ[places.SOURCE] = str(source_for(environment))
    return python_of(environment)


def _built(environment: Path, lock: lockfile.Lock) -> bool:
    """Whether it was built from this lock for this checkout; installed packages share what one of them built."""
    left = stamp(environment)
    whose = str(left.get("checkout", ""))
    shared = places.INSTALLED and bool(left.get("shared")) and Path(whose).is_dir()
    return left.get("lock_digest") == lock.digest and (whose == str(ROOT) or shared) and python_of(environment).exists()


def stamp(environment: Path) -> dict[str, object]:
    """Return what `prepare` left in an environment, lock digest first of all; empty for anybody else's, never for a damaged one."""
    if not (environment / STAMP).is_file():
        return {}
    value = files.try_read_json(environment / STAMP)
    return value if isinstance(value, dict) and value else {DAMAGED: True}


def find_interpreter(stack: Stack) -> Path:
    """Return an installed Python of a version that the stack names, the preferred one first."""
    for version in stack.pythons:
        for candidate in _candidates(version):
            if _is_python(candidate, version):
                return candidate
    versions, first = " or ".join(stack.pythons), stack.pythons[0]
    raise StackUnavailableError(
        f"stack '{stack.name}' needs Python {versions} and none is installed: looked on PATH, in pyenv's and "
        f"uv's folders; install one, as with `uv python install {first}` or `pyenv install {first}`"
    )


def version_of(stack: Stack) -> str:
    """Return the version of the Python that the stack's environment is built with, such as 3.12."""
    path = find_interpreter(stack)
    return next(version for version in stack.pythons if _is_python(path, version))


def find_uv(say: Say = print) -> Path:
    """Return uv: on PATH, beside this Python, or from an environment of our own that is made once."""
    beside = Path(sys.executable).parent / "uv"
    own = TOOLS / "bin" / "uv"
    for candidate in (shutil.which("uv"), beside, own):
        if candidate and _version(Path(candidate)):
            return Path(candidate)
    say(f"uv is not installed; getting it once into {TOOLS}")
    _make(TOOLS)
    _run([str(TOOLS / "bin" / "python"), "-m", "pip", "install", "--quiet", _UV], "cannot install uv")
    return own


def _make(environment: Path) -> None:
    """Make an environment with pip: nox brings virtualenv, Python venv, and either may be missing or crippled."""
    what = "cannot make an environment for uv"
    try:
        _run([sys.executable, "-m", "venv", str(environment)], what)
    except Refusal:
        if importlib.util.find_spec("virtualenv") is None:
            raise
        _run([sys.executable, "-m", "virtualenv", str(environment)], what)


def with_uv(say: Say = print) -> dict[str, str]:
    """Return the variables under which any process, also one of another tree, finds the uv that this one uses."""
    return {"PATH": os.pathsep.join((str(find_uv(say).parent), os.environ.get("PATH", os.defpath)))}


def _build(stack: Stack, lock: lockfile.Lock, environment: Path, interpreter: Path, say: Say) -> None:
    uv, pins = find_uv(say), lock.expected(lockfile.environment_of(version_of(stack)))
    source = f"{display_path(stack.lock)} ({counted(len(pins), 'package')})"
    say(f"building the environment of {stack.label} with {interpreter} from {source}")
    (environment / STAMP).unlink(missing_ok=True)
    made = [str(uv), "venv", "--quiet", "--clear", "--python", str(interpreter), str(environment)]
    _run(made, f"cannot create {environment}")
    _install(stack, lock, uv, environment)
    link_checkout(environment)
    left = installed_files.seals(site_packages(environment))
    if flawed := left[installed_files.FLAWED]:  # damage in uv's cache, or in the wheel itself (METADATA of IPEX 2.8.0)
        _install(stack, lock, uv, environment, anew={owner for owner, _ in flawed.values()})
        left = installed_files.seals(site_packages(environment))
    facts = {
        "stack": stack.name, "rehearsed": stack.rehearsed, "lock": stack.lock.name, "lock_digest": lock.digest,
        "checkout": str(ROOT), "shared": places.INSTALLED, "uv": _version(uv), **left,
    }  # fmt: skip
    (environment / STAMP).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _install(stack: Stack, lock: lockfile.Lock, uv: Path, environment: Path, anew: Collection[str] = ()) -> None:
    """Install the hashed part with `--require-hashes`, the rest by version; `anew`: these packages alone, from their source."""
    options = ["--python", str(python_of(environment)), "--no-deps", *(["--no-cache", "--reinstall"] if anew else [])]
    unhashed = {pin.name for pin in lock.unhashed}
    install, hashed = [str(uv), "pip", "install", *options], environment / "hashed.txt"
    hashed.write_text(lock.hashed_text(anew), encoding="utf-8")
    needed = [row for row in stack.vendor if canonicalize_name(row.name) not in unhashed]
    indexes = sorted({row.index for row in needed if row.index})
    also = f" (besides the package index it needs {', '.join(indexes)})" if indexes else ""
    if hashed.stat().st_size:
        whole = [*install, "--require-hashes", *_sources(needed), "--requirement", str(hashed)]
        _run(whole, f"{display_path(stack.lock)}: uv could not install it{also}", cwd=stack.folder)
    if vendor := lock.vendor_text(anew).splitlines():
        wheelhouse = ["--find-links", str(stack.folder / "wheels")] if (stack.folder / "wheels").is_dir() else []
        missing = ", ".join(pin.requirement for pin in lock.unhashed)
        rest = [*install, *_sources(stack.vendor), *wheelhouse, *vendor]
        _run(rest, f"wheels without a hash ({missing}) could not be had; {_where_from(stack)}")
    _own_sources(environment)


_EDITED = {".py", ".pem", ".json", ".toml", ".yaml", ".cfg", ".ini", ".pth", ".txt"}
"""What people and tools edit in place: a site's own certificate was once appended to certifi's in all environments and uv's cache."""


def _own_sources(environment: Path) -> None:
    """Copy these: an edit of a hard link would reach uv's cache (all links 2.4 s and 14 MiB, sources copied 16 s and 412, all 49 s)."""
    for path in environment.rglob("lib/**/*"):
        if path.suffix in _EDITED and path.is_file() and path.lstat().st_nlink > 1:
            copied = path.with_name(f"{path.name}.own")
            shutil.copy2(path, copied)
            copied.replace(path)


def _sources(rows: Iterable[Vendor]) -> list[str]:
    indexes = sorted({row.index for row in rows if row.index})
    # Every file is checked by its hash or its exact local version, so it may come from any index.
    strategy = ["--index-strategy", "unsafe-best-match"] if indexes else []
    return [word for index in indexes for word in ("--index", index)] + strategy


def _where_from(stack: Stack) -> str:
    if not stack.vendor:  # a lock of somebody's own
        return "no index that is asked has that version; correct it in the file that pins it"
    sources = ", ".join(sorted({row.index or row.file for row in stack.vendor}))
    place, again = display_path(stack.folder / "wheels"), advice.relock(stack.name, stack.folder)
    return f"check that {sources} can be reached, or put the wheels into {place}/, then {again} adds the hashes"


def link_checkout(environment: Path) -> None:
    """Make `python -m stackproof` work there without installing anything that the lock does not name."""
    source = str(source_for(environment))
    if places.INSTALLED:
        source = f"import os, sys; sys.path.append(os.environ.get({places.SOURCE!r}) or {source!r})"
    (site_packages(environment) / "stackproof.pth").write_text(f"{source}\n", encoding="utf-8")


def site_packages(environment: Path) -> Path:
    (path,) = environment.glob("lib/python3*/site-packages")
    return path


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", places.home() / ".pyenv")) / "versions"
    uv_data = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", places.home() / ".local" / "share" / "uv" / "python"))
    for place, pattern in (
        (pyenv, f"{version}*"),
        (uv_data, f"cpython-{version}*"),
        (Path("/opt/python"), f"cp{version.replace('.', '')}-*"),
    ):
        yield from reversed(files.sorted_matches(place, f"{pattern}/bin/python{version}"))
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == version:
        yield Path(getattr(sys, "_base_executable", sys.executable))


def _is_python(candidate: Path, version: str) -> bool:
    """A pyenv shim exists on PATH for versions that are not active: only running it tells."""
    asked = processes.run([candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], seconds=20)
    return asked.ok and asked.output.strip() == version


def _version(uv: Path) -> str:
    """Return what uv says of itself; nothing when it is absent or a version manager's idle shim."""
    asked = processes.run([uv, "--version"], seconds=60)
    return asked.output.strip() if asked.ok else ""


def _run(command: list[str], what: str, cwd: Path | None = None) -> None:
    """Run a builder, with its own progress on a terminal; if it fails, its last words go into the sentence."""
    if sys.stderr.isatty() and processes.run(command, seconds=math.inf, cwd=cwd, captured=False).ok:
        return
    ended = processes.run(command, seconds=math.inf, cwd=cwd)
    if ended.ok:
        return
    lines = [line.strip() for line in ended.errors.splitlines() if line.strip()]
    if mismatch := next((line for line in lines if "hash mismatch" in line.lower()), ""):
        text = f"{mismatch} / {' / '.join(lines[-2:])}"  # between them uv lists every hash that the lock has
        remedy = f"do not use it, re-pin with {advice.relock('NAME')} if the change is wanted"
        raise EnvironmentMismatchError(
            f"{what}: a file does not have the hash that the lock gives it ({text}); {remedy}"
        )
    raise Refusal(f"{what}: {tail(ended.errors, 4, most=2000)}{mirror_hint(ended.errors)}")


_UNREACHED = re.compile(
    r"(?i)error sending request|dns error|failed to lookup|name resolution|could not connect|connection (refused|reset|timed out|error)"
    r"|timed out|failed to fetch|network is unreachable|network connectivity is disabled|certificate|no route to host|tunnel|proxy"
)
_GONE = re.compile(r"\b(404|410)\b")


def unreached(text: str) -> bool:
    """Whether an installer could not reach its index, which says nothing of what was asked for; a file that is gone is another matter."""
    return _UNREACHED.search(text) is not None and not _GONE.search(text)


def mirror_hint(text: str) -> str:
    """Return what to do where an installer could not reach its index; nothing where that is not the trouble."""
    if not _UNREACHED.search(text):
        return ""
    mirror = "name a mirror: UV_DEFAULT_INDEX for uv, PIP_INDEX_URL for pip"
    return f"; if the index cannot be reached from here, {mirror} ({places.page('start.md')})"


def prepare_asv(say: Say = print) -> Path:
    """Return the interpreter of asv's environment, made unless it is there and its requirements are the same."""
    content = b"\0".join((REQUIREMENTS.read_bytes(), PROJECT.read_bytes()))
    return _tool(ASV_HOME, "asv's environment", ["-r", str(REQUIREMENTS), "-r", str(PROJECT)], content, say)


def prepare_judges(say: Say = print) -> Path:
    """Return the interpreter of the environment in which variants are compared, made once for all stacks."""
    packages = list(read_toml(PROJECT)["dependency-groups"][_JUDGES])
    return _tool(JUDGES_HOME, "the environment that compares variants", packages, "\n".join(packages).encode(), say)


def _tool(home: Path, what: str, packages: list[str], content: bytes, say: Say) -> Path:
    """Return the interpreter of a tool's environment, made anew where `content`, this Python or this checkout is another."""
    python = python_of(home)
    digest = hashlib.sha256(b"\0".join((content, sys.version.encode(), str(ROOT).encode()))).hexdigest()
    with only_builder(home):
        stamp = home / _TOOL_STAMP
        if not (python.exists() and stamp.is_file() and stamp.read_text(encoding="utf-8") == digest):
            say(f"building {what}")
            uv, why = str(find_uv(say)), f"{home}: {what} cannot be made"
            _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)], why)
            _run([uv, "pip", "install", "--quiet", "--python", str(python), *packages], why)
            link_checkout(home)
            stamp.write_text(digest, encoding="utf-8")
    return python


def only_builder(environment: Path) -> AbstractContextManager[None]:
    """Let two sessions that want one environment build it one after the other."""
    return files.locked(environment.with_name(f"{environment.name}.building"))


if __name__ == "__main__":  # STACK [--rehearsed]: build it and print its interpreter; for trees of other commits
    sys.exit(answer(lambda: prepare(stacks.load(sys.argv[1], rehearsed="--rehearsed" in sys.argv), say=lambda _: None)))

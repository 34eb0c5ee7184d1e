"""Builds the environment of a stack from its lock with uv, and asv's own beside them; a second call reuses them. Runs under nox."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from packaging.utils import canonicalize_name

from stackproof.base import advice, files, places
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.base.places import ROOT, source_for
from stackproof.base.text import tail
from stackproof.base.toml import read_toml
from stackproof.stack import installed_files, lockfile
from stackproof.stack.stacks import Stack, Vendor, told

HOME = places.HOME / "stacks"
TOOLS = places.HOME / "tools"
STAMP, DAMAGED = "stackproof.json", "damaged"
_UV = "uv>=0.9,<1"

Say = Callable[[str], None]


def location(stack: Stack) -> Path:
    """Return where the stack's environment lives; a rehearsal with substitutes has one of its own."""
    return HOME / (stack.name if stack.lock.name == "requirements.lock" else f"{stack.name}.rehearsal")


def python_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return environment / "bin" / "python"


def prepare(stack: Stack, say: Say = print) -> Path:
    """Return the interpreter of the stack's environment, built from the lock unless it already was.

    Raises:
        Refusal: the lock is broken, or a wheel cannot be had.
        StackUnavailableError: no interpreter of the stack's version is installed.
        EnvironmentMismatchError: a file does not have the hash that the lock gives it.
    """
    lock = lockfile.read(stack.lock)
    environment = location(stack)
    if not _built(environment, lock):
        interpreter = find_interpreter(stack)
        try:
            with only_builder(environment):
                if not _built(environment, lock):  # another session may have done it while this one waited
                    _build(stack, lock, environment, interpreter, say)
        except OSError as error:
            raise Refusal(
                f"{environment}: cannot be built ({error.strerror}); free space or make the folder writable{places.ELSEWHERE}"
            ) from error
    if places.INSTALLED:
        os.environ[places.SOURCE] = str(source_for(environment))
    return python_of(environment)


def _built(environment: Path, lock: lockfile.Lock) -> bool:
    """Whether it was built from this lock for this checkout: a copied one would run the other's code.

    Installations share what one of them built, and name their own code to what they start.
    """
    left = stamp(environment)
    whose = str(left.get("checkout", ""))
    shared = places.INSTALLED and bool(left.get("shared")) and Path(whose).is_dir()
    return left.get("lock_digest") == lock.digest and (whose == str(ROOT) or shared) and python_of(environment).exists()


def stamp(environment: Path) -> dict[str, object]:
    """Return what `prepare` left in an environment, lock digest first of all; empty for anybody else's, never for a damaged one."""
    if not (environment / STAMP).is_file():
        return {}
    with suppress(OSError, ValueError, RecursionError):
        if isinstance(found := json.loads((environment / STAMP).read_text(encoding="utf-8")), dict) and found:
            return found
    return {DAMAGED: True}


def find_interpreter(stack: Stack) -> Path:
    """Return an installed Python of a version that the stack names, the preferred one first."""
    for version in stack.pythons:
        for candidate in _candidates(version):
            if _is_python(candidate, version):
                return candidate
    wanted, first = " or ".join(stack.pythons), stack.pythons[0]
    raise StackUnavailableError(
        f"stack '{stack.name}' needs Python {wanted} and none is installed: looked on PATH, in pyenv's and "
        f"uv's folders; install one, as with `uv python install {first}` or `pyenv install {first}`"
    )


def version_of(stack: Stack) -> str:
    """Return the version of the Python that the stack's environment is built with, such as 3.12."""
    found = find_interpreter(stack)
    return next(version for version in stack.pythons if _is_python(found, version))


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
    try:
        _run([sys.executable, "-m", "venv", str(environment)], "cannot make an environment for uv")
    except Refusal:
        if importlib.util.find_spec("virtualenv") is None:
            raise
        _run([sys.executable, "-m", "virtualenv", str(environment)], "cannot make an environment for uv")


def with_uv(say: Say = print) -> dict[str, str]:
    """Return the variables under which any process, also one of another tree, finds the uv that this one uses."""
    return {"PATH": os.pathsep.join((str(find_uv(say).parent), os.environ.get("PATH", os.defpath)))}


def _build(stack: Stack, lock: lockfile.Lock, environment: Path, interpreter: Path, say: Say) -> None:
    uv = find_uv(say)
    say(
        f"building the environment of {stack.label} with {interpreter} "
        f"from {told(stack.lock)} ({len(lock.pins)} packages)"
    )
    (environment / STAMP).unlink(missing_ok=True)
    _run(
        [str(uv), "venv", "--quiet", "--clear", "--python", str(interpreter), str(environment)],
        f"cannot create {environment}",
    )
    _sync(stack, lock, uv, environment)
    link_checkout(environment)
    facts = {
        "stack": stack.name,
        "rehearsed": stack.rehearsed,
        "lock": stack.lock.name,
        "lock_digest": lock.digest,
        "checkout": str(ROOT),
        "shared": places.INSTALLED,
        "uv": _version(uv),
        **installed_files.seals(site_packages(environment), installed_files.shared_store(environment)),
    }
    (environment / STAMP).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _sync(stack: Stack, lock: lockfile.Lock, uv: Path, environment: Path) -> None:
    """Install the hashed part with `--require-hashes`; wheels without a hash follow by exact version."""
    python = ["--python", str(python_of(environment))]
    unhashed = {pin.name for pin in lock.unhashed}
    hashed = environment / "hashed.txt"
    hashed.write_text(lock.hashed_text(), encoding="utf-8")
    needed = [row for row in stack.vendor if canonicalize_name(row.name) not in unhashed]
    indexes = sorted({row.index for row in needed if row.index})
    also = f" (besides the package index it needs {', '.join(indexes)})" if indexes else ""
    where = f"{told(stack.lock)}: uv could not install it{also}"
    _run(
        [str(uv), "pip", "sync", *python, "--require-hashes", *_sources(needed), str(hashed)],
        where,
        cwd=stack.folder,
    )
    vendor = lock.vendor_text().splitlines()
    if vendor:
        wheelhouse = ["--find-links", str(stack.folder / "wheels")] if (stack.folder / "wheels").is_dir() else []
        missing = ", ".join(pin.requirement for pin in lock.unhashed)
        remedy = f"vendor wheels {missing} could not be had; {_where_from(stack)}"
        _run(
            [str(uv), "pip", "install", *python, "--no-deps", *_sources(stack.vendor), *wheelhouse, *vendor],
            remedy,
        )


def _sources(rows: Iterable[Vendor]) -> list[str]:
    """Name the indexes that serve these wheels; one that serves none is not asked, it may be out of reach."""
    indexes = sorted({row.index for row in rows if row.index})
    # Every file is checked by its hash or its exact local version, so it may come from any index.
    strategy = ["--index-strategy", "unsafe-best-match"] if indexes else []
    return [word for index in indexes for word in ("--index", index)] + strategy


def _where_from(stack: Stack) -> str:
    again = advice.relock(stack.name, stack.folder)
    by_hand = [row.file for row in stack.vendor if row.file]
    if by_hand:
        others = f" and {len(by_hand) - 1} more in stack.toml" if by_hand[1:] else ""
        return f"download them by hand into {told(stack.folder / 'wheels')}/ ({by_hand[0]}{others}), then {again}"
    indexes = ", ".join(sorted({row.index for row in stack.vendor}))
    return f"check that {indexes} can be reached, then {again} completes the hashes"


def link_checkout(environment: Path) -> None:
    """Make `python -m stackproof` work there without installing anything that the lock does not name."""
    source = str(source_for(environment))
    if places.INSTALLED:
        source = f"import os, sys; sys.path.append(os.environ.get({places.SOURCE!r}) or {source!r})"
    (site_packages(environment) / "stackproof.pth").write_text(f"{source}\n", encoding="utf-8")


def site_packages(environment: Path) -> Path:
    """Return the folder of an environment's packages."""
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


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
        yield from reversed(files.matching(place, f"{pattern}/bin/python{version}"))
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == version:
        yield Path(getattr(sys, "_base_executable", sys.executable))


def _is_python(candidate: Path, version: str) -> bool:
    """A pyenv shim exists on PATH for versions that are not active: only running it tells."""
    try:
        asked = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0 and asked.stdout.strip() == version


def _version(uv: Path) -> str:
    """Return what uv says of itself; nothing when it is absent or a version manager's idle shim."""
    try:
        return subprocess.run(
            [uv, "--version"], capture_output=True, text=True, errors="replace", check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _run(command: list[str], what: str, cwd: Path | None = None) -> None:
    """Run a builder, with its own progress on a terminal; if it fails, its last words go into the sentence."""
    if sys.stderr.isatty() and subprocess.run(command, cwd=cwd, check=False).returncode == 0:
        return
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", cwd=cwd, check=False)
    if ended.returncode == 0:
        return
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    if mismatch := next((line for line in lines if "hash mismatch" in line.lower()), ""):
        said = f"{mismatch} / {' / '.join(lines[-2:])}"  # between them uv lists every hash that the lock has
        remedy = f"do not use it, re-pin with {advice.relock('NAME')} if the change is wanted"
        raise EnvironmentMismatchError(
            f"{what}: a file does not have the hash that the lock gives it ({said}); {remedy}"
        )
    raise Refusal(f"{what}: {tail(ended.stderr, 4, most=2000)}{mirror_hint(ended.stderr)}")


_UNREACHED = re.compile(
    r"(?i)error sending request|dns error|failed to lookup|name resolution|could not connect|connection (refused|reset|timed out|error)"
    r"|timed out|failed to fetch|network is unreachable|network connectivity is disabled|certificate|no route to host|tunnel|proxy"
)


_GONE = re.compile(r"\b(404|410)\b")


def unreached(said: str) -> bool:
    """Whether an installer could not reach its index, which says nothing of what was asked for; a file that is gone is another matter."""
    return _UNREACHED.search(said) is not None and not _GONE.search(said)


def mirror_hint(said: str) -> str:
    """Return what to do where an installer could not reach its index; nothing where that is not the trouble."""
    if not _UNREACHED.search(said):
        return ""
    mirror = "name a mirror: UV_DEFAULT_INDEX for uv, PIP_INDEX_URL for pip"
    return f"; if the index cannot be reached from here, {mirror} ({places.page('start.md')})"


def only_builder(environment: Path) -> AbstractContextManager[None]:
    """Let two sessions that want one environment build it one after the other."""
    return files.locked(environment.with_name(f"{environment.name}.building"))


def main(arguments: list[str]) -> int:
    """`python -m stackproof.stack.environments STACK [--rehearsed]`: build it and print its interpreter; for trees of other commits."""
    from stackproof.stack import stacks

    stack = stacks.load(arguments[0])
    try:
        print(prepare(stack.rehearse() if "--rehearsed" in arguments else stack, say=lambda _: None))  # noqa: T201
    except Refusal as refusal:
        print(refusal, file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    return 0


ASV_HOME = TOOLS / "asv"
REQUIREMENTS = ROOT / "benchmarks" / "requirements.in"
PROJECT = ROOT / "pyproject.toml"
_STAMP = "requirements.sha256"


def prepare_asv(say: Say = print) -> Path:
    """Return the interpreter of asv's environment, made unless it is there and its requirements are the same.

    Raises:
        Refusal: it cannot be made.
    """
    python = python_of(ASV_HOME)
    digest = _digest()
    with only_builder(ASV_HOME):
        if not (python.exists() and _read(ASV_HOME / _STAMP) == digest):
            _build_asv(python, say)
            (ASV_HOME / _STAMP).write_text(digest, encoding="utf-8")
    return python


def _digest() -> str:
    content = b"\0".join((REQUIREMENTS.read_bytes(), PROJECT.read_bytes(), sys.version.encode(), str(ROOT).encode()))
    return hashlib.sha256(content).hexdigest()


def _build_asv(python: Path, say: Say) -> None:
    say(f"building asv's own environment from {REQUIREMENTS.relative_to(ROOT)}")
    uv = find_uv(say)
    what = f"{ASV_HOME}: asv's environment"
    _run_tool([str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(ASV_HOME)], what)
    wanted = ["-r", str(REQUIREMENTS), "-r", str(PROJECT)]
    _run_tool([str(uv), "pip", "install", "--quiet", "--python", str(python), *wanted], what)
    link_checkout(ASV_HOME)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _run_tool(command: list[str], what: str) -> None:
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    if ended.returncode:
        hint = mirror_hint(ended.stderr)
        raise Refusal(f"{what} cannot be made: {tail(ended.stderr, 4, most=2000)}{hint}")


JUDGES_HOME = TOOLS / "judges"
_JUDGES = "judges"
"""The group of pyproject.toml that the verbs need which compare: the statistics, and what shows a record."""


def prepare_judges(say: Say = print) -> Path:
    """Return the interpreter of the environment in which variants are compared, made once for all stacks.

    Raises:
        Refusal: it cannot be made.
    """
    python, wanted = python_of(JUDGES_HOME), list(read_toml(PROJECT)["dependency-groups"][_JUDGES])
    digest = hashlib.sha256("\n".join((*wanted, sys.version, str(ROOT))).encode()).hexdigest()
    with only_builder(JUDGES_HOME):
        if not (python.exists() and _read(JUDGES_HOME / _STAMP) == digest):
            say("building the environment that compares variants")
            uv, what = str(find_uv(say)), f"{JUDGES_HOME}: the environment that compares variants"
            _run_tool([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(JUDGES_HOME)], what)
            _run_tool([uv, "pip", "install", "--quiet", "--python", str(python), *wanted], what)
            link_checkout(JUDGES_HOME)
            (JUDGES_HOME / _STAMP).write_text(digest, encoding="utf-8")
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a gate compares: a variant is a checkout with this harness and its own stacks, locks, fixtures and workloads.

Each variant is laid out as a tree below `.nox/gates/`: the harness of this checkout, so that both sides are
measured alike, and from the commit that was asked for everything that is compared. The tree builds its environment like any checkout.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import ROOT, environments, stacks
from ..errors import EnvironmentMismatchError, Refusal, suggestion
from .live import Seat

HOME = ROOT / ".nox" / "gates"
_COMPARED = ("stacks", "fixtures", "src/stackproof/workloads")
_LEFT_OUT = ("results", "docs", "tests")


@dataclass(frozen=True)
class Variant:
    """One side as it was asked for; everything that is empty is as in this checkout.

    `commit`: a revision of this repository; `lock`: a file in place of the stack's lock; `sources`: packages
    replaced by a checkout; `environment`: variables; `record`: a stored record in place of a live side.
    """

    name: str
    commit: str = ""
    lock: Path | None = None
    sources: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    record: Path | None = None

    @property
    def label(self) -> str:
        """Say in a few words what this side is."""
        parts = [self.commit or "this checkout"]
        parts += [f"lock {self.lock}"] if self.lock else []
        parts += [f"{package} from {path}" for package, path in self.sources.items()]
        parts += [f"{name}={value}" for name, value in self.environment.items()]
        return str(self.record) if self.record else ", ".join(parts)


def assignments(words: Sequence[str], flag: str) -> dict[str, str]:
    """Read `NAME=VALUE` words of a flag; anything else is refused with an example."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise Refusal(f"{flag} '{word}' is not of the form NAME=VALUE; write for instance {flag} NCCL_PROTO=Simple")
        found[name.strip()] = value
    return found


def sources(words: Sequence[str], flag: str) -> dict[str, Path]:
    """Read `PACKAGE=PATH` words; the path must be a Python project."""
    found = {}
    for package, place in assignments(words, flag).items():
        path = Path(place).expanduser().resolve()
        if not any((path / file).exists() for file in ("pyproject.toml", "setup.py")):
            raise Refusal(f"{flag} {package}={place}: {path} holds no pyproject.toml and no setup.py; name a checkout")
        found[package] = path
    return found


def seat(variant: Variant, stack: stacks.Stack, profile: str, device: str, say: environments.Say) -> Seat:
    """Lay out the variant's tree, build and prove its environment, and return where its side runs.

    Raises:
        Refusal: the commit, the lock or a source cannot be used; the sentence names it.
    """
    tree = _tree(variant, stack)
    python = _prepare(tree, stack, say)
    _prove(python, tree, stack, say)
    for package, path in variant.sources.items():
        _override(python, tree, package, path, say)
    return Seat(
        variant.name, python, tree / "src", variant.environment, stack.name, stack.rehearsed, profile, device
    )  # fmt: skip


def here(variant: Variant, stack: stacks.Stack, profile: str, device: str) -> Seat:
    """Return a seat in this interpreter's own environment, for a vendor's container; only variables can differ there."""
    if variant.commit or variant.lock or variant.sources:
        raise Refusal(f"{variant.name}: --unpinned compares variables only; run without it to compare {variant.label}")
    source = ROOT / "src"
    python = Path(sys.executable)
    return Seat(variant.name, python, source, variant.environment, stack.name, stack.rehearsed, profile, device)


def _tree(variant: Variant, stack: stacks.Stack) -> Path:
    """Return the folder of the variant: this checkout itself if nothing of its files differs."""
    if not (variant.commit or variant.lock or variant.sources):
        return ROOT
    digest = hashlib.sha256(f"{_resolved(variant.commit)}|{variant.lock}|{variant.label}".encode()).hexdigest()[:10]
    tree = HOME / f"{variant.name}-{digest}"
    _lay_harness(tree)
    if variant.commit:
        _overlay(tree, variant.commit)
    if variant.lock:
        _replace_lock(tree, stack, variant.lock)
    return tree


def _lay_harness(tree: Path) -> None:
    """Copy this checkout's files, local changes included; what it keeps from an earlier gate is its environment."""
    for old in tree.glob("*"):
        if old.name != ".nox":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    for name in filter(None, listed):
        if not name.startswith(_LEFT_OUT) and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def _overlay(tree: Path, commit: str) -> None:
    """Replace what is compared by the commit's; a folder that it did not have yet stays as it is here."""
    revision = _resolved(commit)
    for folder in _COMPARED:
        if not _git("ls-tree", "--name-only", revision, folder):
            continue
        shutil.rmtree(tree / folder, ignore_errors=True)
        for name in filter(None, _git("ls-tree", "-r", "--name-only", "-z", revision, folder).split("\0")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(_git_bytes("show", f"{revision}:{name}"))
    _keep_new_tables(tree)


def _keep_new_tables(tree: Path) -> None:
    """Give the harness the tables that it reads and the commit does not have yet."""
    for path in (ROOT / "fixtures").glob("*.toml"):
        if not (tree / "fixtures" / path.name).exists():
            shutil.copy2(path, tree / "fixtures" / path.name)


def _replace_lock(tree: Path, stack: stacks.Stack, lock: Path) -> None:
    if not lock.is_file():
        raise Refusal(f"{lock}: there is no such lock; name a file made by `nox -s lock -- {stack.name}`")
    shutil.copy2(lock, tree / stack.lock.relative_to(ROOT))


def _prepare(tree: Path, stack: stacks.Stack, say: environments.Say) -> Path:
    """Let the tree build and prove its environment with its own tables."""
    if tree == ROOT:
        return environments.prepare(stack, say)
    words = [stack.name, *(["--rehearsed"] if stack.rehearsed else [])]
    ended = subprocess.run(
        [sys.executable, "-m", "stackproof.environments", *words],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        raise Refusal(f"{tree.name}: its environment cannot be built: {said[-1] if said else 'it said nothing'}")
    say(f"{tree.name}: environment ready")
    return Path(ended.stdout.strip().splitlines()[-1])


def _prove(python: Path, tree: Path, stack: stacks.Stack, say: environments.Say) -> None:
    """Hold the environment against its lock, before a source goes over it; the interpreter that is proved does it."""
    words = [stack.name, *(["--rehearsed"] if stack.rehearsed else [])]
    ended = subprocess.run(
        [str(python), "-m", "stackproof.proof", *words],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if ended.returncode:
        raise EnvironmentMismatchError(f"{tree.name}: {(ended.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    say(f"{tree.name}: {ended.stdout.strip()}")


def _override(python: Path, tree: Path, package: str, path: Path, say: environments.Say) -> None:
    """Install a checkout over the lock, without its dependencies: the lock stays what decides about those."""
    known = {pin.name for pin in environments.locks.read(_only_lock(tree, python)).pins}
    if package not in known:
        raise Refusal(f"'{package}' is not in the lock{suggestion(package, known)}; name a package that the stack has")
    (python.parent.parent / environments.STAMP).unlink(missing_ok=True)  # it is no longer its lock: rebuilt next time
    command = [
        str(environments.find_uv(say)),
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--python",
        str(python),
        str(path),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if ended.returncode:
        raise Refusal(
            f"{package} from {path} cannot be installed: {' / '.join(ended.stderr.strip().splitlines()[-3:])}"
        )
    say(f"{tree.name}: {package} from {path}")


def _only_lock(tree: Path, python: Path) -> Path:
    stamp = environments.stamp(python.parent.parent)
    return tree / "stacks" / str(stamp["stack"]) / str(stamp["lock"])


def _resolved(commit: str) -> str:
    if not commit:
        return ""
    try:
        return _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").strip()
    except Refusal:
        raise Refusal(
            f"'{commit}' is no commit, branch or tag of this repository; `git fetch` it, or check its name"
        ) from None


def _git(*arguments: str) -> str:
    return _git_bytes(*arguments).decode("utf-8", errors="surrogateescape")


def _git_bytes(*arguments: str) -> bytes:
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise Refusal("git is not installed, and comparing commits needs it; install git") from None
    except subprocess.CalledProcessError as error:
        raise Refusal(f"git {arguments[0]} failed: {error.stderr.decode(errors='replace').strip()}") from error

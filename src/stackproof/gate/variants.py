"""What a gate compares: a variant is a checkout with this harness and its own stacks, locks, fixtures and workloads.

Each variant is laid out as a tree below `.nox/gates/`: the harness of this checkout, so that both sides are
measured alike, and from the commit that was asked for everything that is compared (`data/gate.toml`, `compared`). The tree
builds its environment like any checkout; where its lock is this checkout's to the byte, the environment that is there is proved and used.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stackproof.base import advice, files, git, places, processes
from stackproof.base.errors import EnvironmentMismatchError, Refusal, suggestion
from stackproof.base.places import ROOT, require_checkout
from stackproof.base.text import tail
from stackproof.gate import plan
from stackproof.gate.interleave import SideSpec
from stackproof.jobs.metrics import Metric
from stackproof.project import projects
from stackproof.record.writer import Outputs
from stackproof.stack import environments, findings, installed_files, lockfile, stacks
from stackproof.stack.variables import Level

HOME = places.HOME / "gates"
_SAFE: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
_NAMED = re.compile(r"[A-Za-z_][\w.-]*")
_MOST_SAID = 2500
"""Characters of what a builder says: the cause stands behind a command with all its words."""
_WHEELS = "wheels"
_LEFT_OUT = ("results", "docs", "tests")


@dataclass(frozen=True)
class Variant:
    """One side as it was asked for; everything that is empty is as in this checkout.

    `lock`: a file in place of the stack's; `sources`: packages replaced by a checkout; `drill`: a planted fault; `folder`: of a command.
    """

    name: str
    commit: str = ""
    lock: Path | None = None
    sources: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    drill: str = ""
    folder: Path | None = None

    @property
    def label(self) -> str:
        """Say in a few words what this side is."""
        parts = [self.commit or str(self.folder or here())]
        parts += [f"lock {self.lock}"] if self.lock else []
        parts += [f"{package} from {path}" for package, path in self.sources.items()]
        parts += [f"{name}={value}" for name, value in self.environment.items()]
        parts += [f"DRILL {self.drill}"] if self.drill else []
        return ", ".join(parts)


@dataclass(frozen=True)
class CompareRequest:
    """What gate, sweep and bisect have in common: where, what, and for how long; all that a sweep is asked but its settings."""

    stack: str = ""
    rehearsed: bool = False
    unpinned: Path | None = None
    """The interpreter of both sides, where it is in an environment that is not ours."""
    profile: str = ""
    """Empty for the one that suits the device."""
    only: tuple[str, ...] = ()
    device: str = ""
    minutes: float = 10.0
    deadline_scale: float = 1.0
    accept_changed: bool = False
    go_on: bool = False
    """Whether times are asked on where something exact is worse already."""
    exact: bool = False
    """Whether nothing is timed, and what has no noise alone is judged."""
    outputs: Outputs = field(default_factory=Outputs)


@dataclass(frozen=True)
class GateRequest(CompareRequest):
    """Two variants of a stack; `same`: equal ones are meant."""

    base: Variant = field(default_factory=lambda: Variant("base"))
    head: Variant = field(default_factory=lambda: Variant("head"))
    same: bool = False
    allow_inconclusive: bool = False


@dataclass(frozen=True)
class CommandGateRequest(GateRequest):
    """A command of the user's own; of its sides commit, folder and variables count."""

    words: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    figures: tuple[Metric, ...] = ()
    within: float = 0.0
    """Relative difference that figures may have."""
    effect: float | None = None
    """Relative difference of a metric that counts; none for the one that suits the device."""
    deadline: float = 3600.0
    """Seconds that the first launch of a side may take."""
    counters: bool = True


def here() -> str:
    """Return how people call what has no commit: their project, our checkout, or the package that they installed."""
    if project := projects.current():
        return f"{project.name} as it is"
    return "the installed stackproof" if places.INSTALLED else "this checkout"


def assignments(
    words: Sequence[str], flag: str, form: str = "NAME=VALUE", example: str = "NCCL_PROTO=Simple"
) -> dict[str, str]:
    """Read `NAME=VALUE` words of a flag; anything else is refused with an example."""
    for word in words:
        if "=" not in word or not _NAMED.fullmatch(word.partition("=")[0].strip()):
            raise Refusal(f"{flag} '{word}' is not of the form {form}; write for instance {flag} {example}")
    values = dict[str, str]()
    for name, _, value in (word.partition("=") for word in words):
        if values.setdefault(name.strip(), value) != value:
            raise Refusal(f"{flag} gives {name.strip()} two values, and only one can be meant; give it once")
    return values


def require_known(environment: Mapping[str, str], flag: str) -> None:
    """Refuse a variable that nobody reads because it is a letter or two away from one that somebody does, and a value that cannot be."""
    for slip in findings.examine(environment):
        if slip.misspelt:
            raise Refusal(f"{flag} {slip.variables[0]}: {slip.sentence}; with this one nothing would differ")
        if slip.level is Level.PROBLEM:
            raise Refusal(f"{flag}: {slip.sentence}; give another value, or leave it out")


def sources(words: Sequence[str], flag: str) -> dict[str, Path]:
    """Read `PACKAGE=PATH` words; the path must be a Python project."""
    paths = {}
    for package, place in assignments(words, flag, "PACKAGE=PATH", "ultralytics=/src/ultralytics").items():
        path = files.expand_user(place).resolve()
        if not any((path / file).exists() for file in ("pyproject.toml", "setup.py")):
            raise Refusal(f"{flag} {package}={place}: {path} holds no pyproject.toml and no setup.py; name a checkout")
        paths[package] = path
    return paths


def prepared(variant: Variant, stack: stacks.Stack, profile: str, device: str, say: environments.Say) -> SideSpec:
    """Lay out the variant's tree, build and prove its environment, and return where its side runs.

    Raises:
        Refusal: the commit, the lock or a source cannot be used; the sentence names it.
    """
    tree = _tree(variant, stack)
    try:
        python = _prepare(tree, variant, stack, say)
    except Refusal as refusal:
        instead = "to compare commits and variables in an environment that is there, add --unpinned PYTHON"
        raise type(refusal)(f"{refusal}; {instead}") from refusal
    # Before a source goes over it; the interpreter that is proved does it.
    ended = _run(python, "environment_proof", tree, stack)
    if not ended.ok:
        raise EnvironmentMismatchError(f"{variant.name}: {tail(ended.errors)}")
    proof = ended.output.strip()
    say(f"{variant.name}: {proof}")
    for package, path in variant.sources.items():
        _override(python, tree, stack, package, path, say)
        say(f"{variant.name}: {package} from {path}")
        digest = installed_files.digest_of(environments.site_packages(python.parent.parent), package)
        proof += f"; then {package} from {path} (files {digest[:12]})"
    return _spec(variant, stack, profile, device, python, tree, proof)


def unpinned(variant: Variant, stack: stacks.Stack, profile: str, device: str, python: Path) -> SideSpec:
    """Return a spec in an environment that is not ours, such as a vendor's container: nothing is installed there.

    A source is imported from where it lies, before what is installed.
    """
    if variant.lock:
        why = (
            f"--unpinned installs nothing, so that locks cannot be compared; run without it to compare {variant.label}"
        )
        raise Refusal(f"{variant.name}: {why}")
    proof = "; ".join(["unpinned", *(f"{package} from {path}" for package, path in variant.sources.items())])
    if roots := [str(_import_root(package, path)) for package, path in variant.sources.items()]:
        rest = {**os.environ, **stack.process_environment(), **variant.environment}.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (*roots, rest)))
        variant = replace(variant, sources={}, environment={**variant.environment, "PYTHONPATH": path})
    return _spec(variant, stack, profile, device, python, _tree(variant, stack), proof)


def _import_root(package: str, path: Path) -> Path:
    name = package.replace("-", "_")
    for root in (path, path / "src"):
        if (root / name / "__init__.py").is_file() or (root / f"{name}.py").is_file():
            return root
    raise Refusal(
        f"{path} has no '{name}' that could be imported as it lies there, in it or in its src, and --unpinned installs nothing; "
        "run without it, or install the checkout there yourself"
    )


def require_interpreter(python: Path) -> None:
    """Refuse what is no program at all."""
    runs = os.access(python, os.X_OK) and python.is_file()
    if not runs or processes.run([python, "-c", "print(1)"], seconds=60).output.strip() != "1":
        why = "is no Python that can be run; name the Python of the environment, such as /opt/venv/bin/python"
        raise Refusal(f"--unpinned {python}: {why}")


def _spec(
    variant: Variant, stack: stacks.Stack, profile: str, device: str, python: Path, tree: Path, proof: str
) -> SideSpec:
    return SideSpec(
        name=variant.name, python=python, source=tree / "src", stack=stack.name,
        environment={**stack.process_environment(), **_project(variant), **variant.environment},
        rehearsed=stack.rehearsed, profile=profile, device=device, drill=variant.drill, proof=proof,
    )  # fmt: skip


def _project(variant: Variant) -> dict[str, str]:
    project = projects.current()
    if project is None:
        return {}
    if not variant.commit:
        return {places.PROJECT: str(project.folder)}
    revision = resolved(variant.commit, project.folder)
    tree = HOME / f"{project.name}-{hashlib.sha256(str(project.folder).encode()).hexdigest()[:6]}-{revision[:10]}"
    if not tree.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="project-", dir=HOME) as folder:
            _lay_out(project.folder, revision, (), Path(folder) / "tree")
            (Path(folder) / "tree").rename(tree)
    if not (tree / project.file.name).is_file():
        raise Refusal(f"{variant.name}: commit {variant.commit} of {project.folder} has no {project.file.name} yet")
    return {places.PROJECT: str(tree)}


def _lay_out(folder: Path, revision: str, places: Sequence[str], tree: Path) -> None:
    """Lay the files of a commit out that lie below a folder of its repository, or in some places there."""
    packed = git.output_bytes(folder, "archive", "--format=tar", revision, *places)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tree, **_SAFE)  # noqa: S202 - git made it a moment ago


def commit_of(environment: Mapping[str, str]) -> str:
    """Return the commit whose files a side's project has; empty where it is the project as it lies there."""
    tree = Path(environment.get(places.PROJECT, ""))
    return tree.name.rpartition("-")[2] if tree.parent == HOME else ""


def _tree(variant: Variant, stack: stacks.Stack) -> Path:
    """Return the folder of the variant: this checkout itself if nothing of its files differs."""
    commit = "" if projects.current() else variant.commit
    if not (commit or variant.lock or variant.sources):
        return ROOT
    digest = hashlib.sha256(f"{resolved(commit)}|{variant.lock}|{variant.label}".encode()).hexdigest()[:10]
    tree = HOME / f"{variant.name}-{digest}"
    _lay_harness(tree)
    if commit:
        _overlay(tree, commit)
    if variant.lock:
        if why := files.why_unreadable(variant.lock):
            raise Refusal(f"{variant.lock}: {why}; name a file made by {advice.relock(stack.name, stack.folder)}")
        shutil.copy2(variant.lock, tree / _lock_in_tree(stack))
    _lend_wheels(tree, stack)
    return tree


def _lay_harness(tree: Path) -> None:
    for old in tree.glob("*"):
        if old.name != ".nox":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    require_history()
    listed = git.output(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    for name in filter(None, listed):
        if not name.startswith(_LEFT_OUT) and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def _overlay(tree: Path, commit: str) -> None:
    """Replace what is compared by the commit's; what it did not have yet stays as it is here."""
    revision = resolved(commit)
    for place in plan.load().compared:
        if git.output(ROOT, "ls-tree", "--name-only", revision, place):
            shutil.rmtree(tree / place, ignore_errors=True)
            _lay_out(ROOT, revision, (place,), tree)


def _lend_wheels(tree: Path, stack: stacks.Stack) -> None:
    """Let the tree see wheels that somebody has put beside the lock by hand, which git does not know."""
    if not stack.folder.is_relative_to(ROOT):
        return
    place = tree / stack.folder.relative_to(ROOT) / _WHEELS
    for wheel in (stack.folder / _WHEELS).glob("*.whl"):
        if not (place / wheel.name).exists():
            place.mkdir(parents=True, exist_ok=True)
            (place / wheel.name).symlink_to(wheel.resolve())


def _prepare(tree: Path, variant: Variant, stack: stacks.Stack, say: environments.Say) -> Path:
    """Return the interpreter: of the environment that is there if the lock is the same, else of one that the tree builds."""
    same = tree == ROOT or _lock_of(tree, stack).read_bytes() == stack.lock.read_bytes()
    if tree == ROOT or (same and not variant.sources):
        return environments.prepare(stack, say)
    # the tree has no tools of its own
    ended = _run(Path(sys.executable), "environments", tree, stack, environments.with_uv(say))
    if not ended.ok:
        raise Refusal(f"{variant.name}: its environment cannot be built: {tail(ended.errors, most=_MOST_SAID)}")
    say(f"{variant.name}: environment ready")
    return Path(ended.output.strip().splitlines()[-1])


def _run(
    python: Path, module: str, tree: Path, stack: stacks.Stack, more: Mapping[str, str] | None = None
) -> processes.Ended:
    """Run one of the tree's own modules, in the tree: Python looks where it stands first, and another checkout's suites would shadow."""
    words = [str(python), "-m", f"stackproof.stack.{module}", stack.name, *(["--rehearsed"] if stack.rehearsed else [])]
    environment = {**(more or {}), "PYTHONPATH": str(tree / "src")}
    return processes.run(words, seconds=math.inf, cwd=tree, environment=environment)


def _override(python: Path, tree: Path, stack: stacks.Stack, package: str, path: Path, say: environments.Say) -> None:
    """Install a checkout over the lock, without its dependencies: the lock stays what decides about those."""
    known = {pin.name for pin in lockfile.read(_lock_of(tree, stack)).pins}
    if package not in known:
        raise Refusal(f"'{package}' is not in the lock{suggestion(package, known)}; name a package that the stack has")
    (python.parent.parent / environments.STAMP).unlink(missing_ok=True)  # it is no longer its lock: rebuilt next time
    words = f"pip install --quiet --no-deps --reinstall-package {package} --python".split()
    ended = processes.run([environments.find_uv(say), *words, str(python), str(path)], seconds=math.inf)
    if not ended.ok:
        hint = environments.mirror_hint(ended.errors)
        raise Refusal(f"{package} from {path} cannot be installed: {tail(ended.errors, 3, most=2000)}{hint}")


def _lock_in_tree(stack: stacks.Stack) -> Path:
    if not stack.lock.is_relative_to(ROOT):
        why = "is a stack of the project, whose lock is the same on both sides; compare commits or variables"
        raise Refusal(f"'{stack.name}' {why}")
    return stack.lock.relative_to(ROOT)


def _lock_of(tree: Path, stack: stacks.Stack) -> Path:
    path = tree / _lock_in_tree(stack)
    if not path.is_file():
        raise Refusal(f"{tree.name}: has no {_lock_in_tree(stack)}; that commit does not know the stack yet")
    return path


def resolved(commit: str, folder: Path = ROOT) -> str:
    """Return the whole hash of a revision; an empty one stays empty."""
    if not commit:
        return ""
    require_history(folder)
    words = "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"
    if (text := git.try_output(folder, *words, seconds=60)) is None:
        fetch = "`git fetch` it (with --unshallow where the clone is shallow)"
        raise Refusal(f"'{commit}' is no commit, branch or tag of this repository; {fetch}, or check its name")
    return text.strip()


@contextmanager
def checkouts(home: Path) -> Iterator[Callable[[str], Path]]:
    """Yield what lays out a commit for a command, once, and returns the folder there that one stands in here; all are gone afterwards.

    Refusal: one stands in no repository, or it has no such commit, or the commit no such folder.
    """
    here, laid = Path.cwd(), dict[str, Path]()

    def lay(commit: str) -> Path:
        inner = git.try_output(here, "rev-parse", "--show-prefix")
        if inner is None:
            raise Refusal(
                f"{here} is not in a git repository, so there are no commits; stand in one, or compare folders"
            )
        revision = resolved(commit, here)
        if revision not in laid:
            home.mkdir(parents=True, exist_ok=True)
            tree = home / revision[:16]
            git.output(here, "worktree", "add", "--quiet", "--force", "--detach", str(tree), revision)
            laid[revision] = tree
        folder = laid[revision] / inner.strip()
        if not folder.is_dir():
            raise Refusal(f"commit {commit[:10]} has no folder {inner.strip()}; stand in one that every commit has")
        return folder

    try:
        yield lay
    finally:
        for tree in laid.values():
            git.output(here, "worktree", "remove", "--force", str(tree))


def require_history(folder: Path = ROOT) -> None:
    """Refuse a folder that came without its commits, such as an unpacked archive, in git's words; the sentence is not about the commit."""
    if folder == ROOT:
        require_checkout("comparing commits, locks or sources")
    git.output(folder, "rev-parse", "--git-dir")


def clean_head(folder: Path, paths: Sequence[str]) -> str:
    """Return the commit of a checkout; empty where something of these paths is changed or new in it, or it has no history.

    What git ignores does not count, nor do the records that we keep in it.
    """
    dirty = git.try_output(folder, "status", "--porcelain", "--", *paths, ":(exclude)results/local", seconds=60)
    return "" if dirty or dirty is None else git.head(folder)

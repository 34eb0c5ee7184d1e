"""What is asked of a night: its anchor, the table of nights (`data/night.toml`), the request and the record that it goes into.

An anchor is a commit, and with it the lock and the workloads that it holds (`stacks/NAME/anchor.toml`). It is measured every night
beside today's side.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stackproof.api.base import Refusal, files, git, places, text, toml
from stackproof.api.gate import interleave, plan, variants
from stackproof.api.record import Check, Figure, Record, Verdict, resume, store, writer
from stackproof.api.stack import projects, stacks
from stackproof.extras import verbs
from stackproof.extras.nights.drift.series import VERB

NAME = "anchor.toml"
NEW = "night --anchor new"


@dataclass(frozen=True)
class _Anchor:
    commit: str


@dataclass(frozen=True)
class _AnchorFile:
    anchor: _Anchor


def file_of(stack: stacks.Stack) -> Path:
    return stack.lock.parent / NAME


def require_ours(stack: stacks.Stack) -> None:
    """Refuse where there is a project: what an anchor freezes is a commit of this repository, with its lock."""
    if projects.current() or not stack.lock.is_relative_to(places.ROOT):
        raise Refusal(
            f"`night` follows the stacks of stackproof's own repository, whose commits hold lock and workloads; of a project compare "
            f"commits with `gate --stack {stack.name} --base REF`, or leave --project out"
        )


def load_anchor(stack: stacks.Stack) -> str:
    """Return the anchor of a stack, a commit (Refusal: there is none yet, the file is wrong, or its commit does not have the stack)."""
    path = file_of(stack)
    if not path.is_file():
        raise Refusal(
            f"{path}: there is no anchor yet, so nights of '{stack.name}' have nothing to be measured beside; make one with "
            f"`{NEW} --stack {stack.name}`, and commit it"
        )
    return freeze(stack, toml.Table.load(path).row(_AnchorFile).anchor.commit)


def freeze(stack: stacks.Stack, commit: str, root: Path = places.ROOT) -> str:
    """Return the whole name of a commit (Refusal: it is no commit of this repository, or does not have the stack)."""
    revision = variants.resolved(commit, root)
    lock = str(stack.lock.relative_to(places.ROOT))
    if not git.output(root, "ls-tree", revision, "--", lock):
        raise Refusal(f"commit {revision[:12]} has no {lock}; choose one that knows the stack")
    return revision


def renew(stack: stacks.Stack) -> str:
    """Make this checkout's commit the anchor, and return what is to be done now (Refusal: it is the anchor already)."""
    path, fresh = file_of(stack), freeze(stack, "HEAD")
    if path.is_file() and toml.Table.load(path).row(_AnchorFile).anchor.commit == fresh:
        raise Refusal(f"{path}: {fresh[:12]} is the anchor already; check another commit out to freeze that")
    rows = (
        f"# The commit that nights of {stack.name} are measured beside (docs/nights.md). Made by\n"
        f"# `nox -s {stack.name}-night -- --anchor new`.\n\n"
        f'[anchor]\ncommit = "{fresh}"\n'
    )
    files.write_atomically(path, rows)
    return f"{path}: the anchor is {fresh[:12]} now; commit this file"


FILE = places.DATA / "night.toml"


@dataclass(frozen=True)
class AdmissionRules:
    load: plan.ByDevice
    throttled: tuple[str, ...]
    pause: float


@dataclass(frozen=True)
class NightPlan:
    """The table `data/night.toml`: what a night measures, and within which limits."""

    explore: plan.ByDevice
    """Minutes of new points for relations of operators."""
    launches: plan.ByDevice
    verify: plan.ByDevice
    """Minutes in which suites are begun."""
    deadline: float
    """Minutes after which a stage is ended."""
    suspicions: int
    """So many a night are put to a gate."""
    gate: float
    """Minutes of such a gate."""
    admission: AdmissionRules


load_plan = toml.kept(FILE, NightPlan)


def disturbances(seen: interleave.Conditions, rules: AdmissionRules, kind: str) -> list[str]:
    """Return a sentence for each thing that disturbed a night on this type of device; none where it is admitted."""
    limit, launches = plan.of(rules.load, kind), f"{len(seen.loads)} launches"
    busy = [load for load in seen.loads if load > limit]
    share = f"others used {max(busy, default=0.0):.0%} of the host's cores in {len(busy)} of {launches} ({limit:.0%} are allowed)"
    slowed = {reason: count for reason, count in seen.throttled.items() if text.matches(reason, rules.throttled)}
    return [
        *([share] if busy else []), *(f"the card was slowed in {count} of {launches}: {reason}" for reason, count in slowed.items()),
        *(f"{other} used the card in {count} of {launches}" for other, count in seen.others.items()),
    ]  # fmt: skip


FIRST = "the first"
"""The device of a night that nobody chose one for."""
FATAL = (Verdict.UNAVAILABLE, Verdict.MISMATCHED)
"""After these nothing else of a night can be right."""


@dataclass
class Ledger:
    """A record in its folder; `say` tells a person what ended."""

    record: Record
    folder: Path
    say: Callable[[str], None]
    _began: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> Path:
        return self.folder / resume.RECORD

    @property
    def over(self) -> bool:
        """Whether the stack is not here, or not what it should be, so that the other stages make no sense."""
        return any(check.verdict in FATAL for check in self.record.checks)

    def add(self, check: Check) -> None:
        """Take over how something ended, and keep the record as if the night were stopped now."""
        self.record.checks.append(check)
        self.say(f"{check.verdict.value}: {check.id}: {check.reason}")
        self.keep()

    def keep(self, verdict: Verdict = Verdict.INTERRUPTED) -> None:
        """Write the record as it stands; it is an interrupted one until its verdict is known."""
        self.record.seconds = time.monotonic() - self._began
        writer.checkpoint(replace(self.record, verdict=verdict, digests={}), self.path)

    def close(self, verdict: Verdict, outputs: writer.Outputs, page: Callable[[Record], str]) -> Path:
        """Give the record its verdict and keep it with the digests of the logs."""
        self.record.seconds, self.record.verdict = time.monotonic() - self._began, verdict
        self.record.logs = sorted(os.path.relpath(log, self.folder) for log in self.folder.rglob("*.log"))
        return writer.keep(self.record, self.path, outputs, page)


def opened(stack: str, facts: Mapping[str, Figure], outputs: writer.Outputs, say: Callable[[str], None]) -> Ledger:
    record = writer.begin(VERB, stack, facts)
    return Ledger(record, outputs.folder(record), say)


@dataclass(frozen=True)
class NightRequest:
    """What a night is asked to measure; a field that is empty has the default of the gate."""

    stack: stacks.Stack
    results: Path
    anchor: str
    """The commit that today's is measured beside."""
    plan: NightPlan
    profile: str
    only: tuple[str, ...] = ()
    device: str = ""
    without: tuple[str, ...] = ()
    unpinned: Path | None = None
    scale: float = 1.0
    site: Path = field(default_factory=lambda: store.LOCAL.parent / "site")

    @property
    def tops(self) -> tuple[Path, ...]:
        """The folders in which earlier nights and their gates lie."""
        return tuple(dict.fromkeys((*store.folders(), self.results)))

    def facts(self) -> dict[str, Figure]:
        facts: dict[str, Figure] = {
            "profile": self.profile,
            "only": " ".join(self.only),
            "device": self.device or FIRST,
        }
        return facts | ({"without": " ".join(self.without)} if self.without else {})


@dataclass
class NightRun:
    asked: NightRequest
    ledger: Ledger

    def verb(self, *words: str, log: str, python: Path | None = None) -> verbs.StageOutcome:
        """Run a verb of this stack as a process of its own; its record goes where the night's does."""
        asked = self.asked
        scale = ["--deadline-scale", str(asked.scale)] if asked.scale != 1 else []
        command = [words[0], "--stack", asked.stack.name, *words[1:], "--results", str(asked.results), *scale]
        deadline = 60 * asked.plan.deadline * asked.scale
        return verbs.call(command, self.ledger.folder / f"{log}.log", deadline, python or Path(sys.executable))

    def suite(self, *words: str, log: str) -> verbs.StageOutcome:
        """Run a verb in the stack's environment, which it builds; or in the one that was named."""
        asked = self.asked
        chosen = ["--device", asked.device] if asked.device else []
        return self.verb(*words, *chosen, *([] if asked.unpinned else ["--locked"]), log=log, python=asked.unpinned)

    def add(self, name: str, began: float, ended: verbs.StageOutcome) -> None:
        """Take over how a stage ended that began then."""
        self.ledger.add(Check(name, ended.verdict, ended.reason, time.monotonic() - began, dict(ended.figures)))

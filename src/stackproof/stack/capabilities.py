"""What a stack cannot be asked, by rules in data: a check that needs a capability ends as skipped, with the rule's reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import NoReturn

from packaging.requirements import Requirement

from stackproof import DATA
from stackproof.base import places
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.toml import Table
from stackproof.record.checks import CapabilityMissing
from stackproof.stack.stacks import PRECISIONS, Stack

RULES = DATA / "capabilities.toml"


@dataclass(frozen=True)
class Capability:
    """A capability: torch device types and backends of collectives that lack it, packages that it needs, and why."""

    name: str
    reason: str
    absent_on: tuple[str, ...] = ()
    absent_over: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    varies: bool = False
    """Whether two hosts of one stack differ in it, by their memory or the number of their cards."""


@cache
def rules() -> dict[str, Capability]:
    with Table.load(RULES) as table:
        return {row.name: row for row in table.rows("capability", Capability)}


def require_known(stack: Stack) -> None:
    """Refuse what a stack says it lacks if no check can ask it: a misspelt name withholds nothing."""
    known = {*rules(), *PRECISIONS, "complex64"}
    if odd := next((name for name in stack.missing if name not in known), ""):
        raise Refusal(
            f"{stack.definition}: 'missing.{odd}' is no capability{suggestion(odd, rules())}; {RULES} has them"
        )


def require(stack: Stack, name: str) -> None:
    """End the check as skipped if a rule says that this stack, or this environment, lacks the capability.

    Raises:
        CapabilityMissing: with the rule and its reason.
        Refusal: no rule knows the capability, which is a mistake in the check.
    """
    if name in stack.missing:
        raise CapabilityMissing(f"{stack.definition}, missing.{name}: {stack.missing[name]}")
    if name not in rules():
        raise Refusal(f"{RULES}: there is no capability '{name}'{suggestion(name, rules())}; add a row")
    rule = rules()[name]
    if stack.device in rule.absent_on:
        withhold(name, f"absent on {stack.device}: {rule.reason}")
    if stack.backend in rule.absent_over:
        withhold(name, f"absent over {stack.backend}: {rule.reason}")
    if lack := lacking(rule.needs):
        withhold(name, f"{lack}: {rule.reason}")


def lacking(needs: Iterable[str]) -> str:
    """Say which requirement is the first that no installed package meets, or nothing; reads metadata only."""
    for need in map(Requirement, needs):
        try:
            version = metadata.version(need.name)
        except metadata.PackageNotFoundError:
            return f"needs {need}, it is not installed"
        if not need.specifier.contains(version, prereleases=True):
            return f"needs {need}, {version} is installed"
    return ""


def withhold(name: str, seen: str = "") -> NoReturn:
    """End the check as skipped, `CapabilityMissing`, by a rule whose condition only the check can see; `seen` is what it saw."""
    raise CapabilityMissing(f"{places.table('capabilities.toml')}, {name}: {seen or rules()[name].reason}")

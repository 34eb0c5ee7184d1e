"""The environment variables, as findings: the tables that a distributed run's preflight uses too."""

from __future__ import annotations

from collections.abc import Iterator

from .. import variables
from ..stacks import Stack
from ..variable_tables import Level
from ..variables import Slip
from .findings import Finding, ok
from .machine import Machine


def examine(machine: Machine, concerned: list[Stack]) -> Iterator[Finding]:
    """Yield what is wrong with the variables; a problem with what no stack here reads is a warning at most.

    `concerned`: the stack that was named, or those that the host has, the preferred one first.
    """
    read = {family for stack in concerned for family in variables.relevant(stack)}
    slips = dict.fromkeys(variables.examine(machine.environ, read))
    if len(concerned) != 1:  # nobody named a stack: also what another stack than those here would read
        slips |= dict.fromkeys(variables.examine(machine.environ))
    for slip in slips:
        yield _finding(slip, slip.family in read)
    if not slips:
        yield ok(
            "variables",
            "no variable of the libraries below torch is misspelt, out of its values, or at odds with another",
        )


def _finding(slip: Slip, counts: bool) -> Finding:
    found = Finding("variables", slip.level, slip.sentence, slip.remedy, slip.link)
    return found if counts else found.at_most(Level.WARNING)

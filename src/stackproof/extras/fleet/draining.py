"""What takes a host out of service: printed for each host that a duel has confirmed, and run only where that is asked for."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import rules
from stackproof.extras.fleet.judgement import FleetJudgement, HostStanding

_MOST = 120
_UNSAID = re.compile(r"[^A-Za-z0-9 .,:%/+_-]+")
"""A reason goes into Slurm's database and into other people's scripts: letters, digits and a few marks only."""


def drained(found: FleetJudgement) -> list[HostStanding]:
    """Return the hosts that a duel has confirmed."""
    return [host for host in found.hosts if host.confirmed]


def command(host: HostStanding) -> list[str]:
    """Return the command that drains a host, as words: its name is held against what a name can be, and no shell reads it."""
    return ["scontrol", "update", f"NodeName={rules.host(host.host)}", "State=DRAIN", f"Reason={reason(host)}"]


def reason(host: HostStanding) -> str:
    """Return why, in a line that any tool may quote."""
    first = host.confirmed[0]
    said = first.sentence.rpartition("duel: ")[2]
    told = " ".join(_UNSAID.sub(" ", f"{first.subject} {said}").split())
    return f"stackproof: {first.standing.value}: {told}"[:_MOST].strip()


def require() -> None:
    """Refuse where nobody could be drained, before hours of duels."""
    if not shutil.which("scontrol"):
        raise Refusal(
            "--drain: scontrol is not here, so nobody can be drained; leave --drain out, or run this where Slurm is"
        )


def lines(found: FleetJudgement) -> Iterator[str]:
    """Yield the commands as people type them; a pseudonym drains nobody, and is left out."""
    for host in drained(found):
        try:
            yield shlex.join(command(host))
        except Refusal:
            continue

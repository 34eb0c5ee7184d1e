"""What takes a host out of service: printed for each host that is slow or wrong, and never run by us."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from stackproof.api.base import Refusal
from stackproof.extras.fleet import rules
from stackproof.extras.fleet.judgement import BAD, FleetJudgement, HostStanding

_MOST = 120
_UNSAID = re.compile(r"[^A-Za-z0-9 .,:%/+_-]+")
"""A reason goes into Slurm's database and into other people's scripts: letters, digits and a few marks only."""


def command(host: HostStanding) -> list[str]:
    """Return the command that drains a host, as words: its name is held against what a name can be, and no shell reads it."""
    reason = f"stackproof: {host.standing.value}: {' '.join(_UNSAID.sub(' ', host.reason).split())}"[:_MOST].strip()
    return ["scontrol", "update", f"NodeName={rules.host(host.host)}", "State=DRAIN", f"Reason={reason}"]


def lines(found: FleetJudgement) -> Iterator[str]:
    """Yield the commands as people type them; a pseudonym drains nobody, and is left out."""
    for host in found.hosts:
        if host.standing in BAD:
            try:
                yield shlex.join(command(host))
            except Refusal:
                continue

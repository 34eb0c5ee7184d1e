"""What happened to a run: one incident for each thing that went wrong, and all of them as a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, field

from stackproof.triage.probes import Hit, Who

UNKNOWN = "no known signature"


@dataclass(frozen=True)
class Incident:
    """One thing that happened: to whom, what it means, what to do, and the lines that prove it.

    `signature` is empty for a failure that no signature knows; `who` names the ranks, the first to fail first.
    """

    signature: str
    kind: str
    title: str
    cause: str
    remedy: str
    link: str
    certainty: str
    who: tuple[Who, ...]
    count: int
    hits: tuple[Hit, ...]
    lasting: bool = False
    """Whether it stays a failure of a run that went on."""
    general: bool = False
    """Whether a more special one that is said with it knows more."""
    hint: bool = False
    """Whether it is only a library's complaint."""

    @property
    def first(self) -> Hit:
        """The first line of it."""
        return self.hits[0]


@dataclass
class Diagnosis:
    """What a log says: the root cause if anything failed, further independent faults, what follows, what is harmless."""

    root: Incident | None = None
    others: list[Incident] = field(default_factory=list)
    consequences: list[Incident] = field(default_factory=list)
    survived: list[Incident] = field(default_factory=list)
    earlier: list[Incident] = field(default_factory=list)
    """What ended earlier runs in the same file."""
    noise: list[Incident] = field(default_factory=list)
    collective: str = ""
    end: Hit | None = None
    """The line that shows a good end."""
    ordered: bool = True
    """Whether the log shows which of several failures came first."""

    @property
    def signatures(self) -> set[str]:
        """The names of all that was recognised."""
        found = [self.root] if self.root else []
        return {
            row.signature
            for row in (*found, *self.others, *self.consequences, *self.survived, *self.earlier, *self.noise)
        }

"""What is planted in which night: `story.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stackproof.base.toml import Table

FILE = Path(__file__).with_name("story.toml")


@dataclass(frozen=True)
class Planted:
    """How things are from a night on, and who is to be named as the cause of what changed."""

    night: int
    cause: str
    title: str
    rows: int
    quota: float
    driver: str


@dataclass(frozen=True)
class NightStory:
    """The whole story; `planted`: the subject that a commit makes slower, `subjects`: all that are measured."""

    nights: int
    subjects: tuple[str, ...]
    planted: str
    launches: int
    event: tuple[Planted, ...]

    def at(self, night: int) -> Planted:
        """Return how things are in a night, which are numbered from 1."""
        return [one for one in self.event if one.night <= night][-1]


def load(path: Path = FILE) -> NightStory:
    """Read a story."""
    return Table.load(path).row(NightStory)

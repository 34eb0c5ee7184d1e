"""How a command is run on a host of the plan: words that the user names, and nothing from a record."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass

from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.extras.fleet import rules

PLACE = "{host}"


@dataclass(frozen=True)
class Launcher:
    """Words of the user's, in which {host} is the host."""

    words: tuple[str, ...]
    python: str
    stack: str
    profile: str
    scale: float = 1.0
    start_s: float = 300.0
    """How long a host may keep us waiting, such as for an allocation."""

    @classmethod
    def of(cls, text: str, python: str, stack: str, profile: str, scale: float, start_s: float) -> Launcher:
        """Read the words.

        Raises:
            Refusal: they are no words, say nothing of the host, or begin with a program that is not here.
        """
        words = launch_words(text, (PLACE,))
        if PLACE not in words[0] and not shutil.which(words[0]):
            raise Refusal(
                f"--launch: '{plain(words[0], 80, lines=False)}' is no program here; name one that is, as in --launch 'ssh {PLACE}'"
            )
        return cls(words, python, stack, profile, scale, start_s)

    def command(self, host: str, card: str) -> list[str]:
        """Return the command that brings a side up; the host is one of the plan, the card a number."""
        if not card.isdecimal():
            raise Refusal(f"card '{plain(card, 20)}' is no number; the record of '{host}' cannot be believed")
        launch = [word.replace(PLACE, rules.host(host)) for word in self.words]
        side = [self.python, "-m", "stackproof", "fleet", "side", "--stack", self.stack, "--profile", self.profile]
        return [*launch, *side, "--host", rules.host(host), "--card", card]


def launch_words(text: str, places: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of `--launch`, in which each of these places stands.

    Raises:
        Refusal: they are none, hold what no command line does, or do not say where.
    """
    said = plain(text, 80, lines=False)
    if not text.isprintable():
        raise Refusal(f"--launch '{said}' holds a line's end or another control character; write words in one line")
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise Refusal(f"--launch: {error}; write words as a shell takes them") from error
    if missing := [place for place in places if not any(place in word for word in words)]:
        raise Refusal(
            f"--launch '{said}' does not say where; write {missing[0]} where that host goes, as in 'ssh {missing[0]}'"
        )
    if not words[0]:
        raise Refusal(f"--launch '{said}' begins with nothing; begin with a program, as in 'ssh {places[0]}'")
    return words

"""Digests of equal work by majority: the fleet is the reference, no golden file; and one card is held against its own repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from stackproof.extras.fleet.answers import CardAnswer

LEAST = 3
"""So many cards have a majority; of two that differ nobody can say which one is right."""


class Oddness(str, Enum):
    """In which way a card computes wrong."""

    TRANSIENT = "transient"
    """Now and then: the same card, given the same again, gave something else."""
    PERSISTENT = "persistent"
    """Always: the card repeats itself, and no other card agrees with it."""


@dataclass(frozen=True)
class OddDigest:
    """One card and one row of the replay in which it is odd."""

    host: str
    card: str
    row: str
    oddness: Oddness
    sentence: str


@dataclass(frozen=True)
class Vote:
    """What the cards of a group say of one row; without a majority `digest` is empty, and nobody is odd by it."""

    row: str
    digest: str
    cards: int
    products: int
    answers: int
    """How many different digests there are."""

    @property
    def torn(self) -> bool:
        """Whether there are several answers and no majority for one."""
        return not self.digest and self.answers > 1


def vote(cards: Sequence[CardAnswer]) -> list[Vote]:
    """Return the vote on each row of the replay."""
    rows = sorted({row for card in cards for row in card.replayed})
    return [_voted(row, [card for card in cards if row in card.replayed]) for row in rows]


def _voted(row: str, cards: Sequence[CardAnswer]) -> Vote:
    counts = Counter(card.replayed[row].digest for card in cards)
    products = sum(card.replayed[row].products for card in cards)
    digest, most = counts.most_common(1)[0]
    clear = 2 * most > len(cards) and len(cards) >= LEAST
    return Vote(row, digest if clear else "", len(cards), products, len(counts))


def odd(cards: Sequence[CardAnswer], votes: Sequence[Vote]) -> Iterator[OddDigest]:
    """Yield every card that computes wrong in a row: by its own repeats, or by the majority."""
    chosen = {one.row: one for one in votes}
    for card in cards:
        for row, seen in card.replayed.items():
            other = bool(chosen[row].digest) and seen.digest != chosen[row].digest
            if seen.odd:
                said = f"{seen.odd} of {seen.products} equal products gave something else on this very card"
                yield OddDigest(card.host, card.number, row, Oddness.TRANSIENT, said)
            elif other:
                said = f"{seen.products} products gave {seen.digest}, and the majority of {chosen[row].cards} cards {chosen[row].digest}"
                yield OddDigest(card.host, card.number, row, Oddness.PERSISTENT, said)


def software(groups: Sequence[tuple[str, Sequence[Vote]]]) -> Iterator[str]:
    """Yield a sentence for each row in which whole groups of one architecture differ, or in which a group has no majority.

    `groups`: what a group is called, and its votes. All cards of one lock differ from those of another: that is its kernels, no defect.
    """
    for name, votes in groups:
        if torn := [one for one in votes if one.torn]:
            yield f"{name}: no majority in {len(torn)} rows, such as {torn[0].row} ({torn[0].answers} answers of {torn[0].cards} cards)"
    for at, (name, votes) in enumerate(groups):
        mine = {one.row: one.digest for one in votes if one.digest}
        for other, theirs in groups[:at]:
            rows = [one.row for one in theirs if one.digest and mine.get(one.row, one.digest) != one.digest]
            if rows:
                yield f"software: all of {name} differ from all of {other} in {len(rows)} rows, such as {rows[0]}"

"""Objects are exchanged among all ranks and in groups of some; what a group mixes up is said with its ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stackproof.collectives import rank as ranked
from stackproof.collectives.table import Row

WORLD = 3


class Exchange:
    """What rank 0 of three sees of `all_gather_object`; a group, known by its ranks, may give them in another order."""

    def __init__(self, turned: tuple[int, ...]) -> None:
        self.turned, self.formed = turned, list[tuple[int, ...]]()

    def new_group(self, peers: list[int]) -> tuple[int, ...]:
        self.formed.append(tuple(peers))
        return tuple(peers)

    def all_gather_object(self, found: list[Any], mine: dict[str, Any], group: tuple[int, ...] | None) -> None:
        """Give every rank's object, in order, unless the group is turned."""
        length = mine["from"][2]
        right = [ranked.known(peer, 0, length) for peer in group or range(WORLD)]
        found[:] = right[::-1] if group == self.turned else right


def _sentence(turned: tuple[int, ...], patch: pytest.MonkeyPatch) -> str:
    patch.setattr(ranked, "dist", Exchange(turned))
    rank: Any = SimpleNamespace(rank=0, world_size=WORLD)
    return str(ranked.objects(rank, Row("objects", "all_gather", "none")).get("sentence", ""))


def test_a_group_that_gives_objects_in_another_order_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = _sentence((0, 2), monkeypatch)
    assert "all_gather_object has that of rank 2 for part 0 at place 0 instead of that of rank 0" in said
    assert said.endswith("in a group of ranks (0, 2)")


def test_groups_that_are_right_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _sentence((), monkeypatch)


def test_every_rank_forms_every_group(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = Exchange(())
    monkeypatch.setattr(ranked, "dist", exchange)
    rank: Any = SimpleNamespace(rank=1, world_size=WORLD)
    ranked.objects(rank, Row("objects", "all_gather", "none"))
    assert exchange.formed == [(1, 2), (0, 1), (0, 2), (0, 1, 2)]

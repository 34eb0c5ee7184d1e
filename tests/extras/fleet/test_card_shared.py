"""Cards of a host meet and take turns without waiting for one that is gone."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from stackproof.extras.fleet import card
from stackproof.extras.fleet.card import CardTurns


def test_nobody_goes_on_before_all_are_there(tmp_path: Path) -> None:
    passed: list[int] = []

    def come(card: int) -> None:
        CardTurns(tmp_path, card, 3, 30.0).meet("here")
        passed.append(card)

    threads = [threading.Thread(target=come, args=(card,)) for card in (0, 1)]
    for one in threads:
        one.start()
    time.sleep(0.3)
    assert passed == []
    come(2)
    for one in threads:
        one.join()
    assert sorted(passed) == [0, 1, 2]


def test_one_at_a_time(tmp_path: Path) -> None:
    inside, most = [0], [0]

    def take(card: int) -> None:
        for _ in range(3):
            with CardTurns(tmp_path, card, 3, 30.0).turn():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.02)
                inside[0] -= 1

    threads = [threading.Thread(target=take, args=(card,)) for card in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == [1]


def test_who_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    card.announce_end(tmp_path, 1)
    CardTurns(tmp_path, 0, 2, 60.0).meet("here")
    one = CardTurns(tmp_path, 0, 3, 0.2)
    one.meet("there")
    one.patience_s = 60.0
    one.meet("later")


def test_how_many_there_are_is_told(tmp_path: Path) -> None:
    assert card.card_count(tmp_path) == 0
    (tmp_path / "cards").write_text("x", encoding="ascii")
    assert card.card_count(tmp_path) == 0
    CardTurns(tmp_path, 0, 8, 1.0).announce()
    assert card.card_count(tmp_path) == 8

"""A folder that hosts share may be full, gone or slow; and cards of a host meet and take turns without waiting for one that is gone."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import answers, card
from stackproof.extras.fleet.card import CardTurns
from stackproof.record import records
from stackproof.record.records import Record

from .making import ALL, MadeHost, record

MADE = record(MadeHost("n1"))


@pytest.fixture(autouse=True)
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rescued lies with the test."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def keep(path: Path, said: list[str], patience_s: float = 30.0) -> Path:
    """Keep a record; a busy host takes a while to write it."""
    return card.keep(MADE, path, said.append, patience_s=patience_s, pause_s=0.01)


def test_a_record_is_written_where_all_write(tmp_path: Path) -> None:
    said: list[str] = []
    assert answers.read(keep(tmp_path / "n1.json", said), "n1", ALL).host == "n1"
    assert said == []


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, right = tmp_path / "n1.json", records.write

    def full(one: Record, to: Path) -> None:
        if to == path:
            raise Refusal(f"{to}: the record cannot be written (No space left on device)")
        right(one, to)

    monkeypatch.setattr(records, "write", full)
    said: list[str] = []
    with pytest.raises(Refusal, match="No space left.*lies on this host as .*n1.json"):
        keep(path, said)
    assert len(said) == 3
    (rescued,) = (tmp_path / "tmp").rglob("n1.json")
    assert answers.read(rescued, "n1", ALL).host == "n1"


def test_a_stale_folder_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, right = iter((OSError(116, "Stale file handle"), None)), records.write

    def stale(one: Record, to: Path) -> None:
        if error := next(turns):
            raise error
        right(one, to)

    monkeypatch.setattr(records, "write", stale)
    said: list[str] = []
    assert keep(tmp_path / "n1.json", said).is_file()
    assert len(said) == 1 and "Stale file handle" in said[0]


def test_a_server_that_is_gone_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, right = tmp_path / "n1.json", records.write
    monkeypatch.setattr(records, "write", lambda one, to: time.sleep(3) if to == path else right(one, to))
    began = time.monotonic()
    with pytest.raises(Refusal, match="slow or gone.*lies on this host"):
        keep(path, [], patience_s=0.3)
    assert time.monotonic() - began < 2.5
    monkeypatch.undo()


def test_a_host_begins_although_it_cannot_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert card.mark_begun(tmp_path / "records" / "n1.started") == ""
    assert "Not a directory" in card.mark_begun(tmp_path / "file" / "records" / "n1.started")


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

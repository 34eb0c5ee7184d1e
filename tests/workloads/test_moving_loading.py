"""Loading: an epoch arrives in order and unchanged, with and without workers, and a wrong batch is caught."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stackproof.record.checks import CheckFailed
from stackproof.workloads.moving import Loading, PictureFiles

from .working import block, setting

ROW: dict[str, Any] = {"size": 16, "batch": 4, "batches": 3, "pinned": False}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_arrives(workers: int) -> None:
    work = Loading(setting(**ROW, workers=workers))
    try:
        assert work.prove() == "an epoch of 12 pictures arrived in order and unchanged"
        work.run()
        assert work.worth == {"sample": 12.0}
    finally:
        work.close()


def test_a_wrong_picture_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Loading(setting(**ROW, workers=0))
    batches = [batch.flip(-1) for batch in work._loader]
    monkeypatch.setattr(type(work._loader), "__iter__", lambda _: iter(batches))
    with pytest.raises(CheckFailed, match="12 pictures of an epoch are not what the data set holds"):
        work.prove()


def test_a_short_epoch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Loading(setting(**ROW, workers=0))
    batches = list(work._loader)[:-1]
    monkeypatch.setattr(type(work._loader), "__iter__", lambda _: iter(batches))
    with pytest.raises(CheckFailed, match="an epoch gave 8 pictures of 12"):
        work.prove()


def test_an_epoch_that_comes_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Loading(setting(**ROW, workers=0))
    work.prove()
    for _ in range(3):
        block(work, 1)
    batches = list(work._loader)
    monkeypatch.setattr(type(work._loader), "__iter__", lambda _: iter(batches))
    with pytest.raises(CheckFailed, match="pictures of an epoch are not what the data set holds at their place"):
        block(work, 1)


def test_an_epoch_that_comes_again_and_is_not_compared_shows_when_the_next_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Loading(setting(**ROW, workers=0))
    block(work, 1)
    work.begin(1, False)
    batches = list(work._loader)
    work.begin(1, False)
    monkeypatch.setattr(type(work._loader), "__iter__", lambda _: iter(batches))
    work.run()
    with pytest.raises(CheckFailed, match="the pictures of an epoch are not those of its order"):
        work.begin(1, False)


def test_pictures_are_in_range_and_every_second_is_mirrored() -> None:
    pictures = PictureFiles(20, 16)
    assert len(pictures) == 20
    assert pictures[0].shape == (3, 16, 16)
    assert 0 <= float(pictures[1].min()) <= float(pictures[1].max()) <= 1
    assert torch.equal(pictures[17][1], pictures[1][1])

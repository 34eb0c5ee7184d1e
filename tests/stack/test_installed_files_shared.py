"""Hashes of inodes with several links: taken while nothing about the inode moved, and only from a store that is this user's alone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from stackproof.stack import installed_files
from stackproof.stack.installed_files import SHARED, SharedHashes, shared_store


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "one" / "code.py", tmp_path / "two" / "code.py"
    for path in (first, second):
        path.parent.mkdir()
    first.write_text("good = 1\n", encoding="utf-8")
    second.hardlink_to(first)
    return first, second


class Reader:
    """Hashes files, and counts how many it was asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, path: Path, algorithm: str) -> str:
        self.asked += 1
        return installed_files.hash_of(path, algorithm)


def proved(path: Path, store: Path, reader: Reader) -> str:
    shared = SharedHashes(store)
    found = shared.of(path, "sha256", reader)
    shared.keep()
    return found


def test_what_one_environment_read_the_next_need_not(linked: tuple[Path, Path], tmp_path: Path) -> None:
    reader, store = Reader(), tmp_path / SHARED
    assert proved(linked[0], store, reader) == proved(linked[1], store, reader)
    assert reader.asked == 1
    assert store.stat().st_mode & 0o777 == 0o600


def test_a_file_of_one_link_is_not_kept(tmp_path: Path) -> None:
    alone, store = tmp_path / "alone.py", tmp_path / SHARED
    alone.write_text("x", encoding="utf-8")
    proved(alone, store, Reader())
    assert not store.exists()


def test_an_edit_with_its_old_date_is_read_again(linked: tuple[Path, Path], tmp_path: Path) -> None:
    reader, store = Reader(), tmp_path / SHARED
    before = proved(linked[0], store, reader)
    old = linked[0].stat()
    time.sleep(0.02)  # the clock of files ticks a hundred times a second
    linked[1].write_text("evil = 1\n", encoding="utf-8")
    os.utime(linked[1], ns=(old.st_atime_ns, old.st_mtime_ns))
    assert proved(linked[0], store, reader) != before
    assert reader.asked == 2


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_store_that_others_may_write_is_not_believed(linked: tuple[Path, Path], tmp_path: Path, mode: int) -> None:
    reader, store = Reader(), tmp_path / SHARED
    proved(linked[0], store, reader)
    store.chmod(mode)
    proved(linked[0], store, reader)
    assert reader.asked == 2


def test_a_folder_that_others_may_write_holds_no_store(linked: tuple[Path, Path], tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    reader = Reader()
    for _ in range(2):
        proved(linked[0], place / SHARED, reader)
    assert reader.asked == 2
    assert not (place / SHARED).exists()


def test_a_link_is_no_store(linked: tuple[Path, Path], tmp_path: Path) -> None:
    reader, store = Reader(), tmp_path / SHARED
    proved(linked[0], store, reader)
    store.rename(tmp_path / "elsewhere.json")
    store.symlink_to(tmp_path / "elsewhere.json")
    proved(linked[0], store, reader)
    assert reader.asked == 2


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"1 2": 3}', "null"])
def test_a_store_that_is_no_table_is_empty(linked: tuple[Path, Path], tmp_path: Path, text: str) -> None:
    reader, store = Reader(), tmp_path / SHARED
    store.write_text(text, encoding="utf-8")
    store.chmod(0o600)
    for _ in range(2):
        proved(linked[0], store, reader)
    assert reader.asked == 1
    assert isinstance(json.loads(store.read_text(encoding="utf-8")), dict)


def test_a_deep_proof_asks_nobody(linked: tuple[Path, Path]) -> None:
    reader = Reader()
    for _ in range(2):
        SharedHashes(None).of(linked[0], "sha256", reader)
    assert reader.asked == 2


def test_environments_of_one_folder_share(tmp_path: Path) -> None:
    assert shared_store(tmp_path / "cpu") == shared_store(tmp_path / "cuda") == tmp_path / SHARED

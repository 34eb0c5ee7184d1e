"""Each kind of thing that a path may name is told in one sentence, and none is waited for."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.files import HEAD


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("hello", encoding="utf-8")
    assert files.why_unreadable(tmp_path / "text") == ""
    assert "larger than 0 MiB" in files.why_unreadable(tmp_path / "text", 4)
    assert "folder" in files.why_unreadable(tmp_path)
    assert "pipe" in files.why_unreadable(tmp_path / "fifo")
    assert "device" in files.why_unreadable(Path("/dev/zero"))
    with pytest.raises(Refusal, match="No such file.*; name another"):
        files.read_bytes(tmp_path / "none", "name another")


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "is a named pipe" in files.why_unwritable(tmp_path / "fifo")
    assert "folder" in files.why_unwritable(tmp_path)
    assert files.why_unwritable(tmp_path / "a" / "b" / "c.json") == ""
    assert "cannot be written" in files.why_unwritable(tmp_path / "fifo" / "c.json")
    assert "which would be lost" in files.why_unwritable(Path(__file__))
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


@pytest.mark.parametrize(
    ("number", "named"), [(errno.EROFS, True), (errno.ENOSPC, True), (errno.ENOSPC, False), (errno.EACCES, True)]
)
def test_a_disk_that_says_no_ends_any_verb_with_a_sentence(
    number: int, named: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number), *(["/some/where"] if named else []))

    where = "/some/where" if named else "a file that is written"
    monkeypatch.setattr("stackproof.doctor.checkup.examine", failing)
    assert cli.main(["doctor"]) == 2
    assert f"stackproof: {where}: cannot be used ({os.strerror(number)}); make room" in capsys.readouterr().err


def test_an_error_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "/some/where")

    monkeypatch.setattr("stackproof.doctor.checkup.examine", failing)
    with pytest.raises(FileNotFoundError):
        cli.main(["doctor"])


def test_a_file_is_replaced_whole_and_is_for_everyone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for text in ("old", "new"):
        files.write_atomically(tmp_path / "link", text)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "new" and (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "link"]


def test_a_disk_without_room_is_full_and_a_closed_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not files.is_full(tmp_path) and not files.is_full(tmp_path / "gone") and not list(tmp_path.iterdir())
    for number, full in ((errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, False)):

        def say(number: int = number, **_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(files.tempfile, "TemporaryFile", say)
        assert files.is_full(tmp_path) is full


def test_what_may_not_be_looked_at_is_not_there(tmp_path: Path) -> None:
    closed = tmp_path / ("x" * 300)
    assert not files.exists(closed) and files.exists(tmp_path)
    assert files.sorted_matches(closed, "*/a") == []
    for name in "ba":
        (tmp_path / name).touch()
    assert files.sorted_matches(tmp_path, "*") == [tmp_path / "a", tmp_path / "b"]


def test_a_home_that_nobody_has_stays_as_typed() -> None:
    assert files.expand_user("~nobody-is-called-so/a") == Path("~nobody-is-called-so/a")
    assert files.expand_user("~/a") == Path.home() / "a"


def test_a_lock_is_held_by_one_until_it_is_closed(tmp_path: Path) -> None:
    place = tmp_path / "in-use"
    held = files.lock(place)
    assert held is not None
    assert files.lock(place, wait_s=0) is None
    threading.Timer(0.1, held.close).start()
    freed = files.lock(place, wait_s=10)
    assert freed is not None
    freed.close()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in-use").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        files.lock(tmp_path / "in-use", wait_s=0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"a": ', "cut short"),
        (b"\xff", "utf-8"),
        (b"", "Expecting value"),
        (b"[" * 100000, "recursion"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1, "a": 2}', "'a' is in it twice"),
    ],
)
def test_what_is_no_json_is_refused_in_one_sentence(tmp_path: Path, text: bytes, why: str) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(text)
    with pytest.raises(files.NotJsonError, match=rf"f\.json: is not JSON.*{why}.*; run it again$") as refused:
        files.parse_json(text, path, "run it again", strict=True)
    assert len(str(refused.value).splitlines()) == 1


def test_json_is_read_and_what_may_be_anything_is_none(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"a": [1, NaN, "ü"]}', encoding="utf-8")
    assert files.read_json(path)["a"][::2] == files.try_read_json(path)["a"][::2] == [1, "ü"]
    assert files.try_parse_json("no") is None and files.try_read_json(tmp_path / "none.json") is None
    with pytest.raises(Refusal, match="cannot be read"):
        files.read_json(tmp_path / "none.json")


def printed(program: str, path: Path, tail: int = files.TAIL) -> int:
    """Run a program with its output kept; return its exit code."""
    with files.kept_output(path, tail) as output:
        return subprocess.run([sys.executable, "-c", program], stdout=output, check=False).returncode


def test_what_is_short_is_kept_to_the_byte(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"old" * 100)
    assert printed("import sys; sys.stdout.buffer.write(bytes(range(256)))", tmp_path / "log") == 0
    assert (tmp_path / "log").read_bytes() == bytes(range(256))


def test_of_what_is_long_head_and_tail_are_kept_and_the_rest_is_counted(tmp_path: Path) -> None:
    program = "print('first')\nfor _ in range(60): print('x' * 1048575)\nprint('last')"
    assert printed(program, tmp_path / "log", tail=1000) == 0
    data = (tmp_path / "log").read_bytes()
    assert data.startswith(b"first\nxxx") and data.endswith(b"xxx\nlast\n") and len(data) < HEAD + 1100
    left_out = 60 * 1048576 + len("first\nlast\n") - HEAD - 1000
    assert f"\n[{left_out} bytes left out]\n".encode() in data


def test_a_file_that_cannot_be_written_is_refused_and_the_program_does_not_notice(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    program = f"print('x' * 9000); open({str(tmp_path / 'ended')!r}, 'w').close()"
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(
            Refusal, match="log: the output of a program cannot be kept .*; make room, then run it again"
        ):
            printed(program, tmp_path / "log")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "ended").exists() and (tmp_path / "log").stat().st_size == 4096


def test_a_folder_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="No such file"), files.kept_output(tmp_path / "gone" / "log"):
        pytest.fail("it was started")


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        files.write_atomically(tmp_path / "kept.json", "{}")
    assert str(files.disk_refusal(caught.value)).startswith(f"{tmp_path / 'kept.json'}: cannot be used")

"""Output that is kept: all of what is short, head and tail of what is not, and a disk that is full is said."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.base import kept_output
from stackproof.base.errors import Refusal
from stackproof.base.kept_output import HEAD


def printed(program: str, path: Path, tail: int = kept_output.TAIL) -> int:
    """Run a program with its output kept; return its exit code."""
    with kept_output.kept(path, tail) as output:
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
    with pytest.raises(Refusal, match="No such file"), kept_output.kept(tmp_path / "gone" / "log"):
        pytest.fail("it was started")

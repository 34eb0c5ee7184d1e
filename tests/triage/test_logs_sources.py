"""Names say which logs are of one run and which rank wrote each; what cannot be read is refused by name."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.triage import logs

from .making import write


@pytest.mark.parametrize(
    ("name", "run", "rank"),
    [
        ("logs/none_ab/attempt_0/3/stderr.log", "logs/none_ab", 3),
        ("attempt_1/0/stdout.log", ".", 0),
        ("slurm-4711-12.out", "slurm-4711", 12),
        ("slurm-4711.12.out", "slurm-4711", 12),
        ("log/workerlog.7", "log/workerlog", 7),
        ("train_rank3.log", "train", 3),
        ("out/rank_3.log.gz", "out", 3),
        ("rank3/stderr", ".", 3),
        ("task-3.err", ".", 3),
        ("local_rank2.log", ".", 2),
        ("slurm-4711.out", "slurm-4711.out", None),
        ("slurm-4711_3.out", "slurm-4711_3.out", None),
        ("run1.log", "run1.log", None),
        ("frank7.log", "frank7.log", None),
    ],
)
def test_names_tell_run_and_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, run: str, rank: int | None
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "x\n", name)
    ((found),) = logs.runs([name])
    assert (found.name, [source.rank for source in found.sources]) == (run, [rank])


def test_folder_gives_the_runs_in_it(tmp_path: Path) -> None:
    for rank in (10, 2, 0):
        write(tmp_path, "x\n", f"a/attempt_0/{rank}/stderr.log")
        write(tmp_path, "", f"a/attempt_0/{rank}/stdout.log")
    for name in ("b.log", "README.md", "model.bin", "stdout"):
        write(tmp_path, "x\n", name)
    os.mkfifo(tmp_path / "pipe.log")
    found = {Path(run.name).name: [source.rank for source in run.sources] for run in logs.runs([str(tmp_path)])}
    assert found == {"a": [0, 2, 10], "b.log": [None], "stdout": [None]}


def test_together_is_one_run(tmp_path: Path) -> None:
    paths = [str(write(tmp_path, "x\n", name)) for name in ("a.log", "b.log", "a.log")]
    (run,) = logs.runs(paths, together=True)
    assert len(run.sources) == 2
    assert len(logs.runs(paths)) == 2


def read(path: Path) -> bytes:
    """Return what is read of a log."""
    (source,) = logs.named([path]).sources
    with source.open() as stream:
        return stream.read(100)


def test_gzip_and_utf_16_are_known_by_their_bytes(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        path = write(tmp_path, "\ufefft\u00ebxt \U0001f600\r\n".encode(encoding), "a.log")
        assert read(path) == "t\u00ebxt \U0001f600\r\n".encode()
    assert read(write(tmp_path, gzip.compress(b"text"), "a.log")) == b"text"
    assert read(write(tmp_path, b"text", "a.log.gz")) == b"text"
    assert read(write(tmp_path, b"", "empty.log")) == b""


@pytest.mark.parametrize(
    "head", [b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh91AY", b"PK\x03\x04", b"\0" * 257 + b"ustar"]
)
def test_other_compression_is_refused_with_what_to_do(tmp_path: Path, head: bytes) -> None:
    path = write(tmp_path, head + b"rest", "a.log")
    with pytest.raises(Refusal, match=r"a.log: is an archive, or compressed .*zstdcat FILE .* triage -"):
        read(path)


def test_standard_input_is_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"text"))))
    ((run),) = logs.runs(["-"])
    with run.sources[0].open() as stream:
        assert stream.read(10) == b"text"


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="nothere.log: there is no such log"):
        logs.runs([str(tmp_path / "nothere.log")])
    with pytest.raises(Refusal, match=r"holds no log .*\*\.log"):
        logs.runs([str(tmp_path)])


def test_what_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "x\n")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "_kind", denied)
    with pytest.raises(Refusal, match=r"run.log: cannot be read \(Permission denied\)"):
        read(path)

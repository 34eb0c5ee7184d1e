"""The measurement writes a log with a fault at its end, finds it, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import triage_speed

from ..triage.making import report


@pytest.mark.parametrize("kind", triage_speed.KINDS)
def test_written_log_has_its_size_and_its_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(triage_speed, "_LINES", 2000)
    path = tmp_path / "run.log"
    triage_speed.write(path, 3, kind)
    assert 2 << 20 < path.stat().st_size < 4 << 20
    root = report(tmp_path, path.read_bytes()).judgement.root
    assert root is not None
    assert root.signature == "nccl-duplicate-gpu"


def test_main_prints_a_line_for_each_kind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(triage_speed, "_LINES", 2000)
    assert triage_speed.main(["1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(triage_speed.KINDS)
    assert all("MB/s" in line and line.endswith("found nccl-duplicate-gpu") for line in lines)

"""The verb `nodes`: a table, a file for Prometheus, and an exit code for who watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import cli
from stackproof.record.records import Verdict

from .making import look, run


def test_table_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts, page = tmp_path / "hosts", tmp_path / "stackproof.prom"
    hosts.mkdir()
    look(hosts, "gpu1")
    run(hosts)
    assert cli.main(["nodes", str(hosts), "--prometheus", str(page)]) == 0
    assert "1 node, 0 not well" in capsys.readouterr().out
    assert 'stackproof_run_passed{node="gpu1"' in page.read_text(encoding="utf-8")
    run(hosts, node="gpu2", verdict=Verdict.CRASHED)
    (hosts / "cut.json").write_text("{", encoding="utf-8")
    assert cli.main(["nodes", str(hosts)]) == 1
    said = capsys.readouterr()
    assert "2 nodes, 1 not well" in said.out and "passed over: " in said.err and "cut.json" in said.err


def test_what_the_doctor_writes_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["doctor", "--stack", "cpu", "--json", str(tmp_path / "here.json")])
    capsys.readouterr()
    cli.main(["nodes", str(tmp_path)])
    assert capsys.readouterr().out.startswith("1 node, ")


def test_nothing_to_show_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["nodes", str(tmp_path)]) == 2
    assert "no record and no answer of the doctor" in capsys.readouterr().err


def test_a_full_disk_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    look(tmp_path)
    assert cli.main(["nodes", str(tmp_path), "--prometheus", "/dev/full"]) == 2
    said = capsys.readouterr()
    assert (
        said.err
        == "stackproof: /dev/full: cannot be written (No space left on device); free space or name another file\n"
    )
    assert said.out == ""

"""The verb `nodes`: a table, and an exit code for who watches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.record.records import Verdict

from .hosts import look, run


def test_table_and_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = tmp_path / "hosts"
    hosts.mkdir()
    look(hosts, "gpu1")
    run(hosts)
    assert cli.main(["fleet", "nodes", str(hosts)]) == 0
    assert "1 node, all well" in capsys.readouterr().out
    (hosts / "cut\x1b[31m.json").write_text("{", encoding="utf-8")
    os.mkfifo(hosts / "pipe.json")
    assert cli.main(["fleet", "nodes", str(hosts)]) == 6
    assert "CANNOT SAY: 2 files passed over; 1 node read, all well\n" in capsys.readouterr().out
    run(hosts, node="gpu2", verdict=Verdict.CRASHED)
    assert cli.main(["fleet", "nodes", str(hosts)]) == 1
    said = capsys.readouterr()
    assert "NOT WELL: 1 of 2 nodes; 2 files passed over\n" in said.out and "\x1b" not in said.err
    assert "cut\\x1b[31m.json: is not JSON" in said.err and "pipe.json: is a named pipe" in said.err


def test_what_the_doctor_writes_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["doctor", "--stack", "cpu", "--json", str(tmp_path / "here.json")])
    capsys.readouterr()
    cli.main(["fleet", "nodes", str(tmp_path)])
    assert capsys.readouterr().out.startswith("1 node, ")


def test_nothing_to_show_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fleet", "nodes", str(tmp_path)]) == 2
    assert "no record and no answer of the doctor" in capsys.readouterr().err

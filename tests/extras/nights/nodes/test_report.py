"""The nodes as a table, whose columns are aligned and in which everything is text."""

from __future__ import annotations

from pathlib import Path

from stackproof.extras.fleet.judgement import SCHEMA, FleetJudgement, HostVerdict, JudgedHost, as_json
from stackproof.extras.nights.nodes import reading, report
from stackproof.record.records import Verdict

from .making import look, run


def test_rows_are_aligned_and_say_what_is_wrong(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, node="gpu2", verdict=Verdict.FAILED, reason="loss is NaN")
    look(tmp_path, "gpu2", "problem", "warning")
    look(tmp_path, "gpu3", name="third")
    lines = report.text(reading.gather([tmp_path])).splitlines()
    assert lines[0] == "3 nodes, 1 not well"
    assert lines[3].startswith("gpu2  1 problem, 1 warning  cpu    smoke  failed   2 of 3  ")
    assert lines[4].startswith("gpu3  no problem            -      ")
    assert "gpu2: smoke of cpu failed: smoke/bringup::devices: loss is NaN" in lines


def test_a_fleet_that_calls_a_host_slow_is_heard(tmp_path: Path) -> None:
    run(tmp_path)
    for day, word in (("2026-03-05", HostVerdict.PROVED), ("2026-03-06", HostVerdict.SLOW)):
        hosts = (JudgedHost("gpu1", word, "", ""), JudgedHost("gpu2", HostVerdict.SUSPECTED, "", ""))
        said = FleetJudgement(SCHEMA, "monday", f"{day}T00:00:00+00:00", 1.0, 1.0, hosts, (), ())
        (tmp_path / f"{day}.json").write_text(as_json(said), encoding="utf-8")
    found = reading.gather([tmp_path])
    lines = report.text(found).splitlines()
    assert lines[0] == "2 nodes, 1 not well" and found.nodes["gpu2"].well and not found.damaged
    assert lines[-1] == "gpu1: slow among the hosts of monday, judged 2026-03-06T00:00:00+00:00"


def test_names_are_text(tmp_path: Path) -> None:
    run(tmp_path, node="a|b\n@all\x1b[31m<b>")
    found = reading.gather([tmp_path])
    said = report.text(found)
    assert "\x1b" not in said and "a|b\\x0a@all\\x1b[31m<b>" in said

"""The nodes as a table, whose columns are aligned, and as Prometheus's text; in both everything is text."""

from __future__ import annotations

from pathlib import Path

from stackproof.extras.fleet.judgement import SCHEMA, FleetJudgement, HostVerdict, JudgedHost, as_json
from stackproof.extras.nights.nodes import reading, report
from stackproof.record.records import Verdict

from ...prometheus_text import parsed
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
    page, said = report.markdown(found), report.text(found)
    assert "\x1b" not in page and "<b>" not in page and "a\\|b" in page
    assert "\x1b" not in said and "a|b\\x0a@all\\x1b[31m<b>" in said


def test_figures_of_a_run_and_of_the_doctor(tmp_path: Path) -> None:
    run(tmp_path, verdict=Verdict.FAILED)
    look(tmp_path, "gpu1", "problem", "problem", "note")
    found = parsed(report.prometheus(reading.gather([tmp_path])))
    of = 'node="gpu1",stack="cpu",verb="smoke",rehearsed="false"'
    assert found[f"stackproof_run_passed{{{of}}}"] == 0
    assert found[f"stackproof_run_exit_code{{{of}}}"] == 1
    assert found[f'stackproof_run_checks{{{of},verdict="passed"}}'] == 2
    assert found['stackproof_doctor_findings{node="gpu1",level="problem"}'] == 2
    assert found[f"stackproof_run_timestamp_seconds{{{of}}}"] == 1772600767
    (rate,) = [value for name, value in found.items() if name.startswith("stackproof_measurement")]
    assert rate == 12.5


def test_labels_are_cleaned(tmp_path: Path) -> None:
    run(tmp_path, node='a"b\\c\nd\x1b[31m\u202e' + "x" * 5000)
    found = parsed(report.prometheus(reading.gather([tmp_path])))
    assert all("\x1b" not in name and "\u202e" not in name and len(name) < 1000 for name in found)
    assert any('node="a\\"b\\\\c' in name for name in found)


def test_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    run(tmp_path, value=float("nan"))
    look(tmp_path, "gpu1", looked="yesterday")
    text = report.prometheus(reading.gather([tmp_path]))
    assert parsed(text)
    assert "stackproof_measurement" not in text and "stackproof_doctor_timestamp" not in text

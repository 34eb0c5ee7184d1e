"""The verb as people type it: what it refuses, its record and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import cli
from stackproof.drill import drill
from stackproof.record import reading
from stackproof.record.records import Check, Figure, Record, Verdict


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "extra-packag"), "did you mean 'extra-package'"),
        (
            ("--fast", "--only", "metric-missing", "--json", "/dev/null/record.json"),
            "'/dev/null/record.json' cannot be written",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    try:
        code = cli.main(["drill", "--results", str(tmp_path), *arguments])
    except SystemExit as left:  # argparse's own
        code = int(left.code or 0)
    assert code == 2
    assert said in capsys.readouterr().err


def test_the_record_is_kept_and_the_exit_code_is_its_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def conducted(request: drill.DrillRequest, _: object) -> Record:
        facts: dict[str, Figure] = {"faults": len(request.chosen), "of": 100}
        checks = [Check("records/metric-missing", Verdict.FAILED, "NOT CAUGHT", 1.0)]
        return Record("drill", "cpu", "2026-01-01T00:00:00+00:00", 1.0, Verdict.FAILED, facts, checks)

    monkeypatch.setattr(drill, "conduct", conducted)
    out = tmp_path / "drill.json"
    code = cli.main(["drill", "--only", "metric-missing", "--results", str(tmp_path), "--json", str(out)])
    assert code == 1
    assert reading.read(out).checks[0].id == "records/metric-missing"
    assert "failed: records/metric-missing: NOT CAUGHT" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_of_one_row_is_real(tmp_path: Path) -> None:
    out = tmp_path / "drill.json"
    cli.main(["drill", "--only", "metric-missing", "--results", str(tmp_path), "--json", str(out)])
    fault, clean, coverage = reading.read(out).checks
    assert (fault.verdict, clean.verdict, coverage.id) == (Verdict.PASSED, Verdict.PASSED, "coverage"), fault.reason
    assert "must contain" in fault.reason

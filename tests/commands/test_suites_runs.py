"""What the verbs that run suites take: profiles, subjects, pictures and pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base.statistics import median_interval
from stackproof.commands import suites
from stackproof.record import reading, records
from stackproof.runner.request import Request


def test_unknown_profile_is_refused_before_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["bench", "--stack", "cpu", "--profile", "fats", "--results", str(tmp_path / "results")])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "there is no profile 'fats' (did you mean 'fast'?); there are: fast, regular, full" in err
    assert not (tmp_path / "results").exists()


@pytest.fixture
def bench_record(tmp_path: Path) -> Path:
    """A record of one benchmark and one check that was skipped, from somewhere else."""
    facts: dict[str, records.Figure] = {"pinned": True, "profile": "fast", "torch": "2.15.0", "cpu.name": "a processor"}
    samples = [0.02 + number * 1e-4 for number in range(20)]
    found = median_interval(samples)
    figures: dict[str, records.Figure] = {"low": found.low, "high": found.high, "noise": found.relative}
    row = records.Measurement("gemm-float32", "tiny", "float32", 1, "gemm", "s/TFLOP", 0.021, samples, "", "1", figures)
    check = records.of_suite(records.Check("latency/calls::synchronise", records.Verdict.SKIPPED, "no card", 0.0))
    ran = records.of_suite(records.Check("throughput/gemm::gemm-float32", records.Verdict.PASSED, "as expected", 1.0))
    made = records.Record(
        "bench", "cpu", "2026-01-02T03:04:05+00:00", 1.0, records.Verdict.PASSED, facts, [check, ran], [row]
    )
    records.seal(made, tmp_path)
    records.write(made, tmp_path / "record.json")
    return tmp_path / "record.json"


@pytest.mark.slow
def test_a_replayed_benchmark_shows_rates_and_writes(
    bench_record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--replay", str(bench_record), "--markdown", str(tmp_path / "comment.md")]
    assert cli.main(["bench", *options]) == 0
    said = capsys.readouterr().out
    assert "47.62 TFLOP/s" in said
    assert (tmp_path / "comment.md").read_text(encoding="utf-8").startswith("### stackproof bench: ")


def test_a_replay_is_of_what_it_is_asked_for(
    bench_record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["smoke", "--replay", str(bench_record)]) == 2
    said = capsys.readouterr().err
    assert "is a record of `bench`, not of `smoke`; `verify --replay` shows any" in said
    assert cli.main(["bench", "--stack", "xpu", "--replay", str(bench_record)]) == 2
    assert "is of stack 'cpu', not of 'xpu'; leave out --stack" in capsys.readouterr().err
    assert cli.main(["verify", "--verbose", "--replay", str(bench_record)]) == 0
    assert "slowest checks" in capsys.readouterr().out
    copy = tmp_path / "copy.json"
    assert cli.main(["verify", "--stack", "cpu", "--replay", str(bench_record), "--json", str(copy)]) == 0
    assert reading.read(copy) == reading.read(bench_record)
    assert "holds no digest" not in capsys.readouterr().err
    (tmp_path / "run.log").write_text("a line\n", encoding="utf-8")
    made = reading.read(bench_record)
    made.logs = ["run.log"]
    records.seal(made, tmp_path)
    records.write(made, bench_record)
    (tmp_path / "run.log").unlink()
    assert cli.main(["bench", "--replay", str(bench_record), "--json", str(copy)]) == 0
    assert "its log run.log is not beside it" in capsys.readouterr().err
    fields = json.loads(bench_record.read_text(encoding="utf-8"))
    bench_record.write_text(json.dumps({name: fields[name] for name in fields if name != "digests"}), encoding="utf-8")
    assert cli.main(["bench", "--replay", str(bench_record)]) == 0
    assert "holds no digest of itself, so that an edit of it does not show" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "meant"), [("gemm*", "*::*[[]gemm*]"), ("throughput/*::measured*", "throughput/*::measured*")]
)
def test_subjects_are_chosen_by_their_names(given: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def conduct(request: Request, *_: object) -> int:
        asked.append(request)
        return 0

    monkeypatch.setattr(suites, "_conduct", conduct)
    assert cli.main(["bench", "--stack", "cpu", "--only", given]) == 0
    assert [(one.only, one.preset, one.options) for one in asked] == [((meant,), "tiny", {"profile": "fast"})]

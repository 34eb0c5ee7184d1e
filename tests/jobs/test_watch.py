"""A job under `watch` is what it is without it: output, exit code, signals; and there is a record whatever happens to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.base.places import PACKAGE
from stackproof.record import reading
from stackproof.record.records import Record, Verdict

_PATH = os.pathsep.join((str(PACKAGE.parent), *sys.path))


def _command(tmp_path: Path, code: str, *flags: str) -> list[str]:
    python = [sys.executable, "-S", "-c", code]
    results = () if "--results" in flags else ("--results", str(tmp_path / "results"))
    return [sys.executable, "-m", "stackproof", "watch", *results, *flags, "--", *python]


def _watch(tmp_path: Path, code: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = _command(tmp_path, code, *flags)
    env = {**os.environ, "PYTHONPATH": _PATH}
    return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, input="given")


def _record(tmp_path: Path) -> Record:
    (path,) = (tmp_path / "results").glob("*/*/record.json")
    return reading.read(path)


def test_output_input_and_exit_code_are_the_jobs(tmp_path: Path) -> None:
    code = "import sys; print('out', sys.stdin.read()); print('err', file=sys.stderr); sys.exit(7)"
    ended = _watch(tmp_path, code)
    assert (ended.returncode, ended.stdout) == (7, "out given\n")
    assert ended.stderr.startswith("err\nstackproof watch: exit code 7 after")
    record = _record(tmp_path)
    assert (record.verdict, record.checks[0].figures["status"]) == (Verdict.FAILED, 7)
    assert record.measurements[0].unit == "s"
    assert "host" in record.provenance and str(record.provenance["command"]).endswith("sys.exit(7)'")
    assert record.logs == ["job.log"]


def test_a_copy_of_the_record_is_one(tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "record.json"
    assert _watch(tmp_path, "print('fine')", "--json", str(copy)).returncode == 0
    assert reading.read_verified(copy) == _record(tmp_path)


def test_a_job_that_ends_well_passes_and_a_log_that_denies_it_is_heard(tmp_path: Path) -> None:
    assert _watch(tmp_path / ".", "print('fine')").returncode == 0
    assert _record(tmp_path).verdict is Verdict.PASSED
    other = tmp_path / "other"
    other.mkdir()
    said = "print('RuntimeError: CUDA error: an illegal memory access was encountered')"
    ended = _watch(other, said)
    assert ended.returncode == 0
    assert _record(other).verdict is Verdict.FAILED
    assert "illegal" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "code", "exit_code"),
    [
        (signal.SIGTERM, "import time; print('up', flush=True); time.sleep(60)", 143),
        (signal.SIGUSR1, "import time; print('up', flush=True); time.sleep(60)", 138),
        (
            signal.SIGINT,
            "import time\ntry:\n print('up', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: raise SystemExit(9)",
            9,
        ),
        (
            signal.SIGTERM,
            "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); time.sleep(60)",
            0,
        ),
    ],
)
def test_signals_are_the_jobs(sent: signal.Signals, code: str, exit_code: int, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": _PATH}
    command = _command(tmp_path, code)
    with subprocess.Popen(
        command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(sent)
        assert process.wait(60) == exit_code
    assert f"having been sent {sent.name}" in _record(tmp_path).checks[0].reason


@pytest.mark.parametrize(
    ("words", "code"),
    [(["no-such-program"], 127), (["./not-executable"], 126), ([], 2), (["--stack", "cup", "--", "true"], 2)],
)
def test_what_cannot_start_ends_as_shells_end(words: list[str], code: int, tmp_path: Path) -> None:
    (tmp_path / "not-executable").write_text("", encoding="utf-8")
    command = [sys.executable, "-m", "stackproof", "watch", *([] if "--stack" in words else ["--"]), *words]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": _PATH}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code
    assert ended.stderr.count("stackproof") >= 1 and "Traceback" not in ended.stderr
    assert ("`chmod +x ./not-executable`, or start it by its interpreter, such as `sh ./not" in ended.stderr) is (
        code == 126
    )


def test_a_record_that_cannot_be_kept_costs_the_job_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "results").mkdir()
    (tmp_path / "results/cpu").write_text("", encoding="utf-8")
    ended = _watch(tmp_path, "print('done'); raise SystemExit(3)", "--stack", "cpu")
    assert (ended.returncode, ended.stdout) == (3, "done\n")
    assert "no record will be kept" in ended.stderr and not list((tmp_path / "temporary").iterdir())


@pytest.mark.slow
def test_a_reader_who_goes_away_ends_the_job_as_ever(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stackproof", "watch", "--results", str(tmp_path / "results"), "--", "yes"]
    env = {**os.environ, "PYTHONPATH": _PATH}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 128 + signal.SIGPIPE


@pytest.mark.slow
def test_steps_of_a_callback_are_in_the_record(tmp_path: Path) -> None:
    row = json.dumps({"seconds": 0.5})
    code = f"import os; open(os.environ['STACKPROOF_STEPS'], 'w').write({row!r} + chr(10))"
    assert _watch(tmp_path, code).returncode == 0
    assert [(row.metric, row.value) for row in _record(tmp_path).measurements if row.metric == "steps"] == [
        ("steps", 0.5)
    ]

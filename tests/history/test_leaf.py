"""Leaves: cheap to list, versions from the table, a record beside every figure, and no figure of what computes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.bench import engine
from stackproof.bench.rows import Sampled
from stackproof.bench.subjects import Subject, profile
from stackproof.history import leaf
from stackproof.record import store
from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.record.records import Verdict

from . import making


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "facts.json").write_text(json.dumps({**making.FACTS, "stack": "cpu"}), encoding="utf-8")
    for name, value in (
        (leaf.STACK, "cpu"),
        (leaf.REHEARSED, ""),
        (leaf.DEVICE, ""),
        (leaf.PROFILE, "fast"),
        (leaf.FACTS, str(tmp_path / "facts.json")),
        (leaf.PIECES, str(tmp_path / "pieces")),
        ("ASV_COMMIT", "b" * 40),
    ):
        monkeypatch.setenv(name, value)


def sampled(subject: Subject, verified: bool = True) -> Sampled:
    samples = (1e-3, 2e-3, 3e-3) if verified else ()
    worth = {"iteration": 1.0, "TFLOP": 2.0, "sample": 4.0}
    return Sampled(
        subject.name, subject.version, "tiny", subject.dtype, 1, subject.unit, samples, worth,
        "held against float64", notes=("drifted",), clocks={"clock.mhz": 1500.0},
    )  # fmt: skip


def test_a_leaf_has_the_subjects_of_its_kind() -> None:
    found = leaf.benchmarks("gemm")
    assert list(found) == ["track_gemm_float32_tiny", "track_gemm_bfloat16_tiny"]
    one = found["track_gemm_float32_tiny"]
    assert one.__dict__["version"] == next(row.version for row in leaf.subjects("fast", leaf.stack()))
    assert one.__dict__["unit"] == "seconds"
    assert one.__dict__["timeout"] > 4 * profile("fast").budget.seconds
    assert leaf.benchmarks("no such kind") == {}


def test_the_profile_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(leaf.PROFILE, "full")
    assert "track_gemm_float32_full" in leaf.benchmarks("gemm")
    monkeypatch.setenv(leaf.PROFILE, "ful")
    with pytest.raises(Refusal, match="did you mean 'full'"):
        leaf.benchmarks("gemm")


def test_a_leaf_needs_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(leaf.STACK)
    with pytest.raises(Refusal, match="nox -s NAME-asv"):
        leaf.benchmarks("gemm")


def test_listing_imports_no_torch() -> None:
    code = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import importlib, pkgutil, benchmarks
modules = [importlib.import_module(f"benchmarks.{found.name}") for found in pkgutil.iter_modules(benchmarks.__path__)]
assert any(name.startswith("track_") for module in modules for name in vars(module)), modules
print("torch" in sys.modules)
"""
    command = [sys.executable, "-c", code, str(ROOT / "src"), str(ROOT)]
    ended = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == "False", ended.stderr


def measured(monkeypatch: pytest.MonkeyPatch, answer: Sampled | Exception) -> Subject:
    """Let the engine answer so, and return the subject that is asked for."""

    def measure(*_: object) -> Sampled:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(engine, "measure", measure)
    return next(one for one in leaf.subjects("fast", leaf.stack()) if one.name == "gemm-float32")


def test_a_figure_leaves_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = next(one for one in leaf.subjects("fast", leaf.stack()) if one.name == "gemm-float32")
    measured(monkeypatch, sampled(subject))
    assert leaf.run(subject, profile("fast")) == {"samples": [1e-3, 2e-3, 3e-3], "number": 1}
    (record,) = store.load([tmp_path / "pieces"]).records.values()
    row, *others = record.measurements
    assert [other.version for other in others] == ["", ""]
    assert (row.samples, row.value, row.version, row.unit, row.note) == (
        [1e-3, 2e-3, 3e-3],
        2e-3,
        subject.version,
        "s/TFLOP",
        "drifted",
    )
    assert record.provenance["commit"] == "b" * 40
    assert record.checks[0].id == "asv/gemm::gemm-float32[tiny]"
    assert row.figures["clock.mhz"] == 1500.0


def test_what_computes_wrong_has_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = measured(monkeypatch, Refusal("not yet"))
    measured(monkeypatch, sampled(subject, verified=False))
    with pytest.raises(RuntimeError, match="gemm-float32 computes wrong and was not timed"):
        leaf.run(subject, profile("fast"))
    (record,) = store.load([tmp_path / "pieces"]).records.values()
    assert (record.verdict, record.measurements) == (Verdict.FAILED, [])


def test_a_clock_that_lies_has_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = measured(monkeypatch, CheckFailed("synchronising does not wait"))
    with pytest.raises(CheckFailed):
        leaf.run(subject, profile("fast"))
    (record,) = store.load([tmp_path / "pieces"]).records.values()
    assert (record.checks[0].verdict, record.checks[0].reason) == (Verdict.FAILED, "synchronising does not wait")


def test_what_the_stack_cannot_run_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner" / "asv_runner").symlink_to(making.asv_packages() / "asv_runner")
    monkeypatch.syspath_prepend(str(tmp_path / "runner"))
    from asv_runner.benchmarks.mark import SkipNotImplemented

    subject = measured(monkeypatch, CapabilityMissing("precisions has no float32"))
    with pytest.raises(SkipNotImplemented, match="precisions has no float32"):
        leaf.run(subject, profile("fast"))
    assert store.files([tmp_path / "pieces"]) == []


def test_pieces_of_one_commit_become_one_record(tmp_path: Path) -> None:
    command = leaf.Command.begin(tmp_path / "pieces")
    for day, commit in ((2, "a"), (0, "a"), (1, "b")):
        store.append(making.record(day, making.figure(1e-3 * (day + 1)), commit=commit * 40), command.folder)
    made, problems = command.end(tmp_path / "store", keep=True)
    assert problems == []
    found = store.load([tmp_path / "store"]).records
    assert set(found) == set(made)
    (first,) = [one for one in found.values() if one.provenance["commit"] == "a" * 40]
    assert [round(row.value, 4) for row in first.measurements] == [1e-3, 3e-3]
    assert (first.verb, len(first.checks), first.seconds, first.verdict) == ("asv", 2, 2.0, Verdict.PASSED)
    assert len(found) == 2
    assert list((tmp_path / "pieces").iterdir()) == []


def test_one_failure_does_not_lose_the_others(tmp_path: Path) -> None:
    good, bad = making.record(0), making.record(1, verdict=Verdict.FAILED)
    bad.measurements = []
    (joined,) = leaf.join([good, bad])
    assert joined.verdict is Verdict.FAILED
    assert len(joined.measurements) == 1


def test_a_command_that_keeps_nothing_leaves_nothing(tmp_path: Path) -> None:
    command = leaf.Command.begin(tmp_path / "pieces")
    store.append(making.record(0), command.folder)
    assert command.end(tmp_path / "store", keep=False) == ([], [])
    assert store.files([tmp_path]) == []


def test_pieces_of_a_running_command_are_its_own(tmp_path: Path) -> None:
    command = leaf.Command.begin(tmp_path / "pieces")
    store.append(making.record(0), command.folder)
    other = f"""
from pathlib import Path
from stackproof.history import leaf
print(leaf.seal_left(Path({str(tmp_path / "pieces")!r}), Path({str(tmp_path / "store")!r})))
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = subprocess.run([sys.executable, "-c", other], env=env, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "([], [])"
    made, _ = command.end(tmp_path / "store", keep=True)
    assert len(made) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from stackproof.record import reading
from stackproof.history import leaf
from stackproof.record import store
command = leaf.Command.begin(Path(sys.argv[1]))
store.append(reading.read(Path(sys.argv[2])), command.folder)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_command_measured_is_kept(tmp_path: Path) -> None:
    seed = store.append(making.record(0), tmp_path / "seed")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "pieces"), str(seed)]
    assert subprocess.run(command, env=env, check=False).returncode < 0
    (folder,) = (tmp_path / "pieces").iterdir()
    (folder / "20260101T000000-asv-0.record.json").write_text("{", encoding="utf-8")
    made, problems = leaf.seal_left(tmp_path / "pieces", tmp_path / "store")
    assert len(made) == 1
    assert len(problems) == 1
    assert list((tmp_path / "pieces").iterdir()) == []
    assert store.load([tmp_path / "store"]).records[made[0]].measurements == making.record(0).measurements

"""Leaves: cheap to list, versions from the table, a record beside every figure, and no figure of what computes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.bench import engine
from stackproof.bench.rows import Sampled
from stackproof.bench.subjects import Subject, profile, profiles, subjects
from stackproof.history import leaf
from stackproof.history.timeline import SeriesKey, entries, pooled
from stackproof.record import store
from stackproof.record.checks import CapabilityMissing, CheckFailed, CheckInconclusive
from stackproof.record.records import Verdict
from stackproof.record.store import place, state
from stackproof.stack import provenance, stacks

from . import making


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "facts.json").write_text(
        json.dumps({**making.FACTS, "stack": "cpu", "code": "that of the checkout", "code.differs": "noxfile.py"}),
        encoding="utf-8",
    )
    for name, value in (
        (leaf.STACK, "cpu"),
        (leaf.REHEARSED, ""),
        (leaf.DEVICE, ""),
        (leaf.PROFILE, "fast"),
        (leaf.FACTS, str(tmp_path / "facts.json")),
        (leaf.PIECES, str(tmp_path / "pieces")),
    ):
        monkeypatch.setenv(name, value)


def sampled(subject: Subject, verified: bool = True) -> Sampled:
    samples = (1e-3, 2e-3, 3e-3) if verified else ()
    worth = {"iteration": 1.0, "TFLOP": 2.0, "sample": 4.0}
    return Sampled(
        subject.name, subject.version, "tiny", subject.dtype, 1, subject.unit, samples, worth,
        "held against float64", notes=("drifted",), facts={"clock.mhz": 1500.0},
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
    code = provenance.code_facts()
    assert record.provenance.items() >= code.items()
    assert record.provenance.get(provenance.DIFFERS) == code.get(provenance.DIFFERS)
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


def test_what_the_stack_cannot_run_or_nobody_can_tell_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner" / "asv_runner").symlink_to(making.asv_packages() / "asv_runner")
    monkeypatch.syspath_prepend(str(tmp_path / "runner"))
    from asv_runner.benchmarks.mark import SkipNotImplemented

    subject = measured(monkeypatch, CapabilityMissing("precisions has no float32"))
    with pytest.raises(SkipNotImplemented, match="precisions has no float32"):
        leaf.run(subject, profile("fast"))
    assert store.files([tmp_path / "pieces"]) == []
    measured(monkeypatch, CheckInconclusive("others used the host"))
    with pytest.raises(SkipNotImplemented, match="others used the host"):
        leaf.run(subject, profile("fast"))
    (record,) = store.load([tmp_path / "pieces"]).records.values()
    assert (record.verdict, record.checks[0].reason) == (Verdict.INCONCLUSIVE, "others used the host")


def test_pieces_of_one_commit_become_one_record(tmp_path: Path) -> None:
    for day, commit in ((2, "a"), (0, "a"), (1, "b")):
        store.append(making.record(day, making.figure(1e-3 * (day + 1)), commit=commit * 40), tmp_path / "pieces")
    made, problems = leaf.end(tmp_path / "pieces", tmp_path / "store", keep=True)
    assert problems == []
    found = store.load([tmp_path / "store"]).records
    assert set(found) == set(made)
    (first,) = [one for one in found.values() if one.provenance["commit"] == "a" * 40]
    assert [round(row.value, 4) for row in first.measurements] == [1e-3, 3e-3]
    assert (first.verb, len(first.checks), first.seconds, first.verdict) == ("asv", 2, 2.0, Verdict.PASSED)
    assert len(found) == 2
    assert not (tmp_path / "pieces").exists()


def test_one_failure_does_not_lose_the_others(tmp_path: Path) -> None:
    good, bad = making.record(0), making.record(1, verdict=Verdict.FAILED)
    bad.measurements = []
    (joined,) = leaf.join([good, bad])
    assert joined.verdict is Verdict.FAILED
    assert len(joined.measurements) == 1


def test_a_command_that_keeps_nothing_leaves_nothing(tmp_path: Path) -> None:
    store.append(making.record(0), tmp_path / "pieces")
    assert leaf.end(tmp_path / "pieces", tmp_path / "store", keep=False) == ([], [])
    assert store.files([tmp_path]) == []


def everything() -> list[tuple[Subject, str]]:
    """Return every subject with the preset of each profile that has it."""
    stack = stacks.load("cpu")
    return [(one, chosen.preset) for chosen in profiles() for one in subjects(chosen.name, stack)]


def test_each_subject_has_a_name_of_its_own() -> None:
    keys = {SeriesKey(one.name, preset, one.unit) for one, preset in everything()}
    assert len({leaf.name_of(key) for key in keys}) == len(keys)


def test_each_kind_has_a_leaf() -> None:
    kinds = {leaf.word(one.kind) for one, _ in everything()}
    leaves = {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")}
    assert leaves == kinds


def test_asv_can_find_a_benchmark_by_its_name() -> None:
    for one, preset in everything():
        module, _, function = leaf.name_of(SeriesKey(one.name, preset, one.unit)).partition(".")
        assert function.startswith("track_")
        assert function.isidentifier()
        assert module.isidentifier()


def test_a_subject_that_is_gone_keeps_its_history() -> None:
    row = making.figure(workload="gone-with-1.5", version="7")
    (one,) = pooled(entries({Path("a"): making.record(0, row)}))
    told = leaf.description(one)
    assert (told["name"], told["version"]) == ("retired.track_gone_with_1_5_tiny", "7")


def test_the_version_is_that_of_the_checkout() -> None:
    (one,) = pooled(entries({Path("a"): making.record(0, making.figure(version="0"))}))
    current = next(subject.version for subject, _ in everything() if subject.name == "gemm-float32")
    assert leaf.description(one)["version"] == current


def test_titles_say_for_how_much_work() -> None:
    assert leaf.title(SeriesKey("copy", "tiny", "s/GB")) == "copy (tiny), per GB"
    assert leaf.title(SeriesKey("import", "full", "s")) == "import (full)"


def test_two_drivers_are_two_files_and_two_lines() -> None:
    facts = making.FACTS
    here, before, after = place(facts), state(facts), state({**facts, **making.NEW_DRIVER})
    assert leaf.environment(here, before) != leaf.environment(here, after)
    assert leaf.axes(here, before)["driver"] == "580.65.06"
    assert leaf.axes(here, after)["driver"] == "590.10.01"
    other = state({**facts, "commit": "b" * 40})
    assert leaf.environment(here, before) == leaf.environment(here, other)
    assert leaf.axes(here, before) == leaf.axes(here, other)


def test_names_of_environments_are_short() -> None:
    assert len(leaf.environment(place(making.FACTS), state(making.FACTS))) < 60


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.slow
def test_the_facts_are_those_of_the_interpreter() -> None:
    facts = leaf.ask(Path(sys.executable), stacks.load("cpu"), {**ENVIRONMENT, "STACKPROOF_HOST": "box"})
    assert (facts["host"], facts["stack"], facts["rehearsed"]) == ("box", "cpu", False)
    assert {"torch", "lock", "devices", "cpu.name", "commit", "kernel"} <= set(facts)


@pytest.mark.slow
def test_defaults_of_the_stack_are_told_from_what_the_user_set(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = replace(stacks.load("cpu"), environment={"CCL_ATL_TRANSPORT": "ofi", "CCL_WORKER_COUNT": "1"})
    monkeypatch.setattr(leaf.stacks, "load", lambda _, **__: stack)
    monkeypatch.setattr(leaf.os, "environ", {**os.environ, "CCL_WORKER_COUNT": "2"})
    facts = leaf.facts("cpu", rehearsed=False)
    assert facts["env.CCL_ATL_TRANSPORT (default of the stack)"] == "ofi"
    assert facts["env.CCL_WORKER_COUNT"] == "2"
    assert leaf.os.environ["CCL_ATL_TRANSPORT"] == "ofi"


def ending(tmp_path: Path, code: int, said: str) -> Path:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("code", "kind"), [(2, Refusal), (3, StackUnavailableError), (4, EnvironmentMismatchError), (1, Refusal)]
)
def test_a_refusal_keeps_its_exit_code(tmp_path: Path, code: int, kind: type[Refusal]) -> None:
    with pytest.raises(Refusal, match="^no such card$") as caught:
        leaf.ask(ending(tmp_path, code, "stackproof: no such card"), stacks.load("cpu"), ENVIRONMENT)
    assert type(caught.value) is kind


def test_an_interpreter_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StackUnavailableError, match="absent: does not answer what it is"):
        leaf.ask(tmp_path / "absent", stacks.load("cpu"), ENVIRONMENT)


@pytest.mark.slow
def test_a_host_without_the_device_is_refused() -> None:
    with pytest.raises(StackUnavailableError, match="this host has no stack 'dcu'"):
        leaf.ask(Path(sys.executable), stacks.load("dcu"), ENVIRONMENT)

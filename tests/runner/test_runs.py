"""One run from host to record: what is refused early, what is refused late, and that the record survives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.record import reading, records
from stackproof.record.records import Check, Record, Verdict
from stackproof.record.writer import Outputs
from stackproof.runner import runs, supervise
from stackproof.runner.request import Request
from stackproof.stack import environment_proof, stacks
from stackproof.stack.stacks import HostRequirement

from ..conftest import Silent

CPU = stacks.load("cpu")


@pytest.fixture(autouse=True)
def no_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the suite by one passed check, and the environment's proof by an unpinned one."""

    def run(request: Request, record: Record, observer: Silent, folder: Path) -> Record:
        record.checks.append(Check("smoke/a::b", Verdict.PASSED, "as expected", 0.1))
        record.verdict = Verdict.PASSED
        return record

    monkeypatch.setattr(supervise, "run", run)
    monkeypatch.setattr(
        environment_proof, "prove", lambda stack, deep: environment_proof.Proof(False, "", (), 3, "2.15.0", {})
    )


def test_a_run_writes_its_record(tmp_path: Path, silent: Silent) -> None:
    wanted = tmp_path / "sub" / "mine.json"
    record, where = runs.conduct(Request("smoke", CPU, ("smoke",)), Outputs(tmp_path / "results", wanted), silent)
    assert ["host", "environment", "smoke/a::b"] == [check.id for check in record.checks]
    assert record == reading.read(where) == reading.read(wanted)
    assert record.provenance["pinned"] is False


def test_a_host_without_the_stack_is_unavailable(tmp_path: Path, silent: Silent) -> None:
    stack = replace(CPU, device="xpu", host=(HostRequirement("a card", ("/nonexistent",), (), (), ()),))
    record, _ = runs.conduct(Request("smoke", stack, ("smoke",)), Outputs(tmp_path), silent)
    assert (Verdict.UNAVAILABLE, 3) == (record.verdict, record.verdict.exit_code)
    assert "a card (looked at /nonexistent)" in record.checks[0].reason


def test_in_a_container_what_torch_sees_counts(tmp_path: Path, silent: Silent) -> None:
    stack = replace(CPU, host=(HostRequirement("a card", ("/nonexistent",), (), (), ()),))
    record, _ = runs.conduct(Request("smoke", stack, ("smoke",)), Outputs(tmp_path), silent)
    assert record.verdict is Verdict.PASSED
    assert "torch sees 1 'cpu' device(s), although the host shows no a card" in record.checks[0].reason


@pytest.mark.parametrize(
    ("refusal", "verdict", "name"),
    [
        (EnvironmentMismatchError("+ extra==1"), Verdict.MISMATCHED, "environment"),
        (StackUnavailableError("no torch"), Verdict.UNAVAILABLE, "host"),
    ],
)
def test_a_refusal_is_a_check(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch, refusal: Refusal, verdict: Verdict, name: str
) -> None:
    def refuse(stack: object, deep: bool) -> None:
        raise refusal

    monkeypatch.setattr(environment_proof, "prove", refuse)
    record, _ = runs.conduct(Request("smoke", CPU, ("smoke",)), Outputs(tmp_path), silent)
    assert (verdict, name, str(refusal)) == (record.verdict, record.checks[-1].id, record.checks[-1].reason)


def test_a_bad_file_stays_a_refusal(tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(stack: object, deep: bool) -> None:
        raise Refusal("stacks/cpu/requirements.lock: broken")

    monkeypatch.setattr(environment_proof, "prove", refuse)
    with pytest.raises(Refusal, match="broken"):
        runs.conduct(Request("smoke", CPU, ("smoke",)), Outputs(tmp_path), silent)


def test_an_unwritable_place_is_refused_before_the_run(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(supervise, "run", lambda *arguments: pytest.fail("ran"))
    with pytest.raises(Refusal, match="nothing can be written there"):
        runs.conduct(Request("smoke", CPU, ("smoke",)), Outputs(tmp_path / "file" / "results"), silent)


def stopped(tmp_path: Path, silent: Silent) -> Path:
    """Leave the record of a run that was stopped in its second check."""
    record, where = runs.conduct(Request("verify", CPU, ("smoke",)), Outputs(tmp_path), silent)
    record.verdict = Verdict.INTERRUPTED
    record.checks.append(Check("smoke/c::d", Verdict.INTERRUPTED, "interrupted from outside", 0.0))
    records.write(record, where)
    return where


def test_a_stopped_run_is_continued(tmp_path: Path, silent: Silent) -> None:
    where, rows = stopped(tmp_path, silent), Path("stage-0", "worker-0", "outcomes-gloo-2", "0", "rank0.outcomes")
    (where.parent / rows).parent.mkdir(parents=True)
    (where.parent / rows).write_text('{"row": "first"}\n')
    record, again = runs.conduct(Request("verify", CPU, ("smoke",)), Outputs(tmp_path), silent, go_on=True)
    assert (again.parent / rows).read_text() == '{"row": "first"}\n'
    assert "smoke/a::b" in [check.id for check in record.checks]
    assert "smoke/c::d" not in [check.id for check in record.checks]
    assert record.provenance["continues"] == where.parent.name


@pytest.mark.parametrize("fact", ["lock", "commit", "torch"])
def test_a_run_of_other_bits_is_not_continued(tmp_path: Path, silent: Silent, fact: str) -> None:
    where = stopped(tmp_path, silent)
    record = reading.read(where)
    record.provenance[fact] = "other"
    records.write(record, where)
    with pytest.raises(Refusal, match=f"'{fact}' is 'other' then"):
        runs.conduct(Request("verify", CPU, ("smoke",)), Outputs(tmp_path), silent, go_on=True)


def test_nothing_to_continue_is_said(tmp_path: Path, silent: Silent) -> None:
    request = Request("verify", CPU, ("smoke",))
    with pytest.raises(Refusal, match="there is no earlier verify of cpu"):
        runs.conduct(request, Outputs(tmp_path / "none"), silent, go_on=True)
    runs.conduct(request, Outputs(tmp_path), silent)
    with pytest.raises(Refusal, match="was not stopped, it ended as 'passed'"):
        runs.conduct(request, Outputs(tmp_path), silent, go_on=True)


def test_one_file_for_two_outputs_is_refused(tmp_path: Path, silent: Silent) -> None:
    with pytest.raises(Refusal, match="name two files"):
        runs.conduct(Request("smoke", CPU, ("smoke",)), Outputs(tmp_path, tmp_path / "a", tmp_path / "a"), silent)


def test_a_record_that_cannot_be_kept_is_rescued(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keep = records.write
    written: list[Any] = []

    def write(record: Record, path: Path) -> None:
        if not written:
            written.append(path)
            raise Refusal(f"{path}: the record cannot be written (No space left on device)")
        keep(record, path)

    monkeypatch.setattr(records, "write", write)
    with pytest.raises(Refusal, match="was saved as"):
        runs.conduct(Request("smoke", CPU, ("smoke",)), Outputs(tmp_path / "results"), silent)
    (rescued,) = tmp_path.glob("stackproof-*/record.json")
    assert json.loads(rescued.read_text())["verdict"] == "passed"


def test_torch_is_asked_for_the_device_once_the_environment_is_proved(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request("smoke", CPU, ("smoke",), "cpu:9")
    with pytest.raises(Refusal, match="device 'cpu:9' does not exist; choose one of cpu"):
        runs.conduct(request, Outputs(tmp_path), silent)

    def mismatched(*_: object) -> None:
        raise EnvironmentMismatchError("torch/__init__.py is not the file that its wheel held")

    monkeypatch.setattr(environment_proof, "prove", mismatched)
    record, _ = runs.conduct(request, Outputs(tmp_path), silent)
    assert record.verdict is Verdict.MISMATCHED

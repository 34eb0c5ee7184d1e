"""A host in a sweep: whatever happens to its smoke run or its cards, it leaves one record that says so."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackproof import cli
from stackproof.base import processes
from stackproof.base.errors import EnvironmentMismatchError, StackUnavailableError
from stackproof.extras import verbs
from stackproof.extras.fleet import answers, card, judge, plan
from stackproof.extras.fleet.judgement import HostVerdict
from stackproof.record import reading, records
from stackproof.record.records import Check, Figure, Record, Verdict
from stackproof.stack import environment_proof, hosts, stacks

from .making import ALL, START

Run = Callable[[list[str], Path, float], "int | None"]


def order(folder: Path, *without: str) -> card.CardOrder:
    """Return what the host n1 is asked to do on the cpu stack, by the plan in the folder if there is one."""
    made = plan.load(folder) if (folder / plan.NAME).exists() else ALL
    return card.CardOrder(dataclasses.replace(made, without=without), folder, "n1")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], Record]:
    """Let the host work, with this in place of the processes of its cards."""
    for name in ("CUBLAS_WORKSPACE_CONFIG", "ROCBLAS_DEFAULT_ATOMICS_MODE", processes.MARK):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    (tmp_path / "own").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "own"))

    def take(run: Run) -> Record:
        monkeypatch.setattr(verbs, "run", run)
        monkeypatch.setattr(
            environment_proof, "prove", lambda stack: environment_proof.Proof(False, "", (), 3, "2.15.0", {}, None, "")
        )
        return card.HostWork(order(tmp_path, "doctor", "smoke"), lambda _: None).take()

    return take


def left(words: list[str], cards: int = 1) -> None:
    """Leave what a card does: a replayed row, and how many cards there are."""
    told = json.loads(words[-1])
    figures: dict[str, Figure] = {"card": str(told["card"]), "digest": "00000000deadbeef", "products": 10, "odd": 0}
    rows = [
        Check(
            "replay/0::x[normal]",
            Verdict.PASSED,
            "10 products",
            1.0,
            figures,
            group="replay",
            subject="x",
            aspect="normal",
        ),
        Check(f"card/{told['card']}", Verdict.PASSED, "replayed 10 products", 1.0),
    ]
    if told["card"] == 0:
        card.CardTurns(Path(told["turns"]), 0, cards, 1.0).announce()
    records.write(Record("fleet", "cpu", START, 1.0, Verdict.PASSED, {"cards": cards}, rows), Path(told["out"]))


def test_each_card_answers(work: Callable[[Run], Record]) -> None:
    seen = []

    def run(words: list[str], log: Path, deadline: float) -> int:
        seen.append(json.loads(words[-1]))
        left(words, cards=3)
        return 0

    record = work(run)
    assert sorted(one["card"] for one in seen) == [0, 1, 2] and len({one["turns"] for one in seen}) == 1
    assert record.verdict is Verdict.PASSED and record.provenance["host"] == "n1"
    assert [check.verdict for check in record.checks if check.id in ("doctor", "smoke")] == [Verdict.SKIPPED] * 2
    assert {check.figures["card"] for check in record.checks if check.group == "replay"} == {"0", "1", "2"}


def test_cards_work_side_by_side(work: Callable[[Run], Record]) -> None:
    together = threading.Barrier(3, timeout=20)

    def run(words: list[str], log: Path, deadline: float) -> int:
        told = json.loads(words[-1])
        if told["card"] == 0:
            card.CardTurns(Path(told["turns"]), 0, 3, 1.0).announce()
        together.wait()
        left(words, cards=3)
        return 0

    record = work(run)
    assert [check.id for check in record.checks if check.id.startswith("card/")] == ["card/0", "card/1", "card/2"]


def test_nothing_is_left_in_the_temporary_folder(work: Callable[[Run], Record]) -> None:
    def run(words: list[str], log: Path, deadline: float) -> int:
        return 1

    assert work(run).verdict is Verdict.CRASHED
    assert not list(Path(tempfile.gettempdir()).iterdir())


@pytest.mark.parametrize(("code", "verdict"), [(None, Verdict.HUNG), (-9, Verdict.CRASHED), (1, Verdict.CRASHED)])
def test_a_card_that_hangs_or_dies_is_in_the_record(
    work: Callable[[Run], Record], code: int | None, verdict: Verdict
) -> None:
    def run(words: list[str], log: Path, deadline: float) -> int | None:
        log.write_text("HSA_STATUS_ERROR: no more", encoding="utf-8")
        return code

    record = work(run)
    assert record.verdict is verdict
    assert "HSA_STATUS_ERROR" in record.checks[-1].reason


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(EnvironmentMismatchError("another"), Verdict.MISMATCHED), (StackUnavailableError("no"), Verdict.UNAVAILABLE)],
)
def test_a_host_without_its_stack_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, verdict: Verdict
) -> None:
    def no(_: object) -> None:
        raise error

    monkeypatch.setattr(hosts, "require", no)
    record = card.HostWork(order(tmp_path), lambda _: None).take()
    assert record.verdict is verdict and str(error) in record.checks[0].reason


def test_an_interrupted_host_leaves_a_record(work: Callable[[Run], Record]) -> None:
    def run(words: list[str], log: Path, deadline: float) -> int:
        raise KeyboardInterrupt

    assert work(run).verdict is Verdict.INTERRUPTED


def test_what_the_plan_leaves_out_is_said(tmp_path: Path, work: Callable[[Run], Record]) -> None:
    def run(words: list[str], log: Path, deadline: float) -> int:
        left(words)
        return 0

    made = plan.make("cpu", "tiny", ["n1"], without=["doctor", "smoke"])
    made.keep(tmp_path)
    records.write(work(run), answers.record_path(tmp_path, "n1"))
    found = judge.judge(tmp_path)
    assert any("leaves out doctor and smoke" in note for note in found.notes)
    assert found.hosts[0].standing is HostVerdict.UNLIKE  # one host has nobody to be compared with


def test_a_host_answers_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken: list[int] = []
    plan.make("cpu", "tiny", ["n1"]).keep(tmp_path)
    facts: dict[str, Figure] = {"host": "n1", "plan": plan.load(tmp_path).id}
    made = Record("fleet", "cpu", START, 1.0, Verdict.FAILED, facts, [Check("a", Verdict.FAILED, "b is c", 0.0)])

    def take(_: object) -> Record:
        taken.append(1)
        return made

    monkeypatch.setattr(card.HostWork, "take", take)
    words = ["fleet", "card", str(tmp_path), "--stack", "cpu", "--host", "n1"]
    assert [cli.main(words), cli.main(words), len(taken)] == [1, 0, 1]
    said = capsys.readouterr().out
    assert "n1: failed in 0.0 minutes: a: b is c; record: " in said and "has answered already" in said
    answers.record_path(tmp_path, "n1").write_text("{", encoding="utf-8")
    assert [cli.main(words), len(taken)] == [1, 2]


def test_a_host_without_its_driver_leaves_a_record_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(_: object) -> None:
        raise StackUnavailableError("no driver")

    monkeypatch.setattr(hosts, "require", no)
    monkeypatch.setattr(hosts, "inspect", lambda _: SimpleNamespace(present=False))
    plan.make("cpu", "tiny", ["n1"]).keep(tmp_path)
    words = ["fleet", "card", str(tmp_path), "--locked", "--host", "n1"]
    assert [cli.main(words), cli.main(words)] == [3, 3]
    assert answers.reason(reading.read(answers.record_path(tmp_path, "n1"))) == "environment: no driver"


def test_an_answer_to_another_plan_is_none(tmp_path: Path) -> None:
    path = answers.record_path(tmp_path, "n1")
    path.parent.mkdir()
    facts: dict[str, Figure] = {"host": "n1", "plan": "0123456789abcdef"}
    records.write(
        Record("fleet", "cpu", START, 1.0, Verdict.PASSED, facts, [Check("a", Verdict.PASSED, "b", 0.0)]), path
    )
    theirs, other = (dataclasses.replace(ALL, id=own) for own in ("0123456789abcdef", "fedcba9876543210"))
    assert card.answered(card.CardOrder(theirs, tmp_path, "n1")) and not card.answered(
        card.CardOrder(other, tmp_path, "n1")
    )


def test_the_scheduler_says_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan.make("cpu", "tiny", ["node7"]).keep(tmp_path)
    seen: list[str] = []

    def answered(one: card.CardOrder) -> bool:
        seen.append(one.host)
        return True

    monkeypatch.setattr(card, "answered", answered)
    monkeypatch.setenv("SLURMD_NODENAME", "node7")
    assert cli.main(["fleet", "card", str(tmp_path), "--stack", "cpu"]) == 0
    assert seen == ["node7"]
    assert cli.main(["fleet", "card", str(tmp_path), "--stack", "cpu", "--host", "x;y"]) == 2


def test_what_is_replayed_is_told_how_to_choose_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setenv("ROCBLAS_DEFAULT_ATOMICS_MODE", "1")
    found = card.defaults(stacks.load("cpu"))
    assert found["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8" and "ROCBLAS_DEFAULT_ATOMICS_MODE" not in found
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


@pytest.mark.parametrize(
    ("host", "said"), [("nobody", "has no host 'nobody'"), ("n2", "did you mean 'n1'?"), ("", "no name of a host")]
)
def test_a_host_that_no_plan_names_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str, said: str
) -> None:
    plan.make("cpu", "tiny", ["n1"]).keep(tmp_path)
    assert cli.main(["fleet", "card", str(tmp_path), "--host", host]) == 2
    assert said in capsys.readouterr().err and not list((tmp_path / "records").iterdir())

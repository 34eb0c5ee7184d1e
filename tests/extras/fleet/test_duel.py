"""A duel: whom it puts beside whom, and what it says of what both sides have measured or computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.extras.fleet import duel, plan, report, sweep
from stackproof.extras.fleet.judgement import HostStanding
from stackproof.record.records import Verdict

from .making import KERNELS, SUBJECTS, MadeHost, fleet
from .playing import play


def of(folder: Path, host: str) -> HostStanding:
    """Return the word on one host."""
    return next(one for one in sweep.judged(folder).hosts if one.host == host)


def test_a_slow_host_is_confirmed_and_an_innocent_one_is_not(tmp_path: Path) -> None:
    odd = (MadeHost("guilty", slow={SUBJECTS[0]: 1.2}), MadeHost("innocent", slow={SUBJECTS[0]: 1.2}))
    folder = fleet(tmp_path / "s", 8, *odd)
    play(tmp_path, {"guilty": {"slow": 1.2}}).fought(folder)
    assert of(folder, "guilty").confirmed and "+20" in of(folder, "guilty").reason
    assert of(folder, "innocent").standing.value == "proved"


def test_who_was_refuted_is_told(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "s", 8, MadeHost("innocent", slow={SUBJECTS[0]: 1.2}))
    play(tmp_path).fought(folder)
    found = sweep.judged(folder)
    for text in (report.terminal(found), report.markdown(found)):
        assert "refuted beside a healthy host" in text and "innocent: gemm" in text and "in 12 turns" in text


@pytest.mark.slow
def test_a_few_per_cent_take_every_partner(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "s", 8, MadeHost("guilty", slow={SUBJECTS[0]: 1.05}))
    (challenge,) = duel.challenges(
        sweep.judged(folder), plan.load(folder).hosts, report.open_suspects(sweep.judged(folder))
    )
    assert len(set(challenge.partners)) == 4 and "guilty" not in challenge.partners
    (record,) = play(tmp_path, {"guilty": {"slow": 1.04}}).fought(folder)
    assert record.verdict is Verdict.FAILED and "in 48 turns" in record.checks[0].reason


@pytest.mark.parametrize(
    ("part", "verdict", "said"),
    [
        ({"odd": 2}, Verdict.FAILED, "transient: 2 of 9"),
        ({"digest": "1" * 16}, Verdict.FAILED, "persistent"),
        ({}, Verdict.INCONCLUSIVE, "not again in 9 products"),
    ],
)
def test_what_computes_wrong_replays_beside_a_healthy_one(
    tmp_path: Path, part: dict[str, object], verdict: Verdict, said: str
) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", digests={KERNELS[0]: "0000000000000003"}))
    (record,) = play(tmp_path, {"ill": part}).fought(folder)
    assert record.verdict is verdict and said in record.checks[0].reason
    assert of(folder, "ill").standing.value == "wrong"


@pytest.mark.parametrize(
    "part", [{"digest": "2" * 16}, pytest.param({"odd": 1}, marks=pytest.mark.slow)], ids=["other", "now and then"]
)
def test_a_partner_that_computes_wrong_accuses_nobody(tmp_path: Path, part: dict[str, object]) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", digests={KERNELS[0]: "0000000000000003"}))
    partners = {f"n{number:02}": part for number in range(1, 7)}
    (record,) = play(tmp_path, {"ill": {"digest": "1" * 16}, **partners}).fought(folder)
    assert {check.verdict for check in record.checks} == {Verdict.INCONCLUSIVE}
    assert not of(folder, "ill").confirmed and "computes other than in the sweep" in record.checks[0].reason


@pytest.mark.slow
@pytest.mark.parametrize("liar", ["ill", "n"])
def test_who_says_other_times_than_we_wait_decides_nothing(tmp_path: Path, liar: str) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", slow={SUBJECTS[0]: 1.2}))
    parts = {
        name: {"really": 10.0}
        for name in [f"n{number:02}" for number in range(1, 7)] + ["ill"]
        if name.startswith(liar)
    }
    (record,) = play(tmp_path, parts, clocks=1.0).fought(folder)
    assert record.verdict is Verdict.INCONCLUSIVE and "by the hosts' own clocks" in record.checks[0].reason


@pytest.mark.slow
def test_who_says_that_it_worked_for_little_of_our_wait_decides_nothing(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", slow={SUBJECTS[0]: 1.2}))
    parts = {name: {"really": 40.0} for name in ("ill", *(f"n{number:02}" for number in range(1, 7)))}
    (record,) = play(tmp_path, parts, worked=0.25).fought(folder)
    assert record.verdict is Verdict.INCONCLUSIVE and "of what we have waited for it" in record.checks[0].reason


def test_hosts_that_are_of_different_states_by_now_are_not_compared(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", slow={SUBJECTS[0]: 1.2}))
    (record,) = play(tmp_path, {"ill": {"torch": "2.14"}}).fought(folder)
    assert record.verdict is Verdict.INCONCLUSIVE and "torch: 2.15 -> 2.14" in record.checks[0].reason
    assert of(folder, "ill").standing.value in ("slow", "suspected")


def test_nobody_healthy_is_nobody_to_stand_beside(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "s", 0, *(MadeHost(f"w{number}", odd=1) for number in range(5)))
    records = play(tmp_path).fought(folder)
    assert len(records) == 5 and {record.verdict for record in records} == {Verdict.INCONCLUSIVE}
    assert "no healthy host of its state" in records[0].checks[0].reason


def test_a_host_that_is_not_in_the_plan_is_not_called(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("stranger", slow={SUBJECTS[0]: 1.5}))
    made = plan.load(folder)
    (folder / "plan.json").unlink()
    plan.make("s", "cpu", "tiny", [host for host in made.hosts if host != "stranger"]).keep(folder)
    assert play(tmp_path).fought(folder) == []

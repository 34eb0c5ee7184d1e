"""A fleet is judged from records: each odd host has its word and its reason, and nobody is green who was not heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.fleet import answers, sweep
from stackproof.fleet.judgement import FleetJudgement, HostStanding, Standing
from stackproof.record import records
from stackproof.record.records import Check, Record, Verdict

from .making import KERNELS, START, SUBJECTS, MadeHost, fleet, leave, record


def of(found: FleetJudgement, host: str) -> HostStanding:
    """Return the word on one host."""
    return next(one for one in found.hosts if one.host == host)


def test_each_odd_host_is_named_with_its_reason(tmp_path: Path) -> None:
    """One slow in one kind of work, one wrong, one of another driver, one that left nothing: all others are proved."""
    odd = (
        MadeHost("slow", slow={SUBJECTS[1]: 1.4}),
        MadeHost("wrong", digests={KERNELS[1]: "00000000deadbee0"}),
        MadeHost("driver", facts={"driver.nvidia-smi": "560.35"}),
    )
    found = sweep.judged(fleet(tmp_path, 12, *odd, silent=("dead",)))
    assert found.counts == {
        Standing.WRONG: 1, Standing.SLOW: 1, Standing.NOT_REACHED: 1, Standing.UNLIKE: 1, Standing.PROVED: 12,
    }  # fmt: skip
    assert "attention: 4" in of(found, "slow").reason and "slower than the median" in of(found, "slow").reason
    assert "product-bfloat16 normal: persistent: " in of(found, "wrong").reason
    assert "nvidia-smi: 550.54 -> 560.35" in of(found, "driver").reason
    assert of(found, "dead").reason == "left nothing"
    assert found.exit_code == 1


def test_equal_hosts_are_all_proved(tmp_path: Path) -> None:
    """Nobody is odd among sixty equal hosts, and the exit code is that of a pass."""
    found = sweep.judged(fleet(tmp_path, 60))
    assert (found.exit_code, found.counts) == (0, {Standing.PROVED: 60})
    assert found.groups[0].products == 60 * 4 * 1000


def test_a_card_that_disagrees_with_itself_is_wrong_and_transient(tmp_path: Path) -> None:
    """Three of a thousand equal products gave something else on the same card: no majority is needed to say so."""
    found = sweep.judged(fleet(tmp_path, 5, MadeHost("flicker", odd=3)))
    assert of(found, "flicker").standing is Standing.WRONG
    assert "normal: transient: 3 of 1000 equal products" in of(found, "flicker").reason


@pytest.mark.parametrize(
    ("verdict", "standing"),
    [
        (Verdict.FAILED, Standing.WRONG), (Verdict.HUNG, Standing.WRONG), (Verdict.MISMATCHED, Standing.UNLIKE),
        (Verdict.UNAVAILABLE, Standing.NOT_REACHED), (Verdict.INCONCLUSIVE, Standing.NOT_REACHED),
    ],
)  # fmt: skip
def test_a_host_whose_own_checks_end_badly_is_not_green(tmp_path: Path, verdict: Verdict, standing: Standing) -> None:
    """What its doctor or its smoke run said counts, however fast it is."""
    found = sweep.judged(fleet(tmp_path, 5, MadeHost("ill", verdict=verdict)))
    assert of(found, "ill").standing is standing
    assert "a reason" in of(found, "ill").reason


def test_a_failed_check_is_graver_than_a_slow_subject(tmp_path: Path) -> None:
    """A host whose smoke run failed is not called slow for what it measured besides; that is kept."""
    ill = MadeHost("ill", verdict=Verdict.FAILED, slow={SUBJECTS[0]: 1.5})
    found = of(sweep.judged(fleet(tmp_path, 8, ill)), "ill")
    assert found.standing is Standing.WRONG and "a reason" in found.reason
    assert [one.subject for one in found.findings] == [SUBJECTS[0]]


def test_a_host_that_lacks_what_its_group_has_is_not_green(tmp_path: Path) -> None:
    """A subject that one host alone did not measure is named."""
    found = sweep.judged(fleet(tmp_path, 5, MadeHost("part", lacks=(SUBJECTS[3],))))
    assert of(found, "part").standing is Standing.NOT_REACHED
    assert f"lacks {SUBJECTS[3]}" in of(found, "part").reason


def test_a_host_that_replayed_nothing_is_not_green(tmp_path: Path) -> None:
    """It lacks all of what others lack a part of."""
    folder = fleet(tmp_path, 6)
    idle = record(MadeHost("n06"))
    idle.checks = [check for check in idle.checks if check.group != answers.REPLAY]
    records.write(idle, answers.record_path(folder, "n06"))
    found = sweep.judged(folder)
    assert of(found, "n06").standing is Standing.NOT_REACHED and "lacks" in of(found, "n06").reason
    assert of(found, "n01").standing is Standing.PROVED


def test_what_one_host_did_beyond_the_others_takes_nothing_from_them(tmp_path: Path) -> None:
    """They are not called incomplete for it."""
    others = tuple(MadeHost(f"m{number}", lacks=(SUBJECTS[3],)) for number in range(6))
    found = sweep.judged(fleet(tmp_path, 1, *others))
    assert {one.standing for one in found.hosts} == {Standing.PROVED}


def test_seven_of_eight_cards_are_another_host(tmp_path: Path) -> None:
    """A node that lost a card is unlike, and its count of cards says why."""
    eight = [MadeHost(f"m{number}", cards=8) for number in range(4)]
    found = sweep.judged(fleet(tmp_path, 0, *eight, MadeHost("seven", cards=7)))
    assert of(found, "seven").standing is Standing.UNLIKE
    assert "8 x Some CPU -> " in of(found, "seven").reason


def test_all_cards_of_one_lock_that_differ_are_software(tmp_path: Path) -> None:
    """Two groups of one architecture with two answers: a note, and nobody is called wrong."""
    newer = [
        MadeHost(f"p{number}", facts={"lock": "def"}, digests={KERNELS[0]: "0000000000000001"}) for number in range(8)
    ]
    found = sweep.judged(fleet(tmp_path, 8, *newer))
    assert found.counts == {Standing.PROVED: 16}
    assert any(note.startswith("software: all of group B differ from all of group A in 2 rows") for note in found.notes)


def test_without_a_majority_nobody_is_wrong(tmp_path: Path) -> None:
    """Cards that each give an answer of their own accuse the kernel, which is said."""
    each = [MadeHost(f"q{number}", digests={KERNELS[0]: f"{number:016x}"}) for number in range(6)]
    found = sweep.judged(fleet(tmp_path, 0, *each))
    assert Standing.WRONG not in found.counts
    assert any("no majority in 2 rows" in note for note in found.notes)


def test_two_populations_are_said_to_be_two(tmp_path: Path) -> None:
    """A quarter of the hosts 8 % slower in one subject is no quarter of defects; the note says so."""
    modes = [MadeHost(f"s{number}", slow={SUBJECTS[0]: 1.08}) for number in range(10)]
    found = sweep.judged(fleet(tmp_path, 30, *modes))
    assert any("10 of 40 cards are slow in gemm-float32: two populations?" in note for note in found.notes)


def test_a_host_that_began_and_left_no_record_is_told_apart(tmp_path: Path) -> None:
    """It died under way; one that never began left nothing."""
    folder = fleet(tmp_path, 4, silent=("died", "never"))
    answers.marker_path(folder, "died").touch()
    found = sweep.judged(folder)
    assert of(found, "died").reason.startswith("began, and left no record")
    assert of(found, "never").reason == "left nothing"
    assert found.exit_code == 6


def duel(folder: Path, verdict: Verdict, host: str, of_: str) -> None:
    """Let a duel have ended so."""
    figures = {"host": host, "card": "0", "of": of_}
    said = Record(
        "duel", "cpu", START, 1.0, verdict, {}, [Check("duel", verdict, "seen in 12 turns", 1.0, dict(figures))]
    )
    (folder / "duels").mkdir(exist_ok=True)
    records.write(said, folder / "duels" / f"{host}.json")


def test_a_duel_confirms_or_refutes(tmp_path: Path) -> None:
    """What is confirmed is listed with its reason; what is refuted is proved again, and says what was refuted."""
    names = ("first", "second")
    folder = fleet(tmp_path, 20, *(MadeHost(name, slow={SUBJECTS[0]: 1.03}) for name in names))
    before = sweep.judged(folder)
    assert {of(before, name).standing for name in names} == {Standing.SLOW}
    assert not any(of(before, name).confirmed for name in names)
    duel(folder, Verdict.FAILED, "first", SUBJECTS[0])
    duel(folder, Verdict.PASSED, "second", SUBJECTS[0])
    found = sweep.judged(folder)
    assert of(found, "first").confirmed and "duel: seen in 12 turns" in of(found, "first").reason
    assert of(found, "second").standing is Standing.PROVED and "refuted" in of(found, "second").reason


def test_a_stranger_is_judged_and_said(tmp_path: Path) -> None:
    """A record of a host that no plan names is not lost."""
    folder = fleet(tmp_path, 4)
    leave(folder, MadeHost("stranger"))
    assert any("not in the plan" in note and "stranger" in note for note in sweep.judged(folder).notes)

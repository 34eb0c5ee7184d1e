"""A fleet is judged from records: each odd host has its word and its reason, and nobody is green who was not heard."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import judge, plan
from stackproof.extras.fleet.judgement import HostVerdict
from stackproof.record.records import Verdict

from .making import KERNELS, SUBJECTS, MadeHost, edit, fleet, leave, of, record


def test_each_odd_host_is_named_with_its_reason(tmp_path: Path) -> None:
    odd = (
        MadeHost("slow", slow={SUBJECTS[1]: 1.4}),
        MadeHost("wrong", digests={KERNELS[1]: "00000000deadbee0"}),
        MadeHost("driver", facts={"driver.nvidia-smi": "560.35"}),
    )
    found = judge.judge(fleet(tmp_path, 12, *odd, silent=("dead",)))
    assert found.counts == {
        HostVerdict.WRONG: 1, HostVerdict.SLOW: 1, HostVerdict.NOT_REACHED: 1, HostVerdict.UNLIKE: 1, HostVerdict.PROVED: 12,
    }  # fmt: skip
    assert (
        "attention-forward-float32: 4" in of(found, "slow").reason
        and "slower than the median" in of(found, "slow").reason
    )
    assert "product-bfloat16 normal: persistent: " in of(found, "wrong").reason
    assert "nvidia-smi: 550.54 -> 560.35" in of(found, "driver").reason
    assert of(found, "dead").reason == "left nothing"
    assert found.exit_code == 1


def test_equal_hosts_are_all_proved(tmp_path: Path) -> None:
    found = judge.judge(fleet(tmp_path, 60))
    assert (found.exit_code, found.counts) == (0, {HostVerdict.PROVED: 60})
    assert found.groups[0].products == 60 * sum(
        int(row.figures["products"]) for row in record(MadeHost("n01")).checks if row.group
    )


def test_a_card_that_disagrees_with_itself_is_wrong_and_transient(tmp_path: Path) -> None:
    found = judge.judge(fleet(tmp_path, 5, MadeHost("flicker", odd=3)))
    assert of(found, "flicker").standing is HostVerdict.WRONG
    assert "normal: transient: 3 of 1000 equal products" in of(found, "flicker").reason


@pytest.mark.parametrize(
    ("verdict", "standing"),
    [
        (Verdict.FAILED, HostVerdict.WRONG), (Verdict.HUNG, HostVerdict.WRONG), (Verdict.MISMATCHED, HostVerdict.UNLIKE),
        (Verdict.UNAVAILABLE, HostVerdict.NOT_REACHED), (Verdict.INCONCLUSIVE, HostVerdict.INCOMPLETE),
    ],
)  # fmt: skip
def test_a_host_whose_own_checks_end_badly_is_not_green(
    tmp_path: Path, verdict: Verdict, standing: HostVerdict
) -> None:
    found = judge.judge(fleet(tmp_path, 5, MadeHost("ill", verdict=verdict)))
    assert of(found, "ill").standing is standing
    assert "a reason" in of(found, "ill").reason


def test_a_failed_check_is_graver_than_a_slow_subject(tmp_path: Path) -> None:
    ill = MadeHost("ill", verdict=Verdict.FAILED, slow={SUBJECTS[0]: 1.5})
    found = of(judge.judge(fleet(tmp_path, 8, ill)), "ill")
    assert found.standing is HostVerdict.WRONG and "a reason" in found.reason
    assert [one.subject for one in found.findings] == [SUBJECTS[0]]


def test_a_host_that_lacks_what_its_group_has_is_not_green(tmp_path: Path) -> None:
    found = judge.judge(fleet(tmp_path, 5, MadeHost("part", lacks=(SUBJECTS[3],))))
    assert of(found, "part").standing is HostVerdict.INCOMPLETE
    assert f"no subject/0::{SUBJECTS[3]}" in of(found, "part").reason


def test_a_host_that_replayed_nothing_is_not_green(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 6)
    edit(
        folder, "n06", lambda made: made.update(checks=[one for one in made["checks"] if one.get("group") != "replay"])
    )
    found = judge.judge(folder)
    assert of(found, "n06").standing is HostVerdict.INCOMPLETE
    assert (
        "no replay/0::product-float64[normal]" in of(found, "n06").reason and "and 32 more" in of(found, "n06").reason
    )
    assert of(found, "n01").standing is HostVerdict.PROVED


def test_what_one_host_did_beyond_the_others_takes_nothing_from_anybody(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 6)
    edit(
        folder, "n06", lambda made: made["measurements"].append({**made["measurements"][0], "workload": "gemm-float16"})
    )
    assert judge.judge(folder).counts == {HostVerdict.PROVED: 6}


def test_seven_of_eight_cards_are_another_host(tmp_path: Path) -> None:
    eight = [MadeHost(f"m{number}", cards=8) for number in range(4)]
    found = judge.judge(fleet(tmp_path, 0, *eight, MadeHost("seven", cards=7)))
    assert of(found, "seven").standing is HostVerdict.UNLIKE
    assert "8 x Some CPU -> " in of(found, "seven").reason


def test_all_cards_of_one_lock_that_differ_are_software(tmp_path: Path) -> None:
    newer = [
        MadeHost(f"p{number}", facts={"lock": "cd" * 32}, digests={KERNELS[0]: "0000000000000001"})
        for number in range(8)
    ]
    found = judge.judge(fleet(tmp_path, 8, *newer))
    assert found.counts == {HostVerdict.PROVED: 16}
    assert any(note.startswith("software: all of group B differ from all of group A in 4 rows") for note in found.notes)


def test_without_a_majority_nobody_is_wrong(tmp_path: Path) -> None:
    each = [MadeHost(f"q{number}", digests={KERNELS[0]: f"{number:016x}"}) for number in range(6)]
    found = judge.judge(fleet(tmp_path, 0, *each))
    assert found.counts == {HostVerdict.UNDECIDED: 6} and found.exit_code == 6
    assert any("and 3 more: no majority: 6 answers of 6 cards" in note for note in found.notes)


@pytest.mark.parametrize("count", [6, 7, 12, 40])
@pytest.mark.parametrize("share", [1.3, 1.08])
def test_half_a_fleet_that_is_slow_proves_nobody(tmp_path: Path, count: int, share: float) -> None:
    slow = [MadeHost(f"s{number}", slow={SUBJECTS[0]: share}) for number in range(count // 2)]
    found = judge.judge(fleet(tmp_path, count - count // 2, *slow))
    odd = {of(found, host.name).standing for host in slow} <= {HostVerdict.SLOW, HostVerdict.SUSPECTED}
    assert found.exit_code != 0 and (odd or HostVerdict.PROVED not in found.counts)


def test_half_a_fleet_that_is_a_little_slow_is_two_populations(tmp_path: Path) -> None:
    slow = [MadeHost(f"s{number}", slow={SUBJECTS[0]: 1.03}) for number in range(20)]
    found = judge.judge(fleet(tmp_path, 20, *slow))
    assert found.counts == {HostVerdict.UNDECIDED: 40}
    assert any("gemm-float32: two populations: 20 of 40 cards are 3." in note for note in found.notes), found.notes


def test_most_of_a_fleet_that_is_slow_is_no_middle(tmp_path: Path) -> None:
    slow = [MadeHost(f"s{number}", slow={SUBJECTS[0]: 1.3}) for number in range(34)]
    found = judge.judge(fleet(tmp_path, 6, *slow))
    assert found.counts == {HostVerdict.UNDECIDED: 40}


def test_a_card_that_is_absurdly_fast_does_not_drop_out(tmp_path: Path) -> None:
    found = judge.judge(fleet(tmp_path, 11, MadeHost("quick", slow={SUBJECTS[0]: 1e-9})))
    (strip,) = (strip for group in found.groups for strip in group.strips if strip.subject == SUBJECTS[0])
    assert strip.cards == 12


def test_hosts_that_differ_too_much_prove_nobody(tmp_path: Path) -> None:
    found = judge.judge(fleet(tmp_path, 0, *(MadeHost(f"m{number}", noise=0.08) for number in range(30))))
    assert HostVerdict.PROVED not in found.counts and found.exit_code == 6
    assert any("would not be seen" in note for note in found.notes)


@pytest.mark.parametrize("count", [3, 4])
def test_few_hosts_are_too_few_to_compare(tmp_path: Path, count: int) -> None:
    found = judge.judge(fleet(tmp_path, count - 1, MadeHost("last", slow={SUBJECTS[0]: 2.0})))
    assert not set(found.counts) & {HostVerdict.PROVED, HostVerdict.SLOW} and found.exit_code == 6
    assert any(f"{count} cards are too few to compare" in note for note in found.notes)


def test_a_red_doctor_comes_before_too_few(tmp_path: Path) -> None:
    found = judge.judge(fleet(tmp_path, 1, MadeHost("bad", verdict=Verdict.MISMATCHED)))
    assert of(found, "bad").reason == "doctor: a reason"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        *((MadeHost("m", skipped=(step,)), f"{step} is skipped, not passed") for step in ("doctor", "smoke", "environment")),
        *((MadeHost("m", lacks=lacks), f"no subject/0::{SUBJECTS[0]}") for lacks in ((SUBJECTS[0],), SUBJECTS)),
        (MadeHost("m", cards=3, facts={"cards": 4, "devices": 4}), "no subject/3::"),
        (MadeHost("m", facts={"rehearsed": True}), "was rehearsed"),
        (MadeHost("m", facts={"cards": 0}), "no card"),
    ],
)  # fmt: skip
def test_what_all_hosts_lack_proves_nobody(tmp_path: Path, host: MadeHost, said: str) -> None:
    found = judge.judge(fleet(tmp_path, 0, *(replace(host, name=f"m{number}") for number in range(8))))
    assert found.counts == {HostVerdict.INCOMPLETE: 8} and said in of(found, "m0").reason


def test_what_is_not_pinned_is_told(tmp_path: Path) -> None:
    hosts = (MadeHost(f"m{number}", facts={"pinned": False, "lock": "unpinned"}) for number in range(6))
    found = judge.judge(fleet(tmp_path, 0, *hosts))
    assert found.counts == {HostVerdict.PROVED: 6} and any(note.startswith("unpinned: 6 hosts") for note in found.notes)


def test_what_the_plan_leaves_out_is_not_wanted(tmp_path: Path) -> None:
    found = judge.judge(fleet(tmp_path, 8, without=("smoke", SUBJECTS[0])))
    assert found.counts == {HostVerdict.PROVED: 8}
    assert found.notes == (f"the plan leaves out smoke and {SUBJECTS[0]}: nothing is proved of these",)


def test_half_and_half_digests_prove_nobody(tmp_path: Path) -> None:
    other = [MadeHost(f"q{number}", digests={KERNELS[0]: "0000000000000001"}) for number in range(5)]
    found = judge.judge(fleet(tmp_path, 5, *other))
    assert found.counts == {HostVerdict.UNDECIDED: 10}
    assert "no majority: 2 answers of 10 cards" in of(found, "n01").reason


def test_records_of_several_sweeps_are_not_one(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 8)
    leave(folder, *(MadeHost(f"n0{number}", plan="e" * 16) for number in range(1, 4)))
    found = judge.judge(folder)
    assert found.counts == {HostVerdict.NOT_REACHED: 3, HostVerdict.PROVED: 5}
    assert f"is of another plan ({'e' * 16}, and not " in found.hosts[0].reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": None}, "id"), ({"hosts": None}, "hosts"), ({"stack": "cpuu"}, "did you mean 'cpu'"),
    ],
)  # fmt: skip
def test_a_plan_that_says_nothing_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = fleet(tmp_path, 6) / plan.NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | change), encoding="utf-8")
    with pytest.raises(Refusal, match=said):
        judge.judge(tmp_path)


@pytest.mark.parametrize("count", [8, 20, 64])
@pytest.mark.parametrize("share", [1.03, 1.3])
def test_a_slow_majority_is_not_silent(tmp_path: Path, count: int, share: float) -> None:
    slow = [MadeHost(f"s{number:02}", slow={SUBJECTS[0]: share}) for number in range(count - 1)]
    found = judge.judge(fleet(tmp_path, 1, *slow))
    told = [note for note in found.notes if "faster than the median" in note or "two populations" in note]
    assert told and SUBJECTS[0] in told[0], found.notes
    assert f"faster than the median in {SUBJECTS[0]} (n01)" in told[0] or HostVerdict.PROVED not in found.counts


def test_equal_hosts_are_not_said_to_be_fast(tmp_path: Path) -> None:
    assert not judge.judge(fleet(tmp_path, 64)).notes

"""A folder of a sweep: what is of another sweep is named and left out, and a slow majority is not silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import plan, sweep
from stackproof.extras.fleet.judgement import HostVerdict

from .making import SUBJECTS, MadeHost, fleet, leave


def test_records_of_several_sweeps_are_not_one(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 8)
    leave(folder, *(MadeHost(f"n0{number}", plan="e" * 16) for number in range(1, 4)))
    found = sweep.judged(folder)
    assert found.counts == {HostVerdict.NOT_REACHED: 3, HostVerdict.PROVED: 5}
    assert f"is of another plan ({'e' * 16}, and the sweep's is " in found.hosts[0].reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hosts": []}, "'hosts' is empty"), ({"id": ""}, "'id' is empty"), ({"made": ""}, "'made' is empty"), ({"id": "x"}, "id"),
        ({"made": "soon"}, "made"), ({"made": "2027-01-01T00:00:00"}, "made"), ({"cards": -1}, "cards"), ({"hosts": None}, "hosts"),
        ({"stack": "cpuu"}, "did you mean 'cpu'"),
    ],
)  # fmt: skip
def test_a_plan_that_says_nothing_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = fleet(tmp_path, 6) / plan.NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | change), encoding="utf-8")
    with pytest.raises(Refusal, match=said):
        sweep.judged(tmp_path)


@pytest.mark.parametrize("count", [8, 20, 64])
@pytest.mark.parametrize("share", [1.03, 1.3])
def test_a_slow_majority_is_not_silent(tmp_path: Path, count: int, share: float) -> None:
    slow = [MadeHost(f"s{number:02}", slow={SUBJECTS[0]: share}) for number in range(count - 1)]
    found = sweep.judged(fleet(tmp_path, 1, *slow))
    told = [note for note in found.notes if "faster than the other" in note or "two populations" in note]
    assert told and SUBJECTS[0] in told[0], found.notes
    assert (
        f"faster than the other {count - 1} in {SUBJECTS[0]} (n01)" in told[0] or HostVerdict.PROVED not in found.counts
    )


def test_equal_hosts_are_not_said_to_be_fast(tmp_path: Path) -> None:
    assert not sweep.judged(fleet(tmp_path, 64)).notes

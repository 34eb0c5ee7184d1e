"""Two ranks on one card: what the groups suite says where our preflight, or the library of the cards, lets them share."""

from __future__ import annotations

from typing import Any

import pytest

from stackproof.device import devices
from stackproof.device.kinds import Accelerator
from stackproof.ranks import preflight
from stackproof.record.checks import CheckCrashed, CheckFailed
from stackproof.stack import stacks
from suites.groups import sharing


class Fake(Accelerator):
    """A card that no driver has to answer for."""

    def name(self) -> str:
        """Return a name."""
        return "Some Card"

    def bus_id(self) -> str:
        """Return an address by index."""
        return f"0000:0{self.index}:00.0"


@pytest.fixture
def one_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with one card of the cuda stack."""
    monkeypatch.setattr(devices, "visible", lambda kind: (Fake("cuda", 0),))
    monkeypatch.setattr("stackproof.ranks.preflight.visible", lambda kind: (Fake("cuda", 0),))


@pytest.mark.usefixtures("one_card")
def test_two_ranks_on_a_card_pass_as_refused_and_fail_where_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    said = sharing.refused_by_preflight(stacks.load("cuda"))
    assert said.startswith("Duplicate GPU: rank 0 and rank 1 are both on cuda:0 (0000:00:00.0)")
    monkeypatch.setattr(preflight, "_LOOKS", ())
    with pytest.raises(CheckFailed, match="two ranks of nccl on cuda:0 were not refused"):
        sharing.refused_by_preflight(stacks.load("cuda"))


@pytest.mark.usefixtures("one_card")
@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        (CheckFailed("rank 0 failed: two ranks share one card (Duplicate GPU), which NCCL refuses"), ""),
        (
            CheckCrashed("rank 0 ended with signal SIGABRT"),
            "the refusal was not recognised; add its words to libraries.toml",
        ),
        (None, "NCCL let 2 ranks share cuda:0: libraries.toml says that it refuses them"),
    ],
)
def test_a_library_that_shares_or_words_it_otherwise_is_red(outcome: Exception | None, failure: str) -> None:
    def launches(*arguments: Any, **options: Any) -> None:
        assert options["checked"] is False
        if outcome:
            raise outcome

    if not failure:
        assert sharing.refused_by_library(stacks.load("cuda"), launches) == str(outcome)
        return
    with pytest.raises(CheckFailed) as failed:
        sharing.refused_by_library(stacks.load("cuda"), launches)
    assert failure in str(failed.value)

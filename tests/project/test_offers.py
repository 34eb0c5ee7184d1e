"""What a workload offers is checked when it is written down."""

from __future__ import annotations

from typing import Any

import pytest

from stackproof.base.toml import Wrong
from stackproof.project import offers
from stackproof.project.offers import Offer


def test_every_part_and_role_is_played() -> None:
    table = offers.ours()
    assert {part for offer in table.values() for part in offer.parts} == set(offers.PARTS)
    for role in offers.ROLES:
        assert [name for name, offer in table.items() if role in offer.roles] == [offers.playing(role)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"parts": ("smok",)}, "has 'smok' (did you mean 'smoke'?); allowed: smoke"),
        ({"parts": "smoke"}, "it must be a tuple of words"),
        ({"needs": ("timm=>1",)}, "is no requirement"),
        ({"mixed": {"float32": 0.1}}, "has 'float32'"),
        ({"roles": ("queen",)}, "has 'queen'"),
    ],
)
def test_a_slip_says_what_is_allowed(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Wrong) as wrong:
        Offer(**given)
    assert words in wrong.value.why
    assert wrong.value.key == next(iter(given))

"""The truth table: which series moved and what changed name the cause."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from stackproof.extras.nights.drift.scan import Cause, SeriesKind, table
from stackproof.record.store import state
from tests.extras.nights.drift.nightly import FACTS

RATIO, ANCHOR, RAW = SeriesKind


@pytest.mark.parametrize(
    ("moved", "changed", "first"),
    [
        ({RATIO, RAW}, {"code"}, "code"),
        ({RATIO}, {"wheels"}, "wheels"),
        ({RATIO}, {"code", "wheels"}, "wheels"),
        ({ANCHOR, RAW}, {"code"}, "machine"),
        ({ANCHOR}, {"code", "driver"}, "driver"),
        ({ANCHOR}, {"machine"}, "machine"),
        ({RATIO, ANCHOR}, {"code"}, "code"),
        ({RATIO, ANCHOR}, {"driver", "code"}, "driver"),
        ({RATIO}, set(), "unknown"),
        ({RAW}, {"code"}, "unknown"),
    ],
)
def test_the_first_cause(moved: set[SeriesKind], changed: set[str], first: str) -> None:
    assert table().blame(moved, {Cause(one) for one in changed}).causes[0].value == first


def test_every_case_has_a_row() -> None:
    classes = [cause for cause in Cause if cause is not Cause.UNKNOWN]
    every = list(chain.from_iterable(combinations(classes, count) for count in range(len(classes) + 1)))
    for count in range(4):
        for moved in combinations(SeriesKind, count):
            for changed in every:
                blamed = set(table().blame(moved, changed).causes)
                assert blamed and blamed - {Cause.MACHINE, Cause.UNKNOWN} <= set(changed)


@pytest.mark.parametrize(
    ("fact", "value", "cause"),
    [
        ("commit", "b" * 40, Cause.CODE),
        ("lock", "b" * 64, Cause.WHEELS),
        ("torch", "2.16", Cause.WHEELS),
        ("torch.version.cuda", "14", Cause.WHEELS),
        ("driver.nvidia-smi", "600", Cause.DRIVER),
        ("cuda:0.driver api", "14000", Cause.DRIVER),
        ("kernel", "7.0", Cause.MACHINE),
        ("env.OMP_NUM_THREADS", "3", Cause.MACHINE),
    ],
)
def test_a_changed_fact_is_of_a_class(fact: str, value: str, cause: Cause) -> None:
    assert table().changed(state(FACTS), state({**FACTS, fact: value})) == {cause}
    assert table().changed(state(FACTS), state(FACTS)) == frozenset()


def test_every_group_of_the_state_is_of_a_class() -> None:
    from stackproof.record import store

    assert sorted(name for members in table().groups.values() for name in members) == sorted(store.rules().groups)

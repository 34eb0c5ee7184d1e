"""Lists of settings on a host that is made up: slips are flagged with a remedy that is right, what is right is left in peace."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.toml import Table
from stackproof.stack import findings
from stackproof.stack.findings import Inventory
from stackproof.stack.variables import Level

SETTINGS = Path(__file__).parent / "settings"
FOLDERS = ("/usr/local/cuda", "/opt/rocm", "/etc/nccl", "/tmp", "/data", "/data/hf")
FILES = ("/etc/nccl/topo.xml",)
HOST = Inventory(
    interfaces=("lo", "eth0", "eth1", "ib0", "docker0"),
    adapters={"mlx5_0": ("1",), "mlx5_1": ("1",)},
    cards={"cuda": 8, "xpu": 2, "hip": 2},
    cores=16,
    nodes=2,
    is_file=FILES.__contains__,
    is_folder=FOLDERS.__contains__,
    folders=lambda missing: tuple(one for one in FOLDERS if missing.startswith((f"{one}-", f"{one}/"))),
)


@dataclass(frozen=True)
class Setting:
    """Variables, of which kind their slip is, and a part of the remedy that is right; empty where nothing is wrong."""

    kind: str
    set: Mapping[str, str]
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {' '.join(f'{name}={value!r}' for name, value in self.set.items())}"


def listed(name: str, key: str) -> tuple[Setting, ...]:
    with Table.load(SETTINGS / name) as table:
        return table.rows(key, Setting)


SLIPS, HELD, CORRECT = (
    listed("slips.toml", "slip"),
    listed("slips_held.toml", "slip"),
    listed("correct.toml", "setting"),
)


def flagged(row: Setting) -> bool:
    found = findings.examine(row.set, host=HOST)
    return any(slip.level not in (Level.OK, Level.NOTE) and row.remedy in slip.remedy for slip in found)


def test_the_lists_are_long_enough() -> None:
    assert len(SLIPS) + len(HELD) >= 150
    assert len(HELD) >= 50
    assert len(CORRECT) >= 60


@pytest.mark.parametrize("row", SLIPS, ids=str)
def test_a_slip_is_flagged(row: Setting) -> None:
    assert flagged(row), [
        (slip.level.value, slip.sentence, slip.remedy) for slip in findings.examine(row.set, host=HOST)
    ]


def test_slips_that_were_held_back() -> None:
    missed = [str(row) for row in HELD if not flagged(row)]
    assert len(missed) <= 0.05 * len(HELD), missed


@pytest.mark.parametrize("row", CORRECT, ids=str)
def test_what_is_right_is_left_in_peace(row: Setting) -> None:
    for host in (HOST, None):
        found: list[Any] = [slip for slip in findings.examine(row.set, host=host) if slip.level is not Level.NOTE]
        assert found == []


def test_dots_for_commas_between_three_cards() -> None:
    host = dataclasses.replace(HOST, cards={"xpu": 3})
    (slip,) = findings.examine({"ZE_AFFINITY_MASK": "0.1.2"}, host=host)
    assert (slip.level, slip.remedy.split("   ")[0]) == (Level.WARNING, "export ZE_AFFINITY_MASK=0,1,2")
    assert findings.examine({"ZE_AFFINITY_MASK": "0,1,2"}, host=host) == []


def test_every_remedy_mends() -> None:
    for row in (*SLIPS, *HELD):
        for slip in findings.examine(row.set, host=HOST):
            name, _, value = slip.remedy.removeprefix("export ").partition(" ")[0].partition("=")
            if (
                slip.remedy.startswith("export ")
                and name in slip.variables
                and value
                and not {"$", "'", '"'} & set(value)
            ):
                again = [
                    other
                    for other in findings.examine({name: value}, host=HOST)
                    if " is not " in other.sentence or " names " in other.sentence
                ]
                assert again == [], (slip, again)

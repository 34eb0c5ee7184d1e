"""Runs that went well and look as if they had not: complaints that nothing came of, words that are no failure. All are CLEAN."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from stackproof.base.toml import Table
from stackproof.record.records import Verdict

from .making import report

STEPS = "".join(
    f"{{'loss': {2 - 0.01 * n:.4f}, 'grad_norm': 1.{n}, 'epoch': {n / 125:.2f}}}\n" for n in range(1, 60, 5)
)
REWARDS = "".join(f"{{'loss': 0.0, 'grad_norm': 0.{n}, 'reward': 0.{n}, 'kl': 0.0}}\n" for n in range(1, 60, 3))
END = "{'train_runtime': 120.5, 'train_samples_per_second': 8.3, 'train_loss': 1.2, 'epoch': 1.0}\n"


@dataclass(frozen=True)
class Looks:
    """A complaint, before a training or after it."""

    name: str
    before: str = ""
    after: str = ""
    ends: bool = False

    @property
    def text(self) -> str:
        """The whole log."""
        return self.before if self.ends else f"{self.before}{STEPS}{END}{self.after}"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Whole:
    """The whole log of a tool; `shown` if it shows a good end."""

    name: str
    text: str
    shown: bool = True

    def __str__(self) -> str:
        return self.name


with Table.load(Path(__file__).parent / "clean.toml") as table:
    ROWS = table.rows("log", Looks)
with Table.load(Path(__file__).parent / "clean_tools.toml") as table:
    TOOLS = table.rows("log", Whole)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_complaint_that_nothing_came_of(tmp_path: Path, row: Looks) -> None:
    assert report(tmp_path, row.text.encode()).verdict is Verdict.PASSED


@pytest.mark.parametrize("row", TOOLS, ids=str)
def test_a_habit_of_a_tool(tmp_path: Path, row: Whole) -> None:
    verdict = Verdict.PASSED if row.shown else Verdict.INCONCLUSIVE
    assert report(tmp_path, row.text.encode()).verdict is verdict


@pytest.mark.parametrize("row", [row for row in TOOLS if row.shown], ids=str)
def test_a_habit_of_a_tool_that_goes_on(tmp_path: Path, row: Whole) -> None:
    text = f"{row.text}{STEPS}"
    assert report(tmp_path, text.encode()).verdict is not Verdict.FAILED
    assert report(tmp_path, f"{text}Segmentation fault (core dumped)\n".encode()).verdict is Verdict.FAILED


@pytest.mark.parametrize("text", ["{'loss': nan, 'epoch': 0.1}\n", "# Out of bounds values : 7 FAILED\n"])
def test_what_no_end_makes_good(tmp_path: Path, text: str) -> None:
    assert report(tmp_path, f"{text}{STEPS}{END}".encode()).verdict is Verdict.FAILED


def test_steps_of_another_rank_prove_nothing(tmp_path: Path) -> None:
    steps = "".join(f"[rank0]: {line}\n" for line in STEPS.splitlines())
    text = f'[rank1]: Traceback (most recent call last):\n[rank1]:   File "x.py", line 1, in f\n[rank1]: ValueError: no\n{steps}'
    assert report(tmp_path, text.encode()).verdict is Verdict.FAILED


def test_a_policy_that_is_trained_by_rewards(tmp_path: Path) -> None:
    assert report(tmp_path, f"{REWARDS}{END}".encode()).verdict is Verdict.PASSED


@pytest.mark.parametrize("name", ["oomretry", "autobatch", "printedtb", "ncclwarn"])
def test_the_same_complaint_without_a_good_end(tmp_path: Path, name: str) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    text = row.before.partition("AutoBatch: Using")[0]
    assert report(tmp_path, text.encode()).verdict is Verdict.FAILED

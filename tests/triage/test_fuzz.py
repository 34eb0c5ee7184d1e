"""Damaged logs: cut, wrapped anew, mixed with themselves, with bytes changed. No failure becomes CLEAN by that."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof.record.records import Verdict
from stackproof.triage import lines, logs, reports
from tools import triage_score
from tools.triage_score import Specimen

CASES = [row for row in triage_score.load() if row.half == triage_score.WORK or row.kind == triage_score.FAILING]
_ROUNDS = 3


def cut_end(text: str, draw: random.Random) -> str:
    """The disk was full, or somebody copied a part."""
    return text[: draw.randrange(len(text) // 3, len(text))]


def cut_head(text: str, draw: random.Random) -> str:
    """Only the end was pasted."""
    return text[draw.randrange(1, len(text) // 2) :]


def wrapped(text: str, draw: random.Random) -> str:
    """A terminal of so many columns; nothing is dropped."""
    width = draw.choice((60, 80, 120))
    parts = (
        textwrap.wrap(line, width, drop_whitespace=False, replace_whitespace=False) or [""] for line in text.split("\n")
    )
    return "\n".join(part for lines in parts for part in lines)


def mixed(text: str, draw: random.Random) -> str:
    """Two ranks write the same, the second a little later."""
    late = draw.randrange(1, 6)
    rows = text.split("\n")
    both = [(n, f"[rank0]: {row}") for n, row in enumerate(rows)] + [
        (n + late, f"[rank1]: {row}") for n, row in enumerate(rows)
    ]
    return "\n".join(row for _, row in sorted(both, key=lambda pair: pair[0]))


def mutated(text: str, draw: random.Random) -> str:
    """Bytes that somebody else's output overwrote."""
    chars = list(text)
    for _ in range(max(1, len(chars) // 200)):
        chars[draw.randrange(len(chars))] = draw.choice("\x00\x1b#~é?")
    return "".join(chars)


DAMAGES: tuple[Callable[[str, random.Random], str], ...] = (cut_end, cut_head, wrapped, mixed, mutated)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_makes_no_failure_clean(tmp_path: Path, damage: Callable[[str, random.Random], str]) -> None:
    """The verdict stays, or the log says nothing any more. Of the half that is held out only the number of offenders is told.

    A document that is cut or mixed until too few sentences are left is none any more, and is no case of this test. Of the clean
    logs only those to work with are: one whose end is cut off behind an exception that was handled looks like a failure.
    """
    offenders = [name for specimen in CASES for name in _offends(specimen, damage, tmp_path)]
    assert offenders == []


def _offends(specimen: Specimen, damage: Callable[[str, random.Random], str], folder: Path) -> list[str]:
    text = (triage_score.FOLDER / specimen.name).read_bytes().decode()
    before = triage_score.judge(specimen).verdict
    draw = random.Random(f"{specimen.name} {damage.__name__}")
    path = folder / "damaged.log"
    for _ in range(_ROUNDS):
        damaged = damage(text, draw).encode()
        path.write_bytes(damaged)
        if lines.document(text.encode()) and not lines.document(damaged):
            continue
        if reports.report(logs.named([path])).verdict not in (before, Verdict.INCONCLUSIVE):
            return [specimen.name if specimen.half == triage_score.WORK else "one of the held-out half"]
    return []

"""What stands beside torch, held against what the stack was locked with."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.stack import companions, stacks

from .. import fakes

LOCK = "torch==9.1.0+v1\nnumpy==1.26.4\ntomli==2.0.1 ; python_version < '3.4'\nadded==1.0\n"
ASKED = "torch==9.1.0+v1\nnumpy>=1.26,<2\ntomli>=2 ; python_version < '3.4'\n"


@pytest.fixture
def tiny(tmp_path: Path) -> stacks.Stack:
    """A stack with a vendor's torch, a companion, one for another Python, and a package that nobody asks for by name."""
    folder = fakes.stack(tmp_path)
    (folder / "requirements.in").write_text(ASKED, encoding="utf-8")
    fakes.lock(folder, LOCK)
    return stacks.load("tiny", tmp_path / "stacks")


@pytest.mark.parametrize(
    ("here", "told", "fits"),
    [
        ({"torch": "9.1.0+v1", "numpy": "1.26.4"}, [], []),
        ({"torch": "9.1.0+v2", "numpy": "1.26.4", "added": "7"}, ["torch 9.1.0+v2 (locked 9.1.0+v1)"], [True]),
        ({"torch": "9.2.0+v1", "numpy": "1.26.4"}, ["torch 9.2.0+v1 (locked 9.1.0+v1)"], [False]),
        ({"torch": "9.1.0+v1", "numpy": "1.26.0"}, ["numpy 1.26.0 (locked 1.26.4, asked for <2,>=1.26)"], [True]),
        ({"torch": "9.1.0+v1", "numpy": "2.2"}, ["numpy 2.2 (locked 1.26.4, asked for <2,>=1.26)"], [False]),
        ({"torch": "9.1.0+v1", "numpy": "odd"}, ["numpy odd (locked 1.26.4, asked for <2,>=1.26)"], [False]),
        ({"torch": "9.1.0+v1"}, ["numpy"], [False]),
    ],
)
def test_what_is_not_the_locks(tiny: stacks.Stack, here: dict[str, str], told: list[str], fits: list[bool]) -> None:
    found = list(companions.other(tiny, here, fakes.THIS_PYTHON))
    assert ([str(one) for one in found], [one.fits for one in found]) == (told, fits)
    severe = [text for text, fit in zip(told, fits, strict=True) if " " in text and not fit]
    assert companions.sentence(tiny, found) == (f"not what tiny asks for: {severe[0]}" if severe else "")

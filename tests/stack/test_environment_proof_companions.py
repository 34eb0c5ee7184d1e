"""What stands beside torch, held against what the stack was locked with."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stackproof.stack import environment_proof, lockfile, stacks

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
    found = list(environment_proof.other(tiny, here, fakes.THIS_PYTHON))
    assert ([str(one) for one in found], [one.fits for one in found]) == (told, fits)
    severe = [text for text, fit in zip(told, fits, strict=True) if " " in text and not fit]
    assert environment_proof.out_of_range(tiny, found) == (f"not what tiny asks for: {severe[0]}" if severe else "")


def _lines(name: str, **there: str) -> dict[str, str]:
    lock = lockfile.read(stacks.load(name).lock)
    found = [line.split("  #")[0] for line in environment_proof.constraints(lock, there)]
    return {line.split("=")[0]: line for line in found}


def test_every_line_is_a_requirement_and_no_package_stands_twice() -> None:
    for name in ("dcu", "xpu", "cuda"):
        lock = lockfile.read(stacks.load(name).lock)
        found = [Requirement(line.split("  #")[0]).name for line in environment_proof.constraints(lock, {})]
        assert len(found) == len(set(found)) == len([pin for pin in lock.pins if pin.applies()])


def test_without_an_installation_all_is_as_in_the_lock() -> None:
    assert _lines("dcu")["torch"].startswith("torch==2.4.1+das")


def test_a_build_of_the_vendor_stays_as_it_is_installed() -> None:
    found = _lines("dcu", torch="2.4.1+das.opt9.dtk2504", numpy="2.2.6", transformers="5.20.0", apex="1.4.0+das.opt1")
    assert found["torch"] == "torch==2.4.1+das.opt9.dtk2504"
    assert found["apex"] == "apex==1.4.0+das.opt1"
    assert found["numpy"].startswith("numpy==1.26")
    assert found["transformers"] != "transformers==5.20.0"
    assert _lines("cuda", torch="2.9.0a0+nv25.10")["torch"] == "torch==2.9.0a0+nv25.10"


def test_a_version_that_is_none_is_held_as_text() -> None:
    assert _lines("dcu", torch="2.4.1-dtk")["torch"] == "torch===2.4.1-dtk"


def test_what_weakens_them_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = lockfile.read(stacks.load("dcu").lock)
    monkeypatch.setattr(environment_proof, "PYTHON", "3.12")
    python, torch = environment_proof.weaknesses(lock, {})
    assert "is for Python 3.10 and this is 3.12" in python
    assert "has no torch" in torch
    monkeypatch.setattr(environment_proof, "PYTHON", "3.10")
    assert list(environment_proof.weaknesses(lock, {"torch": "2.4.1+das"})) == []


def test_every_python_of_a_lock_is_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = lockfile.read(stacks.load("cpu").lock)
    for python, said in (("3.11", 0), ("3.12", 0), ("3.13", 0), ("3.1", 1), ("3.14", 1)):
        monkeypatch.setattr(environment_proof, "PYTHON", python)
        assert len(list(environment_proof.weaknesses(lock, {"torch": "2.9.0"}))) == said, python

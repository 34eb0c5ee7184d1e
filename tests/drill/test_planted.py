"""What planted code is made of, in processes of its own: a fault leaves a sign when it takes effect, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.places import FIRED


def fired(tmp_path: Path, code: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run code with everything from `planting` in it; return in how many processes a fault fired, and what was printed."""
    signs = tmp_path / "signs"
    signs.mkdir(exist_ok=True)
    program = tmp_path / "program.py"
    program.write_text(f"from stackproof.drill.planted import *\n{textwrap.dedent(code)}", encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), FIRED: str(signs), **environment}
    ended = subprocess.run(
        [sys.executable, str(program), *arguments], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    return len(list(signs.iterdir())), ended.stdout.strip()


def test_a_replaced_function_fires_when_it_is_called(tmp_path: Path) -> None:
    plant = "import math\nreplace(math, 'sqrt', lambda original: lambda value: original(value) + 1)\n"
    assert fired(tmp_path, plant) == (0, "")
    assert fired(tmp_path, plant + "print(math.sqrt(4), math.sqrt(9))") == (1, "3.0 4.0")


@pytest.mark.slow
def test_a_spoilt_operator_fires_where_its_condition_holds(tmp_path: Path) -> None:
    plant = (
        "import torch\ncorrupt_operator('mm.default', lambda result: result.mul_(2), single)\none = torch.ones(1, 1)\n"
    )
    assert fired(tmp_path, plant + "print(float(one.double().mm(one.double())))") == (0, "1.0")
    assert fired(tmp_path, plant + "print(float(one.mm(one)))") == (1, "2.0")


@pytest.mark.parametrize(("name", "count"), [("doctored.txt", 1), ("other.txt", 0)])
def test_who_opens_what_was_doctored_is_under_the_fault(tmp_path: Path, name: str, count: int) -> None:
    for file in ("doctored.txt", "other.txt"):
        (tmp_path / file).write_text("x", encoding="utf-8")
    code = f"watch({str(tmp_path / 'doctored.txt')!r})\nprint(open({str(tmp_path / name)!r}).read())"
    assert fired(tmp_path, code) == (count, "x")


def test_processes_know_what_they_are(tmp_path: Path) -> None:
    code = "print(in_checks(), in_rank(), in_rank(1), in_rank(0), during('::test_a'))"
    assert fired(tmp_path, code)[1] == "False False False False False"
    assert (
        fired(tmp_path, code, "pytest", PYTEST_CURRENT_TEST="x.py::test_a (call)")[1] == "True False False False True"
    )
    ranks = fired(tmp_path, code, "stackproof.ranks.joined", RANK="1")
    assert ranks[1] == "False True True False False"

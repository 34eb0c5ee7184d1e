"""A file inside the wrapper sees what it sees without it; what torch does in it is counted to the operator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.jobs import launch

_LOOKS = """import sys, os
if __name__ == "__main__":
    print(sys.argv, sys.path[0], __file__, sys.modules["__main__"].__file__, __name__)
    if not sys.flags.isolated:
        import beside
    raise SystemExit(int(sys.argv[1]))
"""


def _both(tmp_path: Path, command: list[str], *flags: str) -> tuple[subprocess.CompletedProcess[str], ...]:
    at = launch.python_at(command)
    assert at is not None
    wrapped = launch.inside(command, at, tmp_path / "counts.json", *flags)
    return tuple(
        subprocess.run(each, capture_output=True, text=True, cwd=tmp_path, check=False) for each in (command, wrapped)
    )


@pytest.mark.parametrize(
    "how", [["looks.py", "3"], ["-m", "looks", "0"], ["sub/looks.py", "0", "--", "x"], ["-I", "sub/looks.py", "0"]]
)
def test_the_file_sees_what_it_would_see(how: list[str], tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "looks.py").write_text(_LOOKS, encoding="utf-8")
        (folder / "beside.py").write_text("", encoding="utf-8")
    plain, wrapped = _both(tmp_path, [sys.executable, *how])
    assert plain.stdout and plain.stdout == wrapped.stdout
    assert plain.returncode == wrapped.returncode
    assert json.loads((tmp_path / "counts.json").read_text()) == {}


def test_a_traceback_goes_through(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    _, wrapped = _both(tmp_path, [sys.executable, "bad.py"])
    assert wrapped.returncode == 1
    assert wrapped.stderr.splitlines()[-1].startswith("ZeroDivisionError")
    assert (tmp_path / "counts.json").is_file()


@pytest.mark.slow
def test_operators_are_counted_forward_and_backward(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = "import torch\nx = torch.ones(3, requires_grad=True)\n(x * 2).sum().backward()\n"
    counts = []
    for extra in ("", "torch.ones(3).exp()\n", "torch.compile(torch.exp, backend='eager')(x)\n"):
        (tmp_path / "job.py").write_text(code + extra, encoding="utf-8")
        _both(tmp_path, [sys.executable, "job.py"], *(() if "compile" in extra else ("--operators",)))
        counts.append(json.loads((tmp_path / "counts.json").read_text()))
    assert counts[1]["operators"] == counts[0]["operators"] + 2
    assert (counts[2]["graphs"], counts[2]["graph-breaks"]) == (1, 0)

"""What is printed to take a culprit back, or to see it again: sentences of one line, and words that the command line takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.bisect import remedies
from stackproof.bisect.atoms import End, differences
from stackproof.gate.variants import assignments
from stackproof.stack import lockfile
from tests.bisect.locks import lock, pin

_ODD = "it's\n$HOME; x"


def test_the_gate_that_shows_it_again_is_one_that_can_be_typed(tmp_path: Path) -> None:
    """Read as a shell and the verb read it, it names both locks, which are there, and the values as they were."""
    good = End("", lock(tmp_path / "good.lock", pin("alpha", "1"), pin("beta", "1")))
    bad = End("", lock(tmp_path / "bad.lock", pin("alpha", "2"), pin("beta", "2")), {"V": _ODD})
    alpha, _, variable = differences(good, bad)
    told = remedies.command(["gate", "--stack", "cpu"], [alpha, variable], good, bad, "gemm-float32", tmp_path)
    options = cli._parser().parse_args(shlex.split(told))
    assert options.only == ["gemm-float32"] and assignments(options.head_env, "--head-env") == {"V": _ODD}
    assert [one.requirement for one in lockfile.read(options.head_lock).pins] == ["alpha==2", "beta==1"]
    assert [one.requirement for one in lockfile.read(options.base_lock).pins] == ["alpha==1", "beta==1"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [({}, {"V": "1"}, "unset V"), ({"V": _ODD}, {}, r"set V=it's\x0a$HOME; x"), ({"V": "0"}, {"V": "1"}, "set V=0")],
)
def test_a_variable_is_taken_back_in_one_line(
    tmp_path: Path, before: dict[str, str], after: dict[str, str], said: str
) -> None:
    """What was not set is unset, and a value of several lines is one line."""
    alone = lock(tmp_path / "same.lock", pin("alpha", "1"))
    good, bad = End("", alone, before), End("", alone, after)
    assert remedies.remedy(differences(good, bad), [], good, bad, tmp_path) == said

"""What is printed to take a culprit back, or to see it again: sentences of one line, and words that the command line takes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.extras.bisect import outcome
from stackproof.extras.bisect.endpoints import LOCAL, Endpoint, differences
from stackproof.extras.bisect.search import FirstBad
from stackproof.gate.variants import assignments
from stackproof.stack import lockfile
from tests.extras.bisect.locks import lock, pin

_ODD = "it's\n$HOME; x"


def read(line: str) -> list[str]:
    """Return the words that a shell reads in a line."""
    ended = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
    return ended.stdout.split("\0")[:-1]


def test_the_gate_that_shows_it_again_is_one_that_can_be_typed(tmp_path: Path) -> None:
    good = Endpoint("", lock(tmp_path / "good.lock", pin("alpha", "1"), pin("beta", "1")))
    bad = Endpoint("", lock(tmp_path / "bad.lock", pin("alpha", "2"), pin("beta", "2")), {"V": _ODD})
    alpha, _, variable = differences(good, bad)
    told = outcome.command(["gate", "--stack", "cpu"], [alpha, variable], good, bad, "gemm-float32", tmp_path)
    options = cli._parser().parse_args(read(told))
    assert options.only == ["gemm-float32"] and assignments(options.head_env, "--head-env") == {"V": _ODD}
    assert [one.requirement for one in lockfile.read(options.head_lock).pins] == ["alpha==2", "beta==1"]
    assert [one.requirement for one in lockfile.read(options.base_lock).pins] == ["alpha==1", "beta==1"]
    assert outcome.remedy([alpha], [], good, bad, tmp_path).endswith(" pip install alpha==1`")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"V": "1"}, "unset V"),
        ({"V": _ODD}, {}, f"export {shlex.quote(f'V={_ODD}')}"),
        ({"V": "a b;touch x"}, {}, "export 'V=a b;touch x'"),
        ({"V": "0"}, {"V": "1"}, "export V=0"),
    ],
)
def test_a_variable_is_taken_back_as_a_shell_reads_it(
    tmp_path: Path, before: dict[str, str], after: dict[str, str], said: str
) -> None:
    alone = lock(tmp_path / "same.lock", pin("alpha", "1"))
    good, bad = Endpoint("", alone, before), Endpoint("", alone, after)
    assert outcome.remedy(differences(good, bad), [], good, bad, tmp_path) == said


@pytest.mark.parametrize(
    ("names", "merge", "said"),
    [
        (("a" * 40,), False, "git revert aaaaaaaaaaaa (later commits were not tried without it)"),
        (("a" * 40,), True, "git revert -m 1 aaaaaaaaaaaa (a merge; `git log"),
        ((LOCAL,), False, "look at `git status` and `git diff HEAD`"),
        (("a" * 40, LOCAL), False, "one of aaaaaaaaaa, what is not committed here: they could not be told apart"),
    ],
)
def test_a_commit_is_taken_back_as_git_takes_it(names: tuple[str, ...], merge: bool, said: str) -> None:
    assert outcome.revert(FirstBad(names, 1.0, 1, 2, {}), merge).startswith(said)

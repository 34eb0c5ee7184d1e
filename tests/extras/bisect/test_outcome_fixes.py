"""What is printed to take a culprit back: sentences of one line, a lock, and words that a shell takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from stackproof.extras.bisect import outcome
from stackproof.extras.bisect.endpoints import LOCAL, Endpoint, differences
from stackproof.extras.bisect.search import FirstBad
from stackproof.stack import lockfile
from tests.extras.bisect.locks import lock, pin

_ODD = "it's\n$HOME; x"


def test_a_package_is_held_by_a_lock_without_its_change(tmp_path: Path) -> None:
    good = Endpoint("", lock(tmp_path / "good.lock", pin("alpha", "1"), pin("beta", "1")))
    bad = Endpoint("", lock(tmp_path / "bad.lock", pin("alpha", "2"), pin("beta", "2")))
    alpha, beta = differences(good, bad)
    assert outcome.remedy([alpha], [beta], good, bad, tmp_path).startswith("hold alpha 1: ")
    held = lockfile.read(tmp_path / "remedy.lock")
    assert [one.requirement for one in held.pins] == ["alpha==1", "beta==2"]


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
    ("names", "said"),
    [
        (("a" * 40,), "git revert aaaaaaaaaaaa (later commits were not tried without it)"),
        ((LOCAL,), "look at `git status` and `git diff HEAD`"),
        (("a" * 40, LOCAL), "one of aaaaaaaaaa, what is not committed here: they could not be told apart"),
    ],
)
def test_a_commit_is_taken_back_as_git_takes_it(names: tuple[str, ...], said: str) -> None:
    assert outcome.revert(FirstBad(names, 1.0, 1, 2, {})).startswith(said)

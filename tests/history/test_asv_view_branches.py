"""Publishing: branches in which commits are found at once."""

from __future__ import annotations

import subprocess

from .making import Checkout, asv_python

COMMITS = """
from stackproof.history.asv_view import Commits
found = Commits(["b", "a"])
assert list(found) == ["b", "a"] and found[0] == "b" and len(found) == 2
assert "a" in found and "c" not in found
class Counted(str):
    compared = 0
    __hash__ = str.__hash__
    def __eq__(self, other):
        Counted.compared += 1
        return str(self) == str(other)
many = Commits([f"{number:040x}" for number in range(10_000)])
assert Counted(f"{9_999:040x}") in many and Counted("no") not in many
assert Counted.compared < 10, Counted.compared
"""


def test_commits_are_found_without_looking_at_all(measured: Checkout) -> None:
    command = [asv_python(), "-c", COMMITS]
    ended = subprocess.run(command, env=measured.environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_asv_uses_them(checkout: Checkout) -> None:
    code = """
import os
from asv.config import Config
from asv.repo import get_repo
from stackproof.history import asv_view
repository = get_repo(Config.load())
assert type(repository) is asv_view.Branches, type(repository)
assert type(repository.get_branch_commits("HEAD")) is asv_view.Commits
"""
    ended = subprocess.run(
        [asv_python(), "-c", code],
        cwd=checkout.root,
        env=checkout.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr

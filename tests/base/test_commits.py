"""What records say of a commit, and who can go back to it."""

from __future__ import annotations

import pytest

from stackproof.base import commits


@pytest.mark.parametrize(("changed", "said"), [(False, "abc"), (True, "abc (with local changes)")])
def test_local_changes_are_told_with_the_commit(changed: bool, said: str) -> None:
    assert commits.told("abc", changed) == said
    assert commits.can_be_had(said) is not changed


def test_nobody_can_go_back_to_what_is_unknown() -> None:
    assert not commits.can_be_had(commits.UNKNOWN)

"""What counts as named, and that every story says what it plants."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bisect_demonstration.__main__ import main, right
from tools.bisect_demonstration.stories import STORIES, BisectStory


def record(*names: str, verdict: str = "passed") -> dict[str, Any]:
    """Return a record that names culprits."""
    return {"verdict": verdict, "checks": [{"id": f"bisect/culprit::{name}", "reason": "it is"} for name in names]}


def test_only_what_was_planted_may_be_named() -> None:
    story = BisectStory((), "numpy ")
    assert right(story, record("numpy 1 -> 2"))
    assert not right(story, record("scipy 1 -> 2"))
    assert not right(story, record("numpy 1 -> 2", "scipy 1 -> 2"))
    assert not right(story, record("numpy 1 -> 2", verdict="inconclusive"))
    assert not right(story, {"verdict": "nothing"})


def test_every_story_says_what_it_plants() -> None:
    assert all((story.__doc__ or "").endswith(".") for story in STORIES.values())


def test_an_unknown_story_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nosuch"]) == 2
    assert "'nosuch' is no story; there are: pair, hang, commit, wheel, check, slower" in capsys.readouterr().err

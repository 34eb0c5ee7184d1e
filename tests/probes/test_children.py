"""A process of its own answers with JSON on its last line; one that fails, says nothing or hangs is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackproof.probes import children
from stackproof.record.checks import CheckFailed, CheckHung

CHILD = """
import json, os, sys, time
def answer(): print("noise"); print(json.dumps([sys.argv[1:], os.environ.get("MASK")]))
def fail(): raise SystemExit("no driver")
def die(): os.kill(os.getpid(), 9)
def silence(): pass
def hang(): time.sleep(60)
"""


@pytest.fixture(autouse=True)
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))


def test_words_and_variables_reach_it() -> None:
    answer = children.ask("child:answer", "xpu", "1", what="it", seconds=60, environment={"MASK": "3"})
    assert list(answer) == [["xpu", "1"], "3"]


@pytest.mark.parametrize(("name", "words"), [("fail", "no driver"), ("die", "SIGKILL"), ("silence", "it failed")])
def test_one_that_fails_is_told(name: str, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        children.ask(f"child:{name}", what="it", seconds=60)


def test_one_that_hangs_is_told() -> None:
    with pytest.raises(CheckHung, match="it did not end within 1 s"):
        children.ask("child:hang", what="it", seconds=1)

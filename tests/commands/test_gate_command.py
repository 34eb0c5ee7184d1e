"""What the flags of a command refuse before anything is started."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from stackproof import cli

_GATE = ("gate", "--command", "python x.py")


@pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="the gate's statistics need scipy")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (_GATE, "both sides are the same command in the same folder"),
        ((*_GATE, "--head-lock", "x"), "--head-lock is for stacks"),
        ((*_GATE, "--only", "gemm"), "--only is for stacks"),
        ((*_GATE, "--head-dir", "/no/such"), "there is no such folder"),
        ((*_GATE, "--head", "main", "--head-dir", "/tmp"), "a side is one of the two"),
        ((*_GATE, "--base", "no-such-commit"), "no commit, branch or tag"),
        ((*_GATE, "--metric", "a ("), "no regular expression"),
        ((*_GATE, "--same", "--metric", "it/s", "--metric", "it/s"), "two metrics are called 'it/s'"),
        (("gate", "--command", "a | b"), "which only a shell acts on"),
        (("gate", "--command", ""), "--command is empty"),
        (("gate", "--command", "no-such-program", "--same"), "'no-such-program' cannot be started"),
    ],
)
def test_slips_are_refused_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main([*arguments, "--results", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err

"""A device is asked for of the stack's environment, as the stack's own processes see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.device import names
from stackproof.stack import stacks


def test_the_environment_is_asked_with_the_stack_s_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIM_CARDS", raising=False)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "there are $SIM_CARDS" >&2\nexit 2\n', encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(Refusal, match="there are 2"):
        names.require_in(python, stacks.load("sim"), "sim:9")

"""The session file between supervisor and checks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.runner.request import SESSION, Session

WANTED = Session("xpu", True, "", "tiny", "/logs", {"a/b::c": ("passed", "fine")}, ("b*",), 2.0, (1, 2), 7, "/set.json")


def test_a_session_survives_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the supervisor wrote is what the plugin reads."""
    path = tmp_path / "session.json"
    path.write_text(json.dumps(asdict(WANTED)))
    monkeypatch.setenv(SESSION, str(path))
    assert Session.load() == WANTED


def test_suites_without_a_supervisor_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running pytest on suites/ directly says how it is meant to be done."""
    monkeypatch.delenv(SESSION, raising=False)
    with pytest.raises(Refusal, match="nox -s NAME-smoke"):
        Session.load()


def test_a_rehearsed_session_opens_the_rehearsed_stack() -> None:
    """The plugin sees the stand-in device, not the card."""
    stack = WANTED.open_stack()
    assert (stack.name, stack.device, stack.hardware) == ("xpu", "cpu", "xpu")

"""What the comparing verbs take, and what they refuse before anything is built."""

from __future__ import annotations

import importlib.util

import pytest

from stackproof import cli


def _output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(arguments)
    return code, capsys.readouterr().err


@pytest.mark.parametrize("verb", ["gate", "sweep"])
def test_without_scipy_the_session_is_named(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, said = _output(capsys, verb, "--stack", "cpu")
    assert code == 2
    assert "need scipy" in said
    assert "nox -s" in said

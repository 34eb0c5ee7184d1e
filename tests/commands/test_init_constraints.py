"""The verb `constraints`: what it prints is a file for pip, and nothing else is on stdout."""

from __future__ import annotations

import pytest

from stackproof import cli


def test_stdout_is_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["constraints", "cpu"]) == 0
    head, *pins = capsys.readouterr().out.splitlines()
    assert head.startswith("# cpu: ")
    assert len(pins) > 50
    assert all("==" in pin for pin in pins)

"""What a person sees while a run goes on."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from stackproof.record import console
from stackproof.record.console import Terminal, plain_console
from stackproof.record.records import Check, Verdict

MARKUP = "[red]x[/red] [link=https://evil.example]y[/link] [/nothing] [b"


@pytest.mark.parametrize("terminal", [False, True], ids=["log", "terminal"])
def test_progress_is_shown(terminal: bool) -> None:
    out = io.StringIO()
    watcher = Terminal(Console(file=out, width=100, force_terminal=terminal, color_system=None))
    with watcher.watching(f"smoke {MARKUP}") as terminal_:
        terminal_.finished(Check("host", Verdict.PASSED, "there", 0.0))
        terminal_.collected(2)
        terminal_.started(MARKUP)
        terminal_.finished(Check(MARKUP, Verdict.PASSED, "fine", 0.5))
        terminal_.finished(Check("z", Verdict.HUNG, "hung", 0.5))
    said = out.getvalue()
    assert f"smoke {MARKUP}" in said
    if not terminal:
        assert "[1] passed       0.0 s  host" in said
        assert f"[2/3] passed       0.5 s  {MARKUP}" in said
        assert "[3/3] hung         0.5 s  z" in said


def test_log_is_wide_enough_for_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert plain_console().width == 150


def test_what_is_drawn_in_letters_stays_letters(capsys: pytest.CaptureFixture[str]) -> None:
    plain_console().print("=:o:=")
    assert "=:o:=" in capsys.readouterr().out


def test_plain_keeps_what_people_write() -> None:
    text = "xpu\uff1a1 \u4e2d\u6587 \U0001f600 a\tb\nc"
    assert console.plain(text) == text
    assert console.plain("\x00\x1b\x7f") == r"\x00\x1b\x7f"

"""On the terminal: the root cause first, proof with line numbers, and nothing of a log is obeyed."""

from __future__ import annotations

import io
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from stackproof.triage import logs, reports, verb
from stackproof.triage.reports import Report
from tools import triage_corpus

from .making import TRACEBACK, report, write


def shown(*found: Report, width: int = 150) -> str:
    """Return what is printed."""
    stream = io.StringIO()
    verb.show(found, Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


def test_root_cause_is_the_first_line() -> None:
    lines = shown(triage_corpus.judge("nccl-duplicate-gpu-two-nodes.log")).splitlines()
    assert lines[0] == "ROOT CAUSE  rank 0 (then 1): two ranks on one card"
    labels = [line.split()[0] for line in lines[1:6]]
    assert labels == ["log", "cause", "do", "link", "confidence"]
    assert any(line.strip().startswith("line 15: node1:73:211 [0] init.cc:795 NCCL WARN") for line in lines)


def test_sections_of_a_training_log() -> None:
    text = shown(triage_corpus.judge("xpu-lora-two-cards.log"))
    assert text.startswith("CLEAN  it ended well (line 129: ")
    assert "training           207 steps, 5.881 samples/s, 0.372 steps/s, loss 1.745 -> 1.3035" in text
    assert "odd                NIC br-1894cb0b4cfd" in text
    assert "chose a container bridge" not in text
    assert "oneCCL Gold-2021.15.2" in text
    assert "harmless           IPEX replaces a kernel of torch" in text


def test_expectation_shows_its_lines() -> None:
    (run,) = logs.runs([str(triage_corpus.FOLDER / "efa-without-rdma.log")])
    text = shown(reports.report(run, ["efa", "rdma"]))
    assert "expected efa       yes: NCCL's traffic between nodes goes over EFA" in text
    assert "expected rdma      no: " in text
    assert "disabling GDR" in text


def test_several_runs_are_named_and_counted() -> None:
    text = shown(triage_corpus.judge("plain-training.log"), triage_corpus.judge("cuda-driver-too-old.log"))
    assert "  do                 if it was killed, " in text
    assert f"CANNOT SAY  {triage_corpus.FOLDER}/plain-training.log: no failure" in text
    assert f"ROOT CAUSE  {triage_corpus.FOLDER}/cuda-driver-too-old.log: the driver is older" in text
    assert text.endswith("2 runs: 1 with something wrong, 0 that ended well, 1 of which the logs do not say\n")


EVIL = "ValueError: [bold red]x[/bold red] [link=https://e.example]y[/link] \x1b[2J\x1b]0;t\x07 \x9b31m \u202e\u2028 {{7*7}} $(id) %s {0}"


def test_nothing_of_a_log_is_markup_or_obeyed(tmp_path: Path) -> None:
    text = shown(report(tmp_path, TRACEBACK + EVIL + "\n"))
    assert "[bold red]x[/bold red] [link=https://e.example]y[/link]" in text
    assert "{{7*7}} $(id) %s {0}" in text
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e", "\u2028"}


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=200))
def test_any_text_is_shown_on_its_line(tmp_path: Path, text: str) -> None:
    found = reports.report(
        logs.named([write(tmp_path, (TRACEBACK + "ValueError: " + text).encode("utf-8", "replace"))])
    )
    printed = shown(found)
    assert all(character.isprintable() or character in "\n\u2026" or ord(character) > 127 for character in printed)
    assert "\x1b" not in printed


def test_long_line_is_cut() -> None:
    assert verb.safe("a" * 999) == "a" * 239 + "\u2026"
    assert verb.safe("a\nb\tc") == "a / b c"

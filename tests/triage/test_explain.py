"""Other verdicts explain themselves with triage: one sentence, nothing heavy, never an exception."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.record.records import Verdict
from stackproof.triage import explain, reports, rules

from ..conftest import RunSuite
from .making import TRACEBACK, write

MEMORY = TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def test_explain_is_one_sentence_for_all_logs_of_a_run(tmp_path: Path) -> None:
    paths = [write(tmp_path, text, f"attempt_0/{rank}/stderr.log") for rank, text in enumerate(("step\n", MEMORY))]
    said = explain.explain(paths)
    assert said is not None
    assert said.startswith("rank 1: the card's memory is full [cuda-out-of-memory, certain]: ")
    assert "\n" not in said


def test_explain_has_nothing_to_say(tmp_path: Path) -> None:
    paths = [write(tmp_path, "step\n", "a.log"), write(tmp_path, "", "b.log"), tmp_path / "c.log"]
    assert [explain.explain([path]) for path in paths] == [None, None, None]
    assert explain.explain([]) is None


def test_explain_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stackproof.triage import explain

    path = write(tmp_path, MEMORY)
    write(tmp_path, "[[signature]]\n", "broken.toml")
    reports.probes.cache_clear()
    broken = rules.load_all.__wrapped__
    monkeypatch.setattr(rules, "load_all", lambda: broken(tmp_path))
    assert explain.explain([path]) is None
    monkeypatch.undo()
    reports.probes.cache_clear()
    assert explain.explain([path]) is not None


def test_with_finding_keeps_the_reason(tmp_path: Path) -> None:
    assert explain.with_finding("it died", []) == "it died"
    assert explain.with_finding("it died", [write(tmp_path, MEMORY)]).startswith(
        "it died; triage: the card's memory is full"
    )


def test_explain_needs_nothing_but_a_reader_of_toml(tmp_path: Path) -> None:
    path = write(tmp_path, MEMORY)
    code = (
        "import sys\nfor name in ('torch', 'rich', 'fastjsonschema', 'packaging', 'numpy'): sys.modules[name] = None\n"
        "from pathlib import Path\nfrom stackproof.triage.explain import explain\n"
        f"print(explain([Path({str(path)!r})]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert ended.stdout.decode().startswith("the card's memory is full")


CRASHES = """
    import os, signal

    def test_dies():
        os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.slow
def test_crash_of_a_suite_is_explained(run_suite: RunSuite) -> None:
    record = run_suite({"test_1_dies.py": CRASHES})
    (crashed,) = [check for check in record.checks if check.verdict is Verdict.CRASHED]
    assert "the process ended with signal SIGSEGV" in crashed.reason
    assert crashed.reason.endswith("; triage: it was ended by SIGSEGV (no known signature)")

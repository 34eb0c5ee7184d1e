"""A verb as a stage of a night: its exit code becomes a word, its record a sentence, and what hangs is ended."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.extras import verbs
from stackproof.record.records import Check, Record, Verdict


def program(folder: Path, text: str) -> Path:
    """Return a Python that runs this text in place of every module; `at` is the file that `--json` names."""
    path = folder / "python"
    begin = "import os, sys, time\nat = sys.argv[sys.argv.index('--json') + 1]\n"
    path.write_text(f"#!{sys.executable}\n{begin}{text}", encoding="utf-8")
    path.chmod(0o755)
    return path


def ended(folder: Path, text: str, deadline: float = 20.0) -> verbs.StageOutcome:
    """Run it as a stage."""
    return verbs.call(["smoke"], folder / "smoke.log", deadline, program(folder, text))


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (0, Verdict.PASSED), (1, Verdict.FAILED), (2, Verdict.FAILED), (3, Verdict.UNAVAILABLE), (4, Verdict.MISMATCHED),
        (5, Verdict.HUNG), (6, Verdict.INCONCLUSIVE), (130, Verdict.INTERRUPTED), (99, Verdict.CRASHED),
    ],
)  # fmt: skip
def test_the_exit_code_is_the_word(tmp_path: Path, code: int, verdict: Verdict) -> None:
    found = ended(tmp_path, f"print('first')\nprint('the last word')\nsys.exit({code})")
    assert found.verdict is verdict and "the last word" in found.reason


def test_a_record_is_told_in_a_sentence(tmp_path: Path) -> None:
    bad = Check("smoke/a::b", Verdict.FAILED, "is off by one", 1.0)
    good = [Check(f"smoke/a::{number}", Verdict.PASSED, "seen", 1.0) for number in range(3)]
    text = Record("smoke", "cpu", "2026-01-01T00:00:00.000+00:00", 7.0, Verdict.FAILED, {}, [*good, bad]).as_json()
    found = ended(
        tmp_path, f"import json\nopen(at, 'w').write(json.loads({json.dumps(json.dumps(text))}))\nsys.exit(1)"
    )
    assert found.reason == "3 passed, 1 failed in 7 s; smoke/a::b: is off by one"


def test_what_it_prints_is_cleaned(tmp_path: Path) -> None:
    assert "\x1b" not in ended(tmp_path, "print('\\x1b[31mred')\nsys.exit(2)").reason


@pytest.mark.slow
def test_what_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
    child = "import subprocess\np = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    found = ended(tmp_path, f"{child}print(p.pid, flush=True)\ntime.sleep(600)", deadline=2.0)
    assert found.verdict is Verdict.HUNG
    pid = int((tmp_path / "smoke.log").read_text(encoding="utf-8"))
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def test_an_interruption_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (open('said', 'w').write('ended'), sys.exit(130)))\n"
    )
    python = program(tmp_path, f"{text}open('up', 'w').close()\ntime.sleep(600)")
    monkeypatch.chdir(tmp_path)
    waited = verbs.subprocess.Popen.wait

    def interrupted(self: object, timeout: float | None = None) -> int:
        if timeout == 60.0:
            while not Path("up").exists():
                time.sleep(0.01)
            raise KeyboardInterrupt
        return waited(self, timeout)  # type: ignore[arg-type]

    monkeypatch.setattr(verbs.subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verbs.call(["smoke"], tmp_path / "smoke.log", 60.0, python)
    assert Path("said").read_text(encoding="utf-8") == "ended"


def test_it_is_this_very_package_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "print([os.environ['PYTHONPATH'].split(os.pathsep)[0]])\nsys.exit(1)"
    assert ended(tmp_path, text).reason == str([str(Path(verbs.__file__).absolute().parents[2])])
    monkeypatch.setattr(places, "INSTALLED", True)  # beside it lie pip and what else that environment has
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert ended(tmp_path, text).reason == "['']"

"""A gate of any command, with real launches of a small program: every way in which a side can be worse, wrong or gone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.gate import plan
from stackproof.record import reading, writer
from stackproof.record.records import Check, Record, Verdict

_PROGRAM = "import sys\n{}\nfor step in range(3):\n    print('loss:', 3 - step)\nprint('speed: {} x/s')\n"
_SPEED = ("--metric", "x/s")


def _program(folder: Path, speed: float = 10.0, also: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "job.py").write_text(_PROGRAM.format(also, speed), encoding="utf-8")
    return folder


def _gate(tmp_path: Path, *flags: str, counters: bool = False) -> tuple[int, Record]:
    found = tmp_path / "gate.json"
    command = f"{sys.executable} -S job.py"
    code = cli.main(
        ["gate", "--command", command, "--base-dir", str(tmp_path / "a"), "--head-dir", str(tmp_path / "b"),
         "--results", str(tmp_path / "results"), "--json", str(found), *flags, *([] if counters else ["--no-counters"])]
    )  # fmt: skip
    return code, reading.read(found)


def _check(record: Record, aspect: str) -> Check:
    return next(check for check in record.checks if check.aspect == aspect)


def _output(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "code", "word"), [(10.0, 0, "SAME"), (9.0, 1, "SLOWER"), (12.0, 0, "FASTER"), (9.8, 0, "SAME")]
)
def test_a_rate_is_judged_over_launches(
    speed: float, code: int, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _program(tmp_path / "a"), _program(tmp_path / "b", speed)
    got, record = _gate(tmp_path, *_SPEED, "--junit", str(tmp_path / "j.xml"), "--markdown", str(tmp_path / "m.md"))
    assert got == code
    assert _check(record, "x/s").outcome == word
    change = float(re.search(r"([+-][0-9.]+) % \[", _check(record, "x/s").reason).group(1))  # type: ignore[union-attr]
    assert (change > 0) == (speed > 10) or word == "SAME"
    assert (
        len([name for name in _check(record, "x/s").figures if name.startswith("launch ")])
        == plan.load().design.looks[0]
    )
    assert "NOTHING WAS VERIFIED" in _output(capsys)
    for page in ("j.xml", "m.md", "gate.json"):
        assert "nothing was verified" in (tmp_path / page).read_text(encoding="utf-8").lower()
    assert [row.unit for row in record.measurements] == ["s/x", "s/x"]


@pytest.mark.slow
def test_named_figures_are_compared_and_then_something_was_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _program(tmp_path / "a"), _program(tmp_path / "b")
    code, record = _gate(tmp_path, *_SPEED, "--figure", r"loss: (\S+)")
    assert code == 0
    assert _check(record, "loss").outcome == "SAME"
    said = _output(capsys)
    assert "only loss of both sides were compared" in said and "NOTHING WAS VERIFIED" in said
    assert _check(record, "verified").verdict is Verdict.NOT_APPLICABLE
    assert '<skipped message="nothing was verified: only loss' in writer.junit(record)


@pytest.mark.slow
def test_a_changed_loss_fails_unless_it_is_accepted(tmp_path: Path) -> None:
    _program(tmp_path / "a"), _program(tmp_path / "b", 12.0, "print('loss: 3.5')")
    code, record = _gate(tmp_path, *_SPEED, "--figure", r"loss: (\S+)")
    assert (code, _check(record, "loss").outcome) == (1, "CHANGED")
    code, record = _gate(tmp_path, *_SPEED, "--figure", r"loss: (\S+)", "--accept-changed")
    assert (code, _check(record, "loss").outcome) == (0, "CHANGED")


@pytest.mark.parametrize(
    ("side", "also", "code", "sentence"),
    [
        (
            "b",
            "print('\\x1b[1mboom'); sys.exit(3)",
            1,
            "head: the command ended with exit code 3; it printed last: \\x1b[1mboom",
        ),
        ("a", "sys.exit(3)", 1, "base: the command ended with exit code 3; it printed last: nothing"),
        ("b", "import time; print('waits', flush=True); time.sleep(99)", 5, "head: the command had not ended after"),
        ("b", "sys.stdout = open('other', 'w')", 1, "head: the output has no 'x/s'"),
        ("b", "import time; print('nan x/s'); sys.exit(0)", 1, "head: 'x/s' is nan (1 of 1 values)"),
        ("b", "print('0 x/s'); sys.exit(0)", 1, "head: 'x/s' is 0, and only what is above 0"),
    ],
)
def test_a_side_that_ends_badly_is_one_sentence(side: str, also: str, code: int, sentence: str, tmp_path: Path) -> None:
    for name in "ab":
        _program(tmp_path / name, also=also if name == side else "")
    got, record = _gate(tmp_path, *_SPEED, "--deadline", "4")
    assert got == code
    assert sentence in _check(record, "runs").reason


def test_exact_times_nothing_and_judges_figures(tmp_path: Path) -> None:
    _program(tmp_path / "a"), _program(tmp_path / "b", 1.0)
    loss = ("--exact", "--figure", r"loss: (\S+)")
    code, record = _gate(tmp_path, *_SPEED, *loss)
    assert (code, record.provenance["method"]) == (0, "what is exact, nothing was timed")
    assert not [check for check in record.checks if "ratio" in check.figures]
    assert _gate(tmp_path, *_SPEED, "--exact")[0] == 6
    _program(tmp_path / "b", also="print('loss: 4')")
    assert _gate(tmp_path, *_SPEED, *loss)[0] == 1


_ALLOCATES = """
import sys, types
class Card: memory_stats = lambda _: {"allocation.all.allocated": 7}
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.get_device_module = Card
"""


@pytest.mark.parametrize(("side", "code", "reason"), [("b", 1, "SLOWER 0 -> 7"), ("a", 0, "FASTER 7 -> 0")])
def test_a_counter_that_one_side_alone_has_counts_0_on_the_other(
    side: str, code: int, reason: str, tmp_path: Path
) -> None:
    for name in "ab":
        _program(tmp_path / name, also=_ALLOCATES if name == side else "")
    got, record = _gate(tmp_path, "--exact", "--figure", r"loss: (\S+)", counters=True)
    assert got == code
    assert _check(record, "allocations").reason.startswith(reason)


def test_a_changed_figure_ends_a_gate_after_a_pair_and_the_minutes_end_it_before_one(tmp_path: Path) -> None:
    _program(tmp_path / "a"), _program(tmp_path / "b", also="print('loss: 4')")
    code, record = _gate(tmp_path, *_SPEED, "--figure", r"loss: (\S+)")
    assert (code, _check(record, "loss").outcome) == (1, "CHANGED")
    assert "0 of 1 metric decided; ended at once, since loss is worse" in str(record.provenance["times"])
    assert len(record.measurements[0].samples) == 1
    _program(tmp_path / "a", also="import time\ntime.sleep(9)")
    code, record = _gate(tmp_path, *_SPEED, "--minutes", "0.01")
    assert (code, _check(record, "speed").verdict) == (6, Verdict.INCONCLUSIVE)
    assert "the minutes were over in a launch of the " in str(record.provenance["times"])


@pytest.mark.slow
def test_fewer_values_are_less_work(tmp_path: Path) -> None:
    _program(tmp_path / "a", also="print('took 1 s\\ntook 1 s')")
    _program(tmp_path / "b", also="print('took 0.5 s')")
    code, record = _gate(tmp_path, "--metric-lower", r"took (\S+) s")
    assert code == 1
    assert (
        "the base gives 2 values of it, the head 1: it did not do the same work"
        in _check(record, "values of took s").reason
    )


def test_a_base_without_the_metric_is_a_slip_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _program(tmp_path / "a"), _program(tmp_path / "b")
    code = cli.main(
        ["gate", "--command", f"{sys.executable} -S job.py", "--metric", "it/s", "--base-dir", str(tmp_path / "a"),
         "--head-dir", str(tmp_path / "b"), "--results", str(tmp_path / "r")]
    )  # fmt: skip
    assert code == 2
    assert (
        "base: the output has no 'it/s'; docs/your-command.md says what is looked for; it printed last:"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_two_commits_are_laid_out_and_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "repo" / "inner"
    where.parent.mkdir()
    _program(where)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(where)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    _program(where, 8.0)
    monkeypatch.chdir(where)
    found = tmp_path / "gate.json"
    words = ["gate", "--command", f"{sys.executable} -S job.py", *_SPEED, "--base", "HEAD", "--no-counters"]
    assert cli.main([*words, "--json", str(found), "--results", str(tmp_path / "r")]) == 1
    assert _check(reading.read(found), "x/s").outcome == "SLOWER"
    listed = subprocess.run([*git, "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 1


@pytest.mark.slow
def test_an_operator_more_is_seen_whatever_the_noise(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for name, more in (("a", ""), ("b", ".abs()")):
        _program(tmp_path / name, also=f"import torch\nassert torch.ones(4).exp(){more}.sum() > 0")
    found = tmp_path / "gate.json"
    code = cli.main(
        ["gate", "--command", f"{sys.executable} job.py", *_SPEED, "--base-dir", str(tmp_path / "a"), "--head-dir", str(tmp_path / "b"),
         "--results", str(tmp_path / "r"), "--json", str(found)]
    )  # fmt: skip
    assert code == 1
    assert _check(reading.read(found), "operators").outcome == "SLOWER"

"""What a person sees of a run: text as text, the command that repeats it, figures the right way round, in any locale and width."""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stackproof import ROOT
from stackproof.base import git, places
from stackproof.bench.rows import measurements
from stackproof.record import console, outline
from stackproof.record.console import Terminal, plain_console, show, verdict_line
from stackproof.record.records import Check, Measurement, Record, Verdict, overall
from stackproof.stack import provenance, stacks

from ..bench.test_rows import sampled

MARKUP = "[red]x[/red] [link=https://evil.example]y[/link] [/nothing] [b"


@pytest.mark.parametrize("terminal", [False, True], ids=["log", "terminal"])
def test_progress_is_shown(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_SILENCE_S", 0.0)
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


def test_a_log_has_what_is_bad_at_once_and_of_the_rest_a_line_now_and_then() -> None:
    out = io.StringIO()
    with Terminal(Console(file=out, width=100, color_system=None)).watching("smoke") as watcher:
        for verdict in (Verdict.PASSED, Verdict.SKIPPED, Verdict.FAILED, Verdict.PASSED):
            watcher.finished(Check(f"x/{verdict.value}", verdict, "fine", 0.5))
    assert [line.split("  ")[-1] for line in out.getvalue().splitlines()] == ["smoke", "x/failed"]


STARTED = "2026-01-02T03:04:05+00:00"


def shown(record: Record, width: int = 200, terminal: bool = False) -> str:
    """Return what is printed of a record."""
    out = io.StringIO()
    made = Console(file=out, width=width, force_terminal=terminal, color_system=None, highlight=False)
    show(record, Path.cwd() / "record.json", made)
    return out.getvalue()


def record(*checks: Check, **fields: object) -> Record:
    """Return a record of the cpu stack with these checks."""
    made = Record("smoke", "cpu", STARTED, 12.4, Verdict.PASSED, checks=list(checks))
    return replace(made, **fields)  # type: ignore[arg-type]


def measurement(unit: str = "s/sample", value: float = 0.25, **fields: object) -> Measurement:
    """Return a measurement."""
    made = Measurement("gemm", "tiny", "float32", 2, "train", unit, value, [value], "indicative")
    return replace(made, **fields)  # type: ignore[arg-type]


PASSED = Check("smoke/bringup::devices", Verdict.PASSED, "cpu:0: some CPU", 1.25)
FAILED = Check("smoke/ddp::loss_falls[x]", Verdict.FAILED, "loss rose from 1 to 2", 3.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "4.00 samples/s"), (1e-4, "10,000.00 samples/s"), (800.0, "0.00125 samples/s")],
)
def test_figures_keep_their_digits(seconds: float, text: str) -> None:
    said = shown(record(PASSED, measurements=[measurement(value=seconds)]))
    assert text in said
    assert "indicative" in said


def test_passing_run_says_so() -> None:
    guard = Check(
        "guard: project", Verdict.PASSED, "1 of 1 checks of mine were executed", 0.0
    )  # no check that progress counts
    said = shown(record(PASSED, Check("s", Verdict.SKIPPED, "no float16 here", 0.0), guard))
    for words in ("smoke/bringup", "cpu:0: some CPU", "no float16 here", "record: record.json"):
        assert words in said
    assert said.splitlines()[-1].startswith("what to do: nothing; every suite: ")
    assert "PASSED  cpu: 1 passed, 1 skipped in 12 s" in said
    assert "repeat" not in said


def test_what_no_commit_holds_is_said_beside_the_verdict() -> None:
    """Six gutted checks passed once, and only the record said that files differed."""
    line = verdict_line(record(PASSED, provenance={"commit": git.as_recorded("1" * 40, changed=True)}))
    assert line.endswith(" [with local changes]") and "[" not in verdict_line(record(PASSED))


def test_what_comes_next_runs_where_the_smoke_run_did() -> None:
    """No lock was asked for in a vendor's container, and none is there to be built."""
    said = shown(record(PASSED, provenance={"pinned": False}))
    assert said.splitlines()[-1] == "what to do: nothing; every suite: python -m stackproof verify --stack cpu"


@pytest.mark.parametrize("verdict", [v for v in Verdict if v.exit_code])
def test_failure_has_a_sentence_and_the_command_that_repeats_it(verdict: Verdict) -> None:
    said = shown(record(PASSED, replace(FAILED, verdict=verdict), verdict=verdict))
    assert f"{verdict.value}: smoke/ddp::loss_falls[x]: loss rose from 1 to 2" in said
    # What no host offered was not asked of an environment of a lock.
    start = "python -m stackproof smoke --stack cpu" if verdict is Verdict.UNAVAILABLE else "nox -s cpu-smoke --"
    assert f"repeat just this: {start} --only 'smoke/ddp::loss_falls[x]'\n" in said
    assert f"{verdict.value.upper()}  cpu: 1 passed, 1 {verdict.value} in 12 s" in said


def test_what_is_bad_stands_first_the_gravest_on_top() -> None:
    doubtful = Check("smoke/rates::x", Verdict.INCONCLUSIVE, "noise", 1.0)
    lines = shown(record(PASSED, doubtful, FAILED, verdict=Verdict.FAILED)).splitlines()
    assert [line.partition(":")[0] for line in lines[:3:2]] == ["failed", "inconclusive"]
    assert lines[-1].endswith("--only 'smoke/ddp::loss_falls[x]'") and lines[-1].startswith("what to do: mend it")
    stopped = [shown(record(verb=verb, verdict=Verdict.INTERRUPTED)).splitlines()[-1] for verb in ("bisect", "night")]
    assert stopped[0].startswith("what to do: go on: ") and "--continue" in stopped[0]
    assert stopped[1] == "what to do: again: nox -s cpu-night"


def test_a_green_smoke_is_short() -> None:
    files = {
        "host": 1,
        "environment": 1,
        "smoke/bringup": 1,
        "smoke/operators": 2,
        "smoke/workloads": 7,
        "smoke/ddp": 5,
    }
    checks = [Check(f"{file}::{n}", Verdict.PASSED, "fine", 1.0) for file, count in files.items() for n in range(count)]
    rates = [measurement(unit, 0.1, workload=name) for name in "abcd" for unit in ("s/iteration", "s/sample")]
    assert len(shown(record(*checks, measurements=rates)).splitlines()) <= 20


def test_repeat_command_outside_nox() -> None:
    said = shown(record(FAILED, provenance={"pinned": False}))
    assert "python -m stackproof smoke --stack cpu --only 'smoke/ddp::loss_falls[x]'" in said
    assert "nox -s cpu-smoke" not in said


def test_repeat_command_where_there_is_no_noxfile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project = record(FAILED, provenance={"project.folder": str(tmp_path)})
    assert f"nox -s cpu-smoke -- --project {tmp_path} --only" in shown(project)
    monkeypatch.setattr(places, "INSTALLED", True)
    assert f"stackproof smoke --stack cpu --locked --project {tmp_path} --only" in shown(project)
    monkeypatch.chdir(tmp_path)
    said = shown(project)
    assert "repeat just this: stackproof smoke --stack cpu --locked --only 'smoke/ddp::loss_falls[x]'" in said
    assert "nox" not in said


def test_what_was_chosen_is_told_by_its_name() -> None:
    said = shown(record(PASSED, provenance={"only": "*::*[[]training-mixer] *[[]my-*] smoke/x::y[[]z]"}))
    assert "[only: training-mixer *[my-*] smoke/x::y[z]]" in said


def test_repeat_command_names_the_training_set_that_was_handed_in() -> None:
    for suite, said in (("data", "--suite data --dataset /a/train.json --only"), ("rng", "--suite rng --only")):
        failed = replace(FAILED, id=f"{suite}/own::x")
        found = shown(record(failed, provenance={"pinned": False, "dataset": "/a/train.json"}, verb="verify"))
        assert said in found


def test_repeat_command_is_one_line_and_safe_to_paste() -> None:
    name = "smoke/x::" + "long" * 40 + "['; rm -rf ~ #]"
    said = shown(record(replace(FAILED, id=name)), width=60)
    (line,) = [line for line in said.splitlines() if "repeat just this" in line]
    assert line.endswith("--only 'smoke/x::" + "long" * 40 + """['"'"'; rm -rf ~ #]'""")


def test_check_without_a_place_has_no_repeat_command() -> None:
    assert "repeat" not in shown(record(Check("guard", Verdict.FAILED, "1 check of 17", 0.0)))


def test_rehearsal_is_labelled_in_title_and_verdict() -> None:
    facts = provenance.host_facts(stacks.load("dcu").rehearse())
    said = shown(record(PASSED, verb="rehearse", stack="dcu", provenance=facts))
    label = "dcu (rehearsed on cpu, not verified on cuda)"
    assert f"rehearse: {label}" in said
    assert f"PASSED  {label}: 1 passed" in said


def test_unpinned_and_unhashed_are_shown() -> None:
    clean = shown(record(PASSED, provenance={"pinned": True, "unhashed": 0}))
    assert "unpinned" not in clean
    assert "unhashed" not in clean
    said = shown(record(PASSED, provenance={"pinned": False, "unhashed": 6}))
    (line,) = [line for line in said.splitlines() if line.startswith("PASSED")]
    assert "[unpinned environment]" in line
    assert "[unhashed: 6; `nox -s lock -- cpu` completes the lock]" in line


@pytest.mark.parametrize("terminal", [False, True], ids=["log", "terminal"])
def test_markup_is_shown_as_text(terminal: bool) -> None:
    checks = (Check(MARKUP, Verdict.PASSED, MARKUP, 0.0), Check(f"a/{MARKUP}", Verdict.FAILED, MARKUP, 0.0))
    rows = [measurement(workload=MARKUP, metric=MARKUP, dtype=MARKUP, note=MARKUP, unit=MARKUP, preset=MARKUP)]
    said = shown(record(*checks, measurements=rows), width=2000, terminal=terminal)
    assert said.count(MARKUP) >= 8
    assert "\x1b]8" not in said  # no hyperlink was made of it


def test_control_characters_do_not_reach_the_terminal() -> None:
    nasty = "a\x1b[2J\x1b]0;title\x07\r\x08b\x9b31m"
    said = shown(record(Check(nasty, Verdict.PASSED, nasty, 0.0), Check(f"x/{nasty}", Verdict.FAILED, nasty, 0.0)))
    assert not {"\x1b", "\x07", "\x08", "\r", "\x9b"} & set(said)
    assert said.count(r"a\x1b[2J\x1b]0;title\x07\x0d\x08b\x9b31m") >= 3


def test_difference_keeps_its_lines() -> None:
    said = shown(record(Check("environment", Verdict.MISMATCHED, "is not its lock:\n  - a==1\n  + b==2", 0.0)))
    assert "\n  - a==1\n  + b==2\n" in said


def test_many_checks_are_summed_up_by_suite() -> None:
    checks = [Check(f"operators/sweep::agrees[op{n}-float32]", Verdict.PASSED, "fine", 0.5) for n in range(100)]
    said = shown(record(*checks, FAILED, verb="verify"))
    (row,) = [line for line in said.splitlines() if line.startswith("operators ")]
    assert ["operators", "100", "passed", "50.0", "agrees"] == row.split()
    assert "smoke/ddp::loss_falls[x]: loss rose from 1 to 2" in said
    assert "nox -s cpu-verify -- --suite smoke --only 'smoke/ddp::loss_falls[x]'" in said


def test_one_operator_in_several_dtypes_is_one_finding() -> None:
    broken = [
        Check(f"operators/sweep::agrees[addmm-{dtype}]", Verdict.FAILED, "too large", 0.0)
        for dtype in ("float32", "bfloat16", "complex64")
    ]
    said = shown(record(*broken))
    assert said.count("too large") == 1
    assert "operators/sweep::agrees[addmm-float32] (and bfloat16, complex64): too large" in said


def test_code_that_repeats_a_failure_is_shown() -> None:
    said = shown(record(replace(FAILED, figures={"repro": "import torch\nprint(torch.ones(2))"})))
    assert "    import torch\n    print(torch.ones(2))\n" in said


def test_long_code_is_pointed_at() -> None:
    said = shown(record(replace(FAILED, figures={"repro": "pass\n" * 60})))
    assert "code to paste: the check's figure 'repro' in the record, 60 lines" in said
    assert "    pass" not in said


def test_a_stack_that_does_not_exist_here_is_shown() -> None:
    assert "PASSED  theirs: 1 passed" in shown(record(PASSED, stack="theirs"))


SHOW = """
import sys
from pathlib import Path
from stackproof import cli
from stackproof.record import console
from stackproof.record.records import Check, Measurement, Record, Verdict
cli._print_anything()
text = "device 'xpu\\uff1a1' \\u4e2d\\u6587 \\udc80 \\u2713"
checks = [Check(f"a/{text}", verdict, text, 0.0) for verdict in Verdict]
rows = [Measurement(text, "tiny", "float32", 1, "rate", "s/GB", 1.0, [1.0], text)]
made = Record("smoke", "cpu", "2026-01-02T03:04:05+00:00", checks=checks, measurements=rows)
with console.Terminal().watching(text) as terminal:
    terminal.started(text)
    terminal.finished(checks[0])
console.show(made, Path.cwd() / "record.json")
print(text, file=sys.stderr)
"""

LOCALES = {
    "ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "strict ascii": {"PYTHONIOENCODING": "ascii:strict"},
    "gbk": {"PYTHONIOENCODING": "gbk"},
    "utf-8": {"PYTHONIOENCODING": "utf-8"},
}


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("colour", [False, True], ids=["log", "colours"])
def test_no_locale_gives_a_traceback(locale: str, colour: bool) -> None:
    env = {
        **os.environ,
        **LOCALES[locale],
        "PYTHONPATH": str(ROOT / "src"),
        **({"FORCE_COLOR": "1"} if colour else {}),
    }
    ended = subprocess.run([sys.executable, "-c", SHOW], env=env, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert b"Traceback" not in ended.stderr
    assert b"repeat just this" in ended.stdout
    for printed in (ended.stdout, ended.stderr):
        colon = b"\\uff1a" if locale in ("ascii", "latin-1", "strict ascii") else "\uff1a".encode(locale)
        assert colon in printed
        assert b"\\udc80" in printed


def product(tflops: float, subject: str = "gemm-bfloat16", metric: str = "gemm", **changes: Any) -> list[Measurement]:
    """Return the rows of work that reaches so many TFLOP/s in bfloat16 on an H200."""
    values = {
        "subject": subject, "unit": "s/TFLOP", "samples": tuple(1 / tflops * (1 + n / 100) for n in range(-10, 11)),
        "worth": {"iteration": 1.0, "TFLOP": 1.0}, "arithmetic": "bfloat16", "dtype": "bfloat16", **changes,
    }  # fmt: skip
    return measurements(sampled(**values), metric, "NVIDIA H200")


def drawn(rows: list[Measurement], width: int = 200) -> str:
    """Return what a terminal gets."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    terminal = Console(file=out, width=width, color_system=None, highlight=False)
    record = Record("bench", "cuda", STARTED, 1.0, Verdict.PASSED, measurements=rows)
    outline.show([console.figures(record)], terminal)
    out.flush()
    return out.buffer.getvalue().decode()


def test_shares_of_peak() -> None:
    said = drawn(product(791.52) + product(395.76, "attention", "attention"))
    assert "791.52 TFLOP/s" in said
    assert "80% " in said
    assert "40% " in said


def test_faster_is_a_higher_figure() -> None:
    assert "100.00 TFLOP/s" in drawn(product(100.0))
    assert "200.00 TFLOP/s" in drawn(product(200.0))


def test_all_units_of_a_subject_stand_in_one_row() -> None:
    said = drawn(measurements(sampled(), "training", "AMD EPYC"))
    assert said.count("training") == 1
    for rate in ("40.00 samples/s", "500.00 tokens/s", "10.00 it/s"):
        assert rate in said


def test_what_the_first_users_measured_stands_beside() -> None:
    full = sampled(subject="training-qwen3-0.6b-lora", preset="full")
    assert "5.88 samples/s (2 x Intel Arc Pro B60)" in drawn(measurements(full, "training", "AMD EPYC"))
    tiny = sampled(subject="training-qwen3-0.6b-lora")
    assert "Arc Pro" not in drawn(measurements(tiny, "training", "AMD EPYC"))


def test_notes_stand_below() -> None:
    said = drawn(product(500.0, notes=("throttled: software power cap",)))
    assert "throttled: software power cap" in said


def test_names_cannot_steer_the_terminal() -> None:
    rows = product(500.0, subject="[red]x[/red]\x1b[2J")
    said = drawn(rows)
    assert "[red]x[/red]" in said
    assert "\x1b" not in said


def _record(verdict: Verdict, reason: str = "because it is so") -> Record:
    checks = [Check("smoke/bringup::devices", Verdict.PASSED, "cpu: Some CPU", 0.1)]
    checks.append(Check("smoke/workloads::float32[yolov8n]", verdict, reason, 1.0, {"error": 1.0}))
    row = Measurement("yolov8n", "tiny", "float32", 1, "training", "s/sample", 0.5, [0.5], "indicative (5 steps)")
    made = Record("smoke", "cpu", "2026-01-02T03:04:05+00:00", 12.0, overall(check.verdict for check in checks))
    made.checks, made.measurements = checks, [row]
    made.provenance |= {"torch": "2.15.0", "pinned": False}
    return made


def _words(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"\\(.)", r"\1", text)).split())


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_page_and_the_terminal_say_the_same(verdict: Verdict) -> None:
    record = _record(verdict)
    terminal = Console(width=300, record=True, file=io.StringIO())
    console.show(record, Path("record.json"), terminal)
    said, told = _words(terminal.export_text()), _words(console.markdown(record))
    (line,) = [row for row in console.markdown(record).splitlines() if row.startswith("### ")]
    assert _words(line).removeprefix("### stackproof smoke: ") in said
    if verdict.exit_code:
        assert told.index("smoke/workloads::float32[yolov8n]") < told.index("<details>")
        assert "because it is so" in told and "because it is so" in said
    assert "2.00 samples/s" in told and "2.00 samples/s" in said
    assert "indicative (5 steps)" in told


def test_what_came_from_outside_is_text() -> None:
    record = _record(Verdict.FAILED, "<img src=x> | @team [x](y) \x1b[31m")
    record.provenance["host"] = "<b>"
    text = console.markdown(record)
    assert (
        "<img" not in text and "<b>" not in text and "@team" not in text and "[x](y)" not in text and "\x1b" not in text
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_width_breaks_a_name(width: int) -> None:
    record = _record(Verdict.FAILED)
    record.checks[1].id = "smoke/workloads::float32[training-qwen3-0.6b-lora-2-ranks]"
    record.measurements[0].workload = "training-qwen3-0.6b-lora-2-ranks"
    terminal = Console(width=width, record=True, file=io.StringIO())
    console.show(record, Path("record.json"), terminal)
    said = terminal.export_text()
    assert record.checks[1].id in said and said.count("training-qwen3-0.6b-lora-2-ranks  ") == 1

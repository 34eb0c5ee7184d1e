"""The command line: exit codes, one sentence for a refusal, and Ctrl-C that leaves nothing running."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof import ROOT, cli
from stackproof.base.errors import Refusal
from stackproof.commands import arguments
from stackproof.record import reading, records

from . import fakes

CARD = '\n[[host]]\nwhat = "a card that nobody has"\npaths = ["/nonexistent/card"]\n'
NO_UTF8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def stackproof(*arguments: str, root: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a verb of a checkout in a process of its own."""
    path = f"{root / 'src'}:{root / 'without-torch'}"
    return fakes.attempt([sys.executable, "-m", "stackproof", *arguments], env={"PYTHONPATH": path, **env})


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a stack that no host has and no ASCII terminal can show; torch does not load."""
    root = fakes.checkout(tmp_path_factory.mktemp("checkout"))
    (root / "without-torch" / "torch").mkdir(parents=True)
    broken = "raise ImportError('libcard.so.1: cannot open shared object file')\n"
    (root / "without-torch" / "torch" / "__init__.py").write_text(broken, encoding="utf-8")
    text = fakes.TINY.replace("Tiny: a", "Tiny\uff1a \u4e2d\u6587 \u2713 [red]a[/red]")
    fakes.lock(fakes.stack(root, "card", text + CARD), "torch==9.1.0\n")
    fakes.lock(fakes.stack(root, "tiny"), "torch==9.1.0\n")
    return root


def refused(ended: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """Require one sentence on stderr, nothing on stdout, no traceback, and the exit code."""
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("stackproof: ")
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("verb", ["smoke", "rehearse"])
def test_unknown_stack_is_exit_code_2(verb: str) -> None:
    refused(
        stackproof(verb, "--stack", "cpuu"),
        2,
        "there is no stack 'cpuu'",
        "did you mean 'cpu'?",
        "xpu-native",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor", "--stack", "cpuu"],
        ["lock", "cpuu"],
        ["lock", "cpu", "cpuu"],
        ["lock", "--stack", "cpuu"],
        ["constraints", "cpuu"],
        ["constraints", "--stack", "cpuu"],
    ],
)
def test_unknown_stack_of_other_verbs(arguments: list[str]) -> None:
    refused(stackproof(*arguments), 2, "there is no stack 'cpuu'", "did you mean 'cpu'?")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "VERB"),
        (["smok"], "invalid choice: 'smok'"),
        (["smoke", "--stack", "cpu", "--nonsense"], "--nonsense"),
        (["smoke", "--stack", "cpu", "--preset", "huge"], "huge"),
        (["smoke", "--stack", "cpu", "--deadline-scale", "0"], "'0' must be a number above 0"),
        (["smoke", "--stack", "cpu", "--deadline-scale", "-1"], "above 0"),
        (["smoke", "--stack", "cpu", "--deadline-scale", "nan"], "above 0"),
        (["smoke", "--stack", "cpu", "--deadline-scale", "1e9"], "below 1000"),
        (["smoke", "--stack", "cpu", "--deadline-scale", "fast"], "'fast' must be a number"),
        (["smoke", "--stack", "cpu", "--json", ""], "names no file"),
        (["smoke", "--stack", "cpu", "--json", "/"], "'/' is a folder, not a file"),
        (["smoke", "--stack", "cpu", "--junit", "/"], "'/' is a folder, not a file"),
        (["lock"], "NAME"),
    ],
)
def test_bad_arguments_are_exit_code_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.startswith("stackproof")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["smoke", "--help"], ["bench", "--help"], ["rehearse", "--help"], ["doctor", "-h"], ["lock", "-h"]],
)
def test_help_lists_the_exit_codes(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "0 passed",
        "1 a check failed",
        "2 bad arguments",
        "3 the stack is not available",
        "4 the environment",
    ):
        assert words in said
    assert "5 something hung, 6 inconclusive, 130 interrupted" in said


def test_stack_that_the_host_lacks_is_exit_code_3(checkout: Path, tmp_path: Path) -> None:
    results, copy, junit = tmp_path / "results", tmp_path / "sub" / "r.json", tmp_path / "sub" / "j.xml"
    options = ["--results", str(results), "--json", str(copy), "--junit", str(junit)]
    ended = stackproof("smoke", "--stack", "card", "--device", "nonsense", *options, root=checkout)
    assert ended.returncode == 3, ended.stderr
    assert "it lacks a card that nobody has (looked at /nonexistent/card)" in " ".join(ended.stdout.split())
    assert "UNAVAILABLE  card: 1 unavailable" in ended.stdout
    assert ended.stderr == ""
    record = reading.read(copy)
    assert record.verdict is records.Verdict.UNAVAILABLE
    (kept,) = results.glob("card/*/record.json")
    assert reading.read(kept) == record
    assert 'type="unavailable"' in junit.read_text(encoding="utf-8")


def test_rehearsal_of_a_missing_card_is_not_refused_for_the_card(checkout: Path, tmp_path: Path) -> None:
    ended = stackproof("rehearse", "--stack", "card", "--results", str(tmp_path), "--only", "*none*", root=checkout)
    assert "it lacks a card" not in ended.stdout
    assert "rehearse card (rehearsed on cpu, not verified on cpu)" in ended.stdout


@pytest.mark.parametrize("option", ["--json", "--junit", "--results"])
def test_unwritable_place_is_refused_before_the_run(checkout: Path, tmp_path: Path, option: str) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / "file" / "x")
    base = [] if option == "--results" else ["--results", str(tmp_path / "results")]
    ended = stackproof("smoke", "--stack", "card", option, place, *base, root=checkout)
    assert ended.returncode == 2
    assert "cannot be written (Not a directory)" in ended.stderr
    assert option in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "unavailable" not in ended.stdout
    assert list((tmp_path / "results").glob("*/*")) == []


@pytest.mark.parametrize("encoding", [NO_UTF8, {"PYTHONIOENCODING": "latin-1"}], ids=["C", "latin-1"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["smoke", "--stack", "card"], 3),
        (["doctor", "--all"], 0),
        (["smoke", "--stack", "xpu\uff1a0"], 2),
        (["smoke", "--help"], 0),
    ],
)
def test_other_locales_change_nothing_but_the_letters(
    checkout: Path, tmp_path: Path, encoding: dict[str, str], arguments: list[str], code: int
) -> None:
    more = ["--results", str(tmp_path)] if arguments[0] == "smoke" else []
    ended = stackproof(*arguments, *more, root=checkout, **encoding)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    if arguments[-1] in ("card", "--all"):
        assert r"Tiny\uff1a \u4e2d\u6587 \u2713 [red]a[/red]" in " ".join(ended.stdout.split())


def test_broken_definition_is_exit_code_2(tmp_path: Path) -> None:
    root = fakes.checkout(tmp_path / "checkout")
    fakes.lock(fakes.stack(root, "tiny"), "torch==9.1.0\n")
    fakes.stack(root, "bad", "title = 1\n")
    refused(stackproof("smoke", "--stack", "bad", root=root), 2, "bad/stack.toml: 'python' is missing", "a list")
    ended = stackproof("doctor", "--all", root=root)
    assert ended.returncode == 2
    assert ended.stdout.startswith("PROBLEM  1 problem")
    assert "tiny: present" in ended.stdout
    assert "bad: broken - " in ended.stdout
    assert len(ended.stderr.splitlines()) == 1
    assert stackproof("doctor", "--stack", "tiny", root=root).returncode == 0


def test_reader_that_has_seen_enough_is_no_traceback() -> None:
    command = f"{sys.executable} -u -m stackproof doctor | head -1"
    ended = fakes.attempt(["bash", "-c", command], env={"PYTHONPATH": str(ROOT / "src")})
    assert ended.stdout.endswith(" ok\n")
    assert ended.stderr == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("stackproof 0.")


DRIVER = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from stackproof import cli
from stackproof.stack import environment_proof
from stackproof.stack import provenance
from stackproof.runner import runs
from stackproof.stack import stacks
from stackproof.runner import supervise
base, phase = Path(sys.argv[1]), sys.argv[2]
supervise.SUITES = base
def stall(*_):
    (base / "reached").touch()
    time.sleep(60)
real_prove = environment_proof.prove
environment_proof.prove = stall if phase == "proof" else lambda stack, *deep: environment_proof.Proof(True, "0" * 64, (), 1, "9.1.0", {})
if phase == "host":
    runs.hosts.inspect = stall
outputs = ["--results", str(base / "results"), "--json", str(base / "r.json")]
sys.exit(cli.main(["smoke", "--stack", "cpu", *outputs]))
"""

REACHED = "from pathlib import Path\nimport subprocess, sys, time\nreached = Path({base!r}) / 'reached'\n"

SUITES = {
    "proof": "",
    "host": "",
    "import": "",
    "collection": "reached.touch()\ntime.sleep(60)\n",
    "check": """
def test_fine(figures):
    figures['summary'] = 'fine'
def test_slow():
    time.sleep(0.5)
    reached.touch()
    time.sleep(60)
""",
    "check with processes": """
def test_fine(figures):
    figures['summary'] = 'fine'
def test_slow():
    code = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True).wait()"
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    time.sleep(0.5)
    reached.touch()
    time.sleep(60)
""",
}


class Interrupted:
    """A run under way that is about to be interrupted."""

    def __init__(self, base: Path, phase: str) -> None:
        self.base, self.phase = base, phase
        (base / "smoke").mkdir(parents=True)
        (base / "pytest.ini").write_bytes((ROOT / "suites" / "pytest.ini").read_bytes())
        text = REACHED.format(base=str(base)) + SUITES[phase]
        (base / "smoke" / "test_it.py").write_text(text, encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-c", DRIVER, str(base), phase]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def reached(self) -> bool:
        """Whether the phase is under way; imports are, once the process that imports has its log."""
        if self.phase == "import":
            return any(self.base.glob("results/*/*/*/*/suite-0.log")) and bool(self.alive())
        return (self.base / "reached").exists()

    def alive(self) -> list[int]:
        """Return the processes that work for the run: their environment names its folder."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if f"STACKPROOF_REQUEST={self.base}".encode() in environment and int(folder.name) != self.process.pid:
                found.append(int(folder.name))
        return found

    def interrupt(self, number: signal.Signals, times: int = 1) -> tuple[int, str]:
        """Wait for the phase, send the signal (again and again), return exit code and output."""
        until = time.monotonic() + 240
        while not self.reached():
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < until, "the phase was never reached"
            time.sleep(0.02)
        for _ in range(times):
            self.process.send_signal(number)
            time.sleep(0.03 if times > 1 else 0)
        out, _ = self.process.communicate(timeout=120)
        return self.process.returncode, out


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Give pytest its signal handlers back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A folder of its own; what a failed test leaves running is ended."""
    yield tmp_path / "run"
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            left = f"STACKPROOF_REQUEST={tmp_path}".encode() in (folder / "environ").read_bytes()
        except OSError:
            continue
        if left:
            os.kill(int(folder.name), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "number"),
    [
        ("host", signal.SIGINT),
        ("proof", signal.SIGTERM),
        ("import", signal.SIGINT),
        ("collection", signal.SIGINT),
        ("check", signal.SIGUSR1),
        ("check with processes", signal.SIGINT),
    ],
)
def test_interrupted_run(base: Path, phase: str, number: signal.Signals) -> None:
    run = Interrupted(base, phase)
    # An impatient hand does not leave more behind than a patient one.
    code, out = run.interrupt(number, times=8 if phase == "check with processes" else 1)
    assert code == 130, out
    assert "Traceback" not in out
    assert "INTERRUPTED" in out
    assert run.alive() == []
    record = reading.read(base / "r.json")
    assert record.verdict is records.Verdict.INTERRUPTED
    assert record.checks[-1].verdict is records.Verdict.INTERRUPTED
    if phase.startswith("check"):
        ended = [(check.id, check.verdict.value) for check in record.checks[-2:]]
        assert ended == [("smoke/it::fine", "passed"), ("smoke/it::slow", "interrupted")]
    (kept,) = base.glob("results/cpu/*/record.json")
    assert json.loads(kept.read_text(encoding="utf-8"))["verdict"] == "interrupted"


def test_a_file_in_the_current_folder_is_not_python_s_own(tmp_path: Path) -> None:
    for name in ("json", "argparse", "dataclasses", "tomllib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    command = [sys.executable, "-m", "stackproof", "smoke", "--stack", "nowhere"]
    ended = fakes.attempt(command, env={"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": ""}, cwd=tmp_path)
    assert ended.returncode == 2
    assert "there is no stack 'nowhere'" in ended.stderr


def test_a_folder_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    words = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m stackproof --version"
    ended = fakes.attempt(["sh", "-c", words], env={"PYTHONPATH": str(ROOT / "src")})
    assert (ended.returncode, ended.stderr) == (
        2,
        "stackproof: the current folder is gone; change to one that exists\n",
    )


def test_an_output_of_an_earlier_run_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("out.json", "smoke/out.json"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("{}", encoding="utf-8")
        options = {"verb": "smoke", "stack": "cpu", "device": "", "profile": "", "only": [], "json": Path(name)}
        arguments.require_apart(argparse.Namespace(**options, results=tmp_path, base_dir=tmp_path))


@pytest.mark.parametrize(("flag", "beside_logs"), [("json", True), ("junit", False), ("markdown", False)])
def test_the_record_of_a_run_is_not_written_over(tmp_path: Path, flag: str, beside_logs: bool) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"schema": records.SCHEMA_NAME, "logs": ["run.log"]}), encoding="utf-8")
    if beside_logs:
        arguments.require_apart(argparse.Namespace(**{flag: path}))  # what the flag wrote for an earlier run
        (tmp_path / "run.log").touch()
    with pytest.raises(Refusal, match=f"--{flag} .*: holds the record of a run, which would be lost"):
        arguments.require_apart(argparse.Namespace(**{flag: path}))


def test_a_module_that_exits_with_a_text_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_call", lambda _: sys.exit("not today"))
    with pytest.raises(SystemExit) as left:
        cli.main(["smoke"])
    assert left.value.code == 1
    assert capsys.readouterr().err == "stackproof: not today\n"


def test_no_prompt_and_no_traceback_follow_a_verb() -> None:
    command = [sys.executable, "-m", "stackproof", "smoke"]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONINSPECT": "1"}, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("stackproof: which stack?") and "Traceback" not in ended.stderr

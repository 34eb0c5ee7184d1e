"""Sessions: a menu of verbs that take a stack, NAME-VERB for each stack, refused before anything is downloaded."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.commands import plugins
from stackproof.stack import stacks

from . import fakes

CARD = '\n[[host]]\nwhat = "a card that nobody has"\npaths = ["/nonexistent/card"]\n'
NOBODY = {"UV_NO_INDEX": "1", "UV_OFFLINE": "1", "PIP_NO_INDEX": "1"}

# A uv that is not the real one: nox asks it for its version at every start, and that is no work.
ONLY_WORK = 'case "$1" in venv|pip|install|sync) ;; --version) echo uv 1; exit;; *) exit 1;; esac\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of its own, with all shipped stacks."""
    return fakes.checkout(tmp_path / "checkout", *stacks.names())


def nox(root: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run nox in a checkout."""
    command = [*fakes.nox(), "--nocolor", *arguments]
    clean = {"NOX_ENV_DIR": "", "NOXSESSION": "", **NOBODY, **env}
    return fakes.attempt(command, env=clean, cwd=root)


def said(ended: subprocess.CompletedProcess[str]) -> str:
    """Return all that nox and what it ran have printed."""
    return ended.stdout + ended.stderr


CORE = ("smoke", "verify", "ddp", "bench", "explore", "upstream", "rehearse", "asv", "gate", "sweep")
EXTRAS = {row["name"] for table in plugins.sessions() for kind in ("verb", "tool") for row in table.get(kind, ())}
VERBS = (*CORE, *(row["name"] for table in plugins.sessions() for row in table.get("verb", ())))


def sessions(root: Path, *asked: str) -> dict[str, str]:
    """Return the sessions that nox lists, with their descriptions; what would run is marked '*'."""
    listed = nox(root, "-l", *asked)
    assert listed.returncode == 0, listed.stderr
    rows = re.findall(r"^([*-]) (\S+)(?: \[\S+\])?(?: -> (.*))?$", listed.stdout, re.MULTILINE)
    return {name: f"{mark} {text}" for mark, name, text in rows}


MENU = {*CORE, "doctor", "triage", "tests", "lint", *(["extras"] if EXTRAS else [])}


def test_menu_fits_a_screen() -> None:
    listed = nox(ROOT, "-l").stdout
    assert len(listed.splitlines()) <= 22
    found = sessions(ROOT)
    assert len(set(found) - {"extras"}) <= 16 and list(found)[-1] == "lint"
    assert set(sessions(ROOT, "--", "extras")) == MENU | EXTRAS
    assert set(found) == MENU and set(sessions(ROOT, "--", "dev")) >= MENU | {"lock", "drill", "docs"}
    assert [name for name, text in found.items() if text.startswith("*")] == ["smoke"]
    assert [name for name, text in found.items() if len(text) < 12] == []


def test_the_readme_tells_sessions_from_other_verbs() -> None:
    verbs, known = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("## Verbs")[2],
        set(sessions(ROOT, "--", "all")),
    )
    with_nox, _, others = verbs.partition("\n## ")[0].partition("No sessions, but verbs")
    assert set(VERBS) <= set(re.findall(r"`(\w+)`", with_nox)) <= known | fakes.absent_verbs()
    assert {"watch"} <= set(re.findall(r"`(\w+)", others))
    assert not known & set(re.findall(r"`(\w+)", others))


def test_every_stack_has_its_sessions() -> None:
    found = sessions(ROOT, "--", "all")
    generated = {f"{name}-{verb}" for name in stacks.names() for verb in VERBS}
    assert set(found) >= generated | MENU
    assert {
        "asv-tests",
        "two-hosts",
        "slurm",
        "wheel-tests",
        "gate-tests",
        "gate-calibration",
        "triage-score",
    } <= set(found)
    assert [name for name, text in found.items() if text.startswith("*")] == ["smoke"]
    for name in stacks.names():
        assert stacks.load(name).title in found[f"{name}-smoke"]


def test_what_every_change_runs_is_one_list_of_sessions() -> None:
    lines = (ROOT / ".ci" / "sessions").read_text(encoding="utf-8").splitlines()
    asked = [line.split()[0] for line in lines if not line.startswith("#")]
    assert len(asked) == len(set(asked)) and set(asked) <= set(sessions(ROOT, "--", "all"))
    for path in (ROOT / ".ci" / "run", ROOT / ".github" / "workflows" / "test.yml"):
        text = path.read_text(encoding="utf-8")
        assert ".ci/sessions" in text and not re.search(r"\b(smoke|rehearse|drill|gate-tests)\b", text), path


def _program(path: Path, lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_change_runs_the_sessions_in_turn_until_one_fails(tmp_path: Path) -> None:
    _program(tmp_path / ".nox" / "ci" / "bin" / "nox", 'printf "<%s>" "$@"; echo; test "$2" != bad')
    _program(tmp_path / ".nox" / "ci" / "bin" / "python", "exit 0")
    _program(tmp_path / "bin" / "python3", "exit 0")
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    (tmp_path / ".ci" / "sessions").write_text('# all\none -- -m "not two"\nbad\nbad-last\n', encoding="utf-8")
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    ended = fakes.attempt([str(tmp_path / ".ci" / "run")], env=env)
    assert (ended.stdout, ended.returncode != 0) == ("<-s><one><--><-m><not two>\n<-s><bad>\n", True)
    ended = fakes.attempt([str(tmp_path / ".ci" / "run"), "bad-last"], env=env)
    assert (ended.stdout, ended.returncode) == ("<-s><bad-last>\n", 0)


@pytest.mark.parametrize("asked", [("--", "xpu"), ("-t", "xpu")])
def test_sessions_of_one_stack_are_listed_when_asked_for(asked: tuple[str, str]) -> None:
    assert set(sessions(ROOT, *asked)) == MENU | {f"xpu-{verb}" for verb in VERBS}


def test_a_tag_selects_what_runs(root: Path) -> None:
    chosen = [name for name, text in sessions(root, "-t", "smoke").items() if text.startswith("*")]
    assert chosen == [f"{name}-smoke" for name in stacks.names()]


def test_a_verb_takes_the_stack_as_its_first_word(root: Path) -> None:
    fakes.stack(root, "card", fakes.TINY + CARD)
    for session in ("smoke", "gate", "asv"):
        ended = nox(root, "-s", session, "--", "card", "--only", "*x")
        assert ended.returncode != 0
        assert "this host has no stack 'card'" in said(ended)
    ended = nox(root, "-s", "verify", "--", "cadr")
    assert "there is no stack 'cadr' (did you mean 'card'?)" in said(ended)
    assert "Traceback" not in said(ended)


def test_new_folder_gets_sessions(root: Path) -> None:
    before = set(sessions(root, "--", "all"))
    fakes.stack(root, "brand-new")
    found = sessions(root, "--", "all")
    assert set(found) - before == {f"brand-new-{verb}" for verb in VERBS}
    assert "Tiny: a stack for tests" in found["brand-new-smoke"]


@pytest.mark.slow
def test_session_of_a_new_stack_builds_and_proves_its_environment(root: Path, tmp_path: Path) -> None:
    """The session of a stack that is only data builds the environment, calls the verb, passes options on.

    Its torch has another flavour than the stack wants, so that the run ends at the proof and nox says failed.
    """
    wheels = tmp_path / "wheels"
    files = {**fakes.TORCH, "torch/version.py": "__version__ = '9.1.0'\ncuda = None\nhip = '6'\nxpu = None\n"}
    fakes.lock(fakes.stack(root, "brand-new"), fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", files)))
    env = {"UV_FIND_LINKS": str(wheels), "PYTHONPATH": str(fakes.borrowed(tmp_path / "borrowed"))}
    record = tmp_path / "r.json"
    ended = nox(root, "-s", "brand-new-smoke", "--", "--json", str(record), **env)
    assert ended.returncode == 1
    assert "building the environment of brand-new" in said(ended)
    assert "torch.version.hip is 6, the stack wants it unset" in ended.stdout
    assert "exit code 4" in said(ended)
    assert json.loads(record.read_text(encoding="utf-8"))["verdict"] == "mismatched"
    again = nox(root, "-s", "brand-new-rehearse", "--", "--json", str(record), **env)
    assert "building the environment" not in said(again)
    found = json.loads(record.read_text(encoding="utf-8"))
    assert (found["verb"], found["provenance"]["rehearsed"]) == ("rehearse", True)


@pytest.mark.slow
def test_broken_stack_still_lists_and_says_why(root: Path) -> None:
    fakes.stack(root, "bad", fakes.TINY.replace("priority = 1", 'priority = "high"'))
    found = sessions(root, "--", "all")
    assert {"bad-smoke", "bad-rehearse", "cpu-smoke"} <= set(found)
    assert "broken: " in found["bad-smoke"]
    assert "'priority' is 'high'; it must be a whole number" in found["bad-smoke"]
    for name in ("bad-smoke", "bad-rehearse"):
        ended = nox(root, "-s", name)
        assert ended.returncode != 0
        assert "bad/stack.toml: 'priority' is 'high'" in said(ended)
        assert "(exit code 2)" in said(ended)
        assert "Traceback" not in said(ended)


def test_other_stacks_work_beside_a_broken_one(root: Path) -> None:
    fakes.stack(root, "bad", "title = \n")
    fakes.stack(root, "card", fakes.TINY + CARD)
    ended = nox(root, "-s", "card-smoke")
    assert "this host has no stack 'card'" in said(ended)


def test_missing_card_fails_at_once_and_downloads_nothing(root: Path, tmp_path: Path) -> None:
    fakes.stack(root, "card", fakes.TINY + CARD)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("uv", "pip", "virtualenv"):
        text = f"#!/bin/sh\n{ONLY_WORK}touch {tmp_path}/started\n"
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
    ended = nox(root, "-s", "card-smoke", PATH=f"{tools}:{os.environ['PATH']}")
    assert ended.returncode != 0
    assert "it lacks a card that nobody has (looked at /nonexistent/card). To get it, every host" in said(ended)
    assert "exit code 3" in said(ended)
    assert "Traceback" not in said(ended)
    assert not (tmp_path / "started").exists()
    assert not (root / ".nox" / "stacks").exists()


def test_asv_on_a_missing_card_builds_nothing(root: Path) -> None:
    fakes.stack(root, "card", fakes.TINY + CARD)
    ended = nox(root, "-s", "card-asv", "--", "run", "HEAD^!")
    assert ended.returncode != 0
    assert "it lacks a card that nobody has" in said(ended)
    assert "(exit code 3)" in said(ended)
    assert not (root / ".nox" / "tools").exists()


def test_rehearsal_of_a_missing_card_goes_on(root: Path, tmp_path: Path) -> None:
    fakes.stack(root, "card", fakes.TINY + CARD)
    ended = nox(root, "-s", "card-rehearse")
    assert "stacks/card/requirements.lock: cannot be read" in said(ended)
    assert "nox -s lock -- card" in said(ended)


def test_missing_interpreter_is_a_sentence(root: Path) -> None:
    text = fakes.TINY.replace(f'["{fakes.THIS_PYTHON}"]', '["3.99"]')
    fakes.lock(fakes.stack(root, "future", text), "")
    ended = nox(root, "-s", "future-smoke")
    assert "needs Python 3.99 and none is installed" in said(ended)
    assert "exit code 3" in said(ended)
    assert "Traceback" not in said(ended)


def test_smoke_takes_the_stack_that_the_host_has(tmp_path: Path) -> None:
    root = fakes.checkout(tmp_path / "checkout")
    fakes.stack(root, "card", fakes.TINY.replace("priority = 1", "priority = 9") + CARD)
    fakes.stack(root, "low")
    fakes.stack(root, "high", fakes.TINY.replace("priority = 1", "priority = 5"))
    ended = nox(root)
    assert "this host has: high (Tiny: a stack for tests)" in said(ended)
    assert "stacks/high/requirements.lock: cannot be read" in said(ended)


def test_smoke_refuses_when_a_definition_is_broken(root: Path) -> None:
    fakes.stack(root, "bad", "title = 1\n")
    ended = nox(root, "-s", "smoke")
    assert ended.returncode != 0
    assert "bad/stack.toml: '" in said(ended)
    assert "Traceback" not in said(ended)


def test_doctor_runs_without_an_environment(root: Path) -> None:
    ended = nox(root, "-s", "doctor", "--", "--stack", "cpu")
    assert ended.returncode == 0, ended.stderr
    assert "cpu: present" in ended.stdout
    assert "environment: not built yet" in ended.stdout
    assert "xpu: " not in ended.stdout


@pytest.mark.slow
def test_lock_session_passes_its_names_on(root: Path) -> None:
    assert "there is no stack 'cpuu' (did you mean 'cpu'?)" in nox(root, "-s", "lock", "--", "cpuu").stdout
    assert "one of the arguments NAME --stack is required" in nox(root, "-s", "lock").stdout


@pytest.fixture
def heard() -> Iterator[None]:
    """Let what is started here hear Ctrl-C, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("heard")
def test_interrupted_build_leaves_nothing(root: Path, tmp_path: Path, number: signal.Signals) -> None:
    fakes.lock(fakes.stack(root, "slow"), "")
    started = tmp_path / "started"
    (tmp_path / "tools").mkdir()
    text = f"#!/bin/sh\n{ONLY_WORK}echo $$ > {started}\nexec sleep 60\n"
    (tmp_path / "tools" / "uv").write_text(text, encoding="utf-8")
    (tmp_path / "tools" / "uv").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path / 'tools'}:{os.environ['PATH']}"}
    command = [*fakes.nox(), "-s", "slow-smoke"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=env, cwd=root, text=True, **pipes) as running:  # type: ignore[call-overload]
        until = time.monotonic() + 240
        while not (started.exists() and started.read_text(encoding="utf-8")):
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        running.send_signal(number)
        shown, _ = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "Traceback" not in shown
    assert not Path(f"/proc/{started.read_text(encoding='utf-8').strip()}").exists()
    assert not list((root / ".nox").rglob("stackproof.json"))


def test_absent_nox_fails_the_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STACKPROOF_NOX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="nox is needed"):
        fakes.nox()

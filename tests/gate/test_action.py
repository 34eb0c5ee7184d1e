"""The action: its scripts, run as a runner runs them, in a temporary repository with the inputs as variables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.places import PACKAGE, ROOT

yaml = pytest.importorskip("yaml")

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXAMPLE = ROOT / "examples" / "action"
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
_GATE = "compare with the base"
_SHIM = '#!/bin/sh\nexec env PYTHONPATH={} {} -m stackproof "$@"\n'
_RECORDER = '#!/bin/sh\nfor word in "$@"; do printf \'%s\\n\' "$word" >> {}; done\n{}\n'


def _executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


class Runner:
    """A runner's folders, a repository with a base and a head, and what steps left."""

    def __init__(self, home: Path) -> None:
        self.home, self.work, self.temporary = home, home / "work", home / "temp"
        self.work.mkdir()
        self.temporary.mkdir()
        (self.work / "job.py").write_text("print('loss: 1')\n", encoding="utf-8")
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "base"]):
            self.git(*words)
        self.base = self.git("rev-parse", "HEAD").strip()
        _executable(self.temporary / "stackproof/bin/stackproof", _SHIM.format(PACKAGE.parent, sys.executable))

    def git(self, *words: str) -> str:
        """Run git in the repository."""
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, cwd=self.work, check=True, capture_output=True, text=True).stdout

    def step(self, name: str, path: str = "", **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step's script with its inputs' defaults, or these in their place."""
        step = STEPS[name]
        given = {key: _value(text, inputs) for key, text in step.get("env", {}).items()}
        files = {name: str(self.home / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        env = {
            **os.environ, **files, **given, "RUNNER_TEMP": str(self.temporary), "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_REPOSITORY": "o/r",
            "PATH": os.pathsep.join(filter(None, (path, os.environ["PATH"])))
        }  # fmt: skip
        env |= {"RUNNER_ENVIRONMENT": "github-hosted"}
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.work,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def text_of(self, name: str) -> str:
        """Return what steps wrote for the runner."""
        path = self.home / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


def _value(expression: str, inputs: dict[str, str]) -> str:
    """Return what an expression is worth: the input that is given, its default, else nothing."""
    for name in re.findall(r"inputs\.([\w-]+)", expression):
        return inputs.get(name.replace("-", "_"), str(ACTION["inputs"][name].get("default", "")))
    return inputs.get(expression.partition(".")[2].partition(" ")[0].replace(".", "_"), "")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A fresh one."""
    return Runner(tmp_path)


def test_no_input_is_part_of_a_script() -> None:
    assert len(STEPS) == 4
    assert not [name for name, step in STEPS.items() if "${{" in step.get("run", "")]
    texts = ((ROOT / "action.yml"), *EXAMPLE.glob(".github/workflows/*.yml"))
    used = [use for path in texts for use in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))]
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", use) for use in used)


def test_a_change_fails_and_the_page_is_in_the_summary(runner: Runner) -> None:
    (runner.work / "job.py").write_text("print('loss: 2')\n", encoding="utf-8")
    ended = runner.step(_GATE, command=f"{sys.executable} -S job.py", base=runner.base, figure="loss: ([0-9.]+)\n")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "code=1" in runner.text_of("GITHUB_OUTPUT")
    folder = Path(re.findall(r"folder=(.*)", runner.text_of("GITHUB_OUTPUT"))[0])
    assert "<failure" in (folder / "gate.xml").read_text(encoding="utf-8")
    assert runner.step("show the verdict in the summary of the job").returncode == 0
    assert runner.text_of("GITHUB_STEP_SUMMARY").startswith("### stackproof gate: CHANGED")


def test_the_same_passes(runner: Runner) -> None:
    ended = runner.step(_GATE, command=f"{sys.executable} -S job.py", base=runner.base, figure="loss: ([0-9.]+)")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"base": ""}, "there is no base to compare with"),
        ({"base": "--upload-pack=touch x"}, "is no commit, branch or tag"),
        ({"base": "no-such-thing"}, "check out with fetch-depth: 0"),
        ({"base": "HEAD", "exact": "maybe"}, "it is auto, true or false"),
    ],
)
def test_bad_inputs_are_one_error(inputs: dict[str, str], sentence: str, runner: Runner) -> None:
    ended = runner.step(_GATE, command="true", **inputs)
    assert ended.returncode == 2
    assert ended.stdout.startswith("::error::stackproof: ") and sentence in ended.stdout


def test_what_is_typed_is_passed_on_as_it_is(runner: Runner) -> None:
    words = runner.home / "words"
    _executable(runner.temporary / "stackproof/bin/stackproof", _RECORDER.format(words, "exit 6"))
    ended = runner.step(
        _GATE,
        command="python a.py '$(touch pwned)' `touch pwned`",
        base=runner.base,
        metric="it/s\n--same\n\n",
        exact="false",
        stack="-h",
    )
    assert ended.returncode == 6
    said = words.read_text(encoding="utf-8").splitlines()
    assert said[0] == "gate" and said[said.index("--command") + 1] == "python a.py '$(touch pwned)' `touch pwned`"
    assert {"--metric=it/s", "--metric=--same", "--stack=-h"} <= set(said) and "--exact" not in said
    assert not (runner.work / "pwned").exists()


def test_without_a_command_the_models_of_a_project_are_gated(runner: Runner) -> None:
    words = runner.home / "words"
    _executable(runner.temporary / "stackproof/bin/stackproof", _RECORDER.format(words, "exit 0"))
    assert runner.step(_GATE, base=runner.base, project="models", only="training-vit\n").returncode == 0
    said = words.read_text(encoding="utf-8").splitlines()
    assert said[said.index("--project") + 1] == "models" and {"--stack=cpu", "--only=training-vit"} <= set(said)
    assert "--command" not in said and "--exact" in said
    assert "are of a command" in runner.step(_GATE, base=runner.base, metric="it/s").stdout


def test_the_comment_is_written_once_and_then_renewed(runner: Runner) -> None:
    page = runner.temporary / "stackproof-gate" / "gate.md"
    page.parent.mkdir()
    page.write_text("### stackproof gate: OK\n", encoding="utf-8")
    for said, method in (("", "POST"), ("echo 41; echo 42", "PATCH"), ("exit 1", "")):
        words = runner.home / f"gh-{method}"
        _executable(runner.home / "bin/gh", _RECORDER.format(words, f'case "$*" in *--jq*) {said or ":"};; esac'))
        ended = runner.step("comment on the pull request", str(runner.home / "bin"), event_pull_request_number="7")
        assert ended.returncode == 0, ended.stderr
        assert ("::warning::" in ended.stdout) is (not method)
        if method:
            asked = words.read_text(encoding="utf-8").split()
            assert method in asked and f"body=@{page}" in asked
            assert ("repos/o/r/issues/comments/41" in asked) is (method == "PATCH")
    silent = runner.step(
        "comment on the pull request", str(runner.home / "none"), comment="false", event_pull_request_number="7"
    )
    assert (silent.returncode, silent.stdout) == (0, "")


def test_it_is_installed_apart(runner: Runner) -> None:
    words = runner.home / "words"
    made = f"mkdir -p {runner.temporary}/stackproof/bin; cp $0 {runner.temporary}/stackproof/bin/python 2> /dev/null || true"
    python = _executable(runner.home / "bin/python3", _RECORDER.format(words, made))
    ended = runner.step("install stackproof apart from everything else", python=str(python))
    assert ended.returncode == 0, ended.stderr
    assert words.read_text(encoding="utf-8").split() == [
        "-m", "venv", f"{runner.temporary}/stackproof", "-m", "pip", "install", "--quiet", f"{ROOT}[gate]"
    ]  # fmt: skip

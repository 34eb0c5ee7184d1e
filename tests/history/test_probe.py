"""The probe: facts from the stack's own interpreter, and a sentence with the right exit code where it is not that stack."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.history import probe
from stackproof.stack import stacks

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.slow
def test_the_facts_are_those_of_the_interpreter() -> None:
    facts = probe.ask(Path(sys.executable), stacks.load("cpu"), {**ENVIRONMENT, "STACKPROOF_HOST": "box"})
    assert (facts["host"], facts["stack"], facts["rehearsed"]) == ("box", "cpu", False)
    assert {"torch", "lock", "devices", "cpu.name", "commit", "kernel"} <= set(facts)


@pytest.mark.slow
def test_defaults_of_the_stack_are_told_from_what_the_user_set(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = replace(stacks.load("cpu"), environment={"CCL_ATL_TRANSPORT": "ofi", "CCL_WORKER_COUNT": "1"})
    monkeypatch.setattr(probe.stacks, "load", lambda _: stack)
    monkeypatch.setattr(probe.os, "environ", {**os.environ, "CCL_WORKER_COUNT": "2"})
    facts = probe.facts("cpu", rehearsed=False)
    assert facts["env.CCL_ATL_TRANSPORT (default of the stack)"] == "ofi"
    assert facts["env.CCL_WORKER_COUNT"] == "2"
    assert probe.os.environ["CCL_ATL_TRANSPORT"] == "ofi"


def ending(tmp_path: Path, code: int, said: str) -> Path:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("code", "kind"), [(2, Refusal), (3, StackUnavailableError), (4, EnvironmentMismatchError), (1, Refusal)]
)
def test_a_refusal_keeps_its_exit_code(tmp_path: Path, code: int, kind: type[Refusal]) -> None:
    with pytest.raises(Refusal, match="^no such card$") as caught:
        probe.ask(ending(tmp_path, code, "stackproof: no such card"), stacks.load("cpu"), ENVIRONMENT)
    assert type(caught.value) is kind


def test_an_interpreter_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StackUnavailableError, match="absent: does not answer what it is"):
        probe.ask(tmp_path / "absent", stacks.load("cpu"), ENVIRONMENT)


@pytest.mark.slow
def test_a_host_without_the_device_is_refused() -> None:
    with pytest.raises(StackUnavailableError, match="this host has no stack 'dcu'"):
        probe.ask(Path(sys.executable), stacks.load("dcu"), ENVIRONMENT)

"""`--locked`: the environments are built, and the same command goes on in the first one, without the word."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.commands import arguments
from stackproof.stack import environments, hosts
from stackproof.stack.stacks import Stack


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the process would have become, and the stacks that were built before that."""
    seen: list[Any] = []

    def prepare(stack: Stack, _say: Any) -> Path:
        seen.append(stack.name)
        return Path("/env") / stack.name

    monkeypatch.setattr(hosts, "require", lambda stack: stack)
    monkeypatch.setattr(environments, "prepare", prepare)
    monkeypatch.setattr(os, "execv", lambda *command: seen.append(command))
    return seen


def test_all_are_built_and_the_command_goes_on_in_the_first(cpu: Stack, become: list[Any]) -> None:
    arguments.again([cpu, replace(cpu, name="other")], ["smoke", "--locked", "--stack", "cpu", "--only", "a b"])
    words = ["/env/cpu", "-m", "stackproof", "smoke", "--stack", "cpu", "--only", "a b"]
    assert become == ["cpu", "other", ("/env/cpu", words)]


def test_what_the_host_lacks_is_refused_before_anything_is_built(
    cpu: Stack, become: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(stack: Stack) -> Stack:
        raise StackUnavailableError(f"{stack.name} is not here")

    monkeypatch.setattr(hosts, "require", lacking)
    with pytest.raises(Refusal, match="cpu is not here"):
        arguments.again([cpu], ["smoke", "--locked"])
    assert become == []

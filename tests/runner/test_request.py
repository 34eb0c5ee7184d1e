"""The request between supervisor and checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.runner.request import REQUEST, Request
from stackproof.stack import stacks

WANTED = Request(
    "verify",
    stacks.load("xpu").rehearse(),
    ("smoke", "rng"),
    only=("b*",),
    deadline_scale=2.0,
    dataset="/set.json",
    options={"profile": "fast"},
)


def test_a_request_survives_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = replace(WANTED, suites=("rng",), folder=str(tmp_path), shard=(1, 2), earlier={"a/b::c": ("passed", "fine")})
    monkeypatch.setenv(REQUEST, str(share.write()))
    assert Request.load() == share


def test_suites_without_a_supervisor_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REQUEST, raising=False)
    with pytest.raises(Refusal, match="nox -s NAME-smoke"):
        Request.load()


def test_a_rehearsed_request_opens_the_rehearsed_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUEST, str(replace(WANTED, folder=str(tmp_path)).write()))
    stack = Request.load().stack
    assert (stack.name, stack.device, stack.hardware) == ("xpu", "cpu", "xpu")

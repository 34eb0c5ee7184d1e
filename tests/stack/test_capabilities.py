"""Capabilities: what lacks one skips by a rule that is named; a rule that does not exist is our mistake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stackproof.base.errors import Refusal
from stackproof.record.checks import CapabilityMissing
from stackproof.stack import capabilities, stacks

CPU = stacks.load("cpu")


def test_a_device_without_it_skips_with_the_rule() -> None:
    with pytest.raises(
        CapabilityMissing, match=r"data/capabilities.toml, device-memory: absent on cpu: the CPU has no"
    ):
        capabilities.require(CPU, "device-memory")


def test_a_device_with_it_goes_on() -> None:
    capabilities.require(stacks.load("cuda"), "device-memory")


@pytest.mark.parametrize("name", ["sharded-mean", "collectives-compared", "group-time-out"])
def test_a_backend_without_it_skips_with_the_rule(name: str) -> None:
    xpu = stacks.load("xpu")
    with pytest.raises(CapabilityMissing, match=rf"data/capabilities.toml, {name}: absent over ccl: "):
        capabilities.require(xpu, name)
    for other in (xpu.rehearse(), stacks.load("xpu-native"), stacks.load("cuda"), CPU):
        capabilities.require(other, name)


def test_a_stack_can_lack_one_of_its_own() -> None:
    stack = replace(stacks.load("cuda"), missing={"device-memory": "the emulator counts nothing"})
    with pytest.raises(
        CapabilityMissing, match=r"stacks/cuda/stack.toml, missing.device-memory: the emulator counts nothing"
    ):
        capabilities.require(stack, "device-memory")


def test_a_package_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = capabilities.Capability("new", "for the sake of it", needs=("packaging>=9999",))
    monkeypatch.setattr(capabilities, "rules", lambda: {"new": rule})
    with pytest.raises(CapabilityMissing, match=r"new: needs packaging>=9999, .* is installed: for the sake of it"):
        capabilities.require(CPU, "new")
    monkeypatch.setattr(capabilities, "rules", lambda: {"new": replace(rule, needs=("no-such-package",))})
    with pytest.raises(CapabilityMissing, match="it is not installed"):
        capabilities.require(CPU, "new")


def test_an_unknown_capability_is_a_mistake_of_the_check() -> None:
    with pytest.raises(Refusal, match="no capability 'device-memroy'.*did you mean 'device-memory'"):
        capabilities.require(CPU, "device-memroy")
    with pytest.raises(Refusal, match="'missing.device-memroy' is no capability.*did you mean 'device-memory'"):
        capabilities.require_known(replace(CPU, missing={"device-memroy": "none is there"}))


def test_every_rule_has_a_reason() -> None:
    assert all(len(rule.reason) > 20 for rule in capabilities.rules().values())

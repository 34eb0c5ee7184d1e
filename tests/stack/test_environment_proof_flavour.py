"""The flavour of a torch: what it was built for, against what the stack asks of it."""

from __future__ import annotations

import pytest

from stackproof.stack import environment_proof, stacks


def flavour(contains: str = "", **toolkits: str) -> stacks.Flavour:
    return stacks.Flavour(contains, **toolkits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "version", "toolkits", "words"),
    [
        (flavour(cuda="set"), "2.8.0+cu128", {"cuda": "12.8"}, []),
        (flavour(cuda="set", hip="unset"), "2.8.0", {}, ["cuda is None, the stack wants it set"]),
        (flavour(hip="set", cuda="unset"), "2.4.1", {"cuda": "12.1"}, ["hip is None", "cuda is 12.1"]),
        (flavour("dtk", hip="set"), "2.4.1+rocm6", {"hip": "6"}, ["contains 'dtk'"]),
        (flavour("+xpu", xpu="set"), "2.8.0+xpu", {"xpu": "20250101"}, []),
    ],
)
def test_flavour_differences(wanted: stacks.Flavour, version: str, toolkits: dict[str, str], words: list[str]) -> None:
    said = environment_proof.flavour_differences(wanted, version, toolkits)
    assert len(said) == len(words)
    assert [word for word in words if not any(word in line for line in said)] == []


def test_this_environment_has_its_own_torch() -> None:
    from importlib import metadata

    version, toolkits = environment_proof.torch_flavour()
    assert version.split("+")[0] == metadata.version("torch").split("+")[0]
    assert "hip" not in toolkits
    assert environment_proof._damage() == []

"""Images: one for each stack, on a base that can be named, run by a user without rights, and starting with that stack's smoke run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.stack import stacks

CONTAINERS = ROOT / "containers"
DOUBLES = {"sim"}
FILES = sorted(CONTAINERS.glob("*/Containerfile"))


def instructions(path: Path) -> list[str]:
    """Return the instructions of a Containerfile, each in one line."""
    text = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def test_every_stack_has_an_image() -> None:
    assert {path.parent.name for path in FILES} == {*stacks.names(), "dev"} - DOUBLES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_base_is_an_argument_and_the_user_has_no_rights(path: Path) -> None:
    lines = instructions(path)
    assert re.fullmatch(r"ARG BASE=[\w.:/-]+:[\w.-]+", lines[0]) and "latest" not in lines[0]
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases[0] == "${BASE}" and set(bases) <= {"${BASE}", "host"}
    users = [line.removeprefix("USER ") for line in lines if line.startswith("USER ")]
    assert users and int(users[-1]) >= 1000


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name != "dev"], ids=lambda p: p.parent.name)
def test_an_image_starts_with_the_smoke_run_of_its_stack(path: Path) -> None:
    name, lines = path.parent.name, instructions(path)
    command = json.loads(next(line for line in lines if line.startswith("CMD ")).removeprefix("CMD "))
    assert command[:3] == ["smoke", "--stack", name]
    built = [place for place, line in enumerate(lines) if f"stackproof.stack.environments {name}" in line]
    if "--locked" in command:
        assert built and built[0] > lines.index("USER 10001")
    else:
        assert any(f"stackproof constraints {name} > " in line and "--constraint " in line for line in lines)
    assert f"containers/{name}/Containerfile --tag stackproof:{name}" in path.read_text(encoding="utf-8")


def test_images_get_what_the_wheel_is_made_of() -> None:
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert kept[1] == "*"
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wheel = re.search(r"\[tool\.hatch\.build\.targets\.wheel\]\ninclude = \[(.*)\]", project)
    assert wheel
    for place in re.findall(r'"/([\w/]+)"', wheel[1]):
        assert any(line.startswith("!") and f"{place}/".startswith(f"{line[1:]}/") for line in kept), place


def test_the_dev_container_is_built_from_here() -> None:
    found = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    file = ROOT / ".devcontainer" / found["build"]["dockerfile"]
    assert file.resolve() == CONTAINERS / "dev" / "Containerfile"
    assert (ROOT / ".devcontainer" / found["build"]["context"]).resolve() == ROOT
    assert f"--shell /bin/bash {found['remoteUser']}" in " ".join(instructions(file))

"""asv's environment: made once from a file of requirements, made again when it changes, in no stack's lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.stack import environments, stacks

from .. import fakes


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let it be made in a temporary checkout, from a folder with one wheel."""
    wheels = tmp_path / "wheels"
    fakes.wheel(wheels, "asv", "99.1.0")
    for name, value in fakes.offline(wheels).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "requirements.in").write_text("asv==99.1.0\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "1"\ndependencies = []\n', encoding="utf-8"
    )
    (tmp_path / "src").mkdir()
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "ASV_HOME", tmp_path / ".nox" / "tools" / "asv")
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path / "requirements.in")
    monkeypatch.setattr(environments, "PROJECT", tmp_path / "pyproject.toml")
    return tmp_path


def test_it_is_made_once(offline: Path) -> None:
    said: list[str] = []
    python = environments.prepare_asv(said.append)
    assert python.exists()
    assert len(list(offline.glob(".nox/tools/asv/lib/*/site-packages/asv.py"))) == 1
    (linked,) = offline.glob(".nox/tools/asv/lib/*/site-packages/stackproof.pth")
    assert linked.read_text(encoding="utf-8").strip() == str(ROOT / "src")
    assert environments.prepare_asv(said.append) == python
    assert len([line for line in said if "building" in line]) == 1
    (offline / "requirements.in").write_text("asv>=99\n", encoding="utf-8")
    environments.prepare_asv(said.append)
    assert len([line for line in said if "building" in line]) == 2


def test_the_judges_are_made_once_for_all_stacks(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "JUDGES_HOME", offline / "judges")
    said: list[str] = []
    project = offline / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    project.write_text(f'{text}[dependency-groups]\njudges = ["asv==99.1.0"]\n', encoding="utf-8")
    python = environments.prepare_judges(said.append)
    assert python.exists() and environments.prepare_judges(said.append) == python
    assert len([line for line in said if "building" in line]) == 1
    project.write_text(f'{text}[dependency-groups]\njudges = ["asv>=99"]\n', encoding="utf-8")
    environments.prepare_judges(said.append)
    assert len([line for line in said if "building" in line]) == 2


@pytest.mark.parametrize(
    ("said", "hinted"),
    [
        ("error sending request for url (https://index.example/simple/torch/)", True),
        ("dns error: failed to lookup address information: Temporary failure in name resolution", True),
        ("Caused by: tcp connect error: Connection refused (os error 111)", True),
        ("invalid peer certificate: UnknownIssuer", True),
        ("because torch==9 was not found in the package registry", False),
        ("error: Failed to build `x`", False),
    ],
)
def test_an_index_out_of_reach_is_told_with_the_variables_of_a_mirror(said: str, hinted: bool) -> None:
    assert ("UV_DEFAULT_INDEX" in environments.mirror_hint(said)) is hinted


def test_what_cannot_be_had_is_one_sentence(offline: Path) -> None:
    (offline / "requirements.in").write_text("asv==99.9.9\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(Refusal, match="asv's environment cannot be made: .*asv==99.9.9"):
            environments.prepare_asv(lambda _: None)


def test_asv_is_in_no_stack() -> None:
    for name in stacks.names():
        for file in (ROOT / "stacks" / name).glob("*.lock"):
            assert "\nasv==" not in file.read_text(encoding="utf-8"), file


def test_asv_is_pinned_exactly() -> None:
    text = environments.REQUIREMENTS.read_text(encoding="utf-8")
    assert "\nasv==0.6.6\n" in text

"""Whoever is told to type something is told what exists where they stand."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.base import advice, places


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stand in for an installed wheel, which has no noxfile."""
    monkeypatch.setattr(places, "INSTALLED", True)
    monkeypatch.chdir(tmp_path)


def test_inside_the_checkout_sessions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(places.ROOT)
    assert advice.command("xpu", "smoke") == "nox -s xpu-smoke"
    assert advice.command("xpu", "gate", "--base", "a b") == "nox -s xpu-gate -- --base 'a b'"
    assert advice.relock("xpu") == "`nox -s lock -- xpu`"
    assert advice.missing("numpy", "history").startswith("use `nox -s history`, or `")


def test_outside_of_it_the_verb_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert advice.command("xpu", "smoke") == "stackproof smoke --stack xpu --locked"


def test_without_nox_no_session_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(places.ROOT)
    monkeypatch.setattr(advice.shutil, "which", lambda name: None)
    assert advice.command("xpu", "smoke") == "nox -s xpu-smoke"
    monkeypatch.delenv("NOX_CURRENT_SESSION")
    assert advice.command("xpu", "smoke") == "stackproof smoke --stack xpu --locked"


@pytest.mark.usefixtures("package")
def test_an_installed_package_names_no_session() -> None:
    assert (
        advice.command("xpu", "verify", "--suite", "models") == "stackproof verify --stack xpu --locked --suite models"
    )
    assert advice.command("xpu", "gate", "--base", "main") == "stackproof gate --stack xpu --base main"
    assert "nox" not in advice.missing("scipy", "NAME-gate")


def test_a_step_of_a_verb_is_named_with_its_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(places.ROOT)
    assert advice.step("cuda", "fleet", "judge", "/a b") == "nox -s cuda-fleet -- judge '/a b'"
    monkeypatch.chdir(tmp_path)
    assert advice.step("cuda", "fleet", "judge", "/a b") == "stackproof fleet judge '/a b'"


def test_who_stands_elsewhere_is_told_where_to_type_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(places.ROOT)
    assert advice.in_checkout("nox -s drill") == "`nox -s drill`"
    monkeypatch.chdir(tmp_path)
    assert advice.in_checkout("nox -s drill") == "`nox -s drill` in a checkout of stackproof"


def test_the_lock_of_a_project_is_made_with_its_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(places.ROOT)
    monkeypatch.setenv(places.PROJECT, str(tmp_path))
    mine = tmp_path / "stacks" / "mine"
    assert advice.relock("mine", mine) == f"`stackproof lock --project {tmp_path} mine`"
    monkeypatch.chdir(tmp_path)
    assert advice.relock("mine", mine) == "`stackproof lock mine`"


@pytest.mark.usefixtures("package")
def test_a_project_locks_its_own_stack(tmp_path: Path) -> None:
    assert advice.relock("mine", tmp_path / "stacks" / "mine") == "`stackproof lock mine`"
    assert advice.relock("xpu", places.STACKS / "xpu").endswith("in a checkout of stackproof")


@pytest.mark.parametrize(("pip", "tool"), [(True, "python -m pip"), (False, "uv pip")])
def test_an_environment_without_pip_is_installed_into_with_uv(
    monkeypatch: pytest.MonkeyPatch, pip: bool, tool: str
) -> None:
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: [object()] if pip else [])
    assert advice.install("scipy") == f"{tool} install scipy"
    assert advice.pip("uninstall", "a b") == f"{tool} uninstall 'a b'"


def test_advice_changes_nothing_for_what_is_imported_later() -> None:
    script = "from stackproof.base import advice; advice.install('scipy'); import setuptools, distutils; print(distutils.__file__)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "setuptools" in ended.stdout


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["night", "--stack", "cpu", "--only", "gemm-float32"], "night --stack cpu --only gemm-float32"),
        (["night", "--site", "/srv/www", "--markdown=a.md", "--json", "x"], "night --site /srv/www --markdown=a.md"),
        (["verify", "--json", "/home/me/x.json", "--preset=full", "--results=/home/me"], "verify --preset=full"),
        (["verify", "--continue", "--locked", "--results", "out"], "verify"),
        (["watch", "--stack", "cpu", "--", "train", "--token", "secret"], "watch --stack cpu"),
        (["gate", "--env", "A=b c; rm -rf ~"], "gate --env 'A=b c; rm -rf ~'"),
    ],
)
def test_words_are_kept_without_places(given: list[str], words: str) -> None:
    with advice.typing(given):
        assert advice.typed() == words
    assert advice.typed() == ""


def test_a_call_that_fails_leaves_no_words() -> None:
    with pytest.raises(ValueError, match="no"), advice.typing(["night"]):
        raise ValueError("no")
    assert advice.typed() == ""

"""What is switched off before checks run: variables of Python and pytest, search paths that are not ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.stack import stacks, startup

CPU = stacks.load("cpu")


@pytest.mark.parametrize(
    "name",
    ["PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTHONOPTIMIZE", "PYTHONHOME", "PYTHONWARNINGS"],
)
def test_what_changes_what_runs_is_switched_off_and_told(name: str) -> None:
    given = {name: "something"}
    assert startup.guarded(CPU, given, pinned=True)[name] == ""
    assert startup.facts(CPU, given)["switched off"] == f"{name}=something"


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "PYTHONUNBUFFERED", "PYTEST_CURRENT_TEST", "HOME"])
def test_what_harms_nothing_is_not_told(name: str) -> None:
    assert "switched off" not in startup.facts(CPU, {name: "1"})


def test_compiled_code_comes_from_a_folder_of_the_environment() -> None:
    given = {"PYTHONPYCACHEPREFIX": "/somewhere"}
    assert startup.guarded(CPU, given, pinned=True)["PYTHONPYCACHEPREFIX"] == f"{sys.prefix}/compiled"
    assert startup.guarded(CPU, given, pinned=False)["PYTHONPYCACHEPREFIX"] == ""


def test_search_paths_of_others_are_dropped_where_the_lock_rules(tmp_path: Path) -> None:
    given = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(tmp_path)))}
    assert startup.search_path(CPU, given, pinned=True) == (ROOT / "src",)
    assert startup.search_path(CPU, given, pinned=False) == (ROOT / "src", tmp_path)
    assert startup.facts(CPU, given)["PYTHONPATH besides ours"] == str(tmp_path)


def test_the_packages_of_a_stack_are_on_the_path() -> None:
    sim = stacks.load("sim")
    assert startup.search_path(sim, {}, pinned=True) == tuple(map(Path, sim.packages))


def test_plugins_that_announce_themselves_are_switched_off() -> None:
    assert startup.guarded(CPU, {}, pinned=True)["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] == "1"


@pytest.mark.parametrize("name", ["torch.py", "random.py", "stackproof/__init__.py", "pytest.so"])
def test_a_folder_that_shadows_is_told(tmp_path: Path, name: str) -> None:
    site, folder = tmp_path / "site", tmp_path / "folder"
    for path in (site / "torch" / "__init__.py", folder / name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert startup.shadows(folder, (site,)) == (name.partition(".")[0].partition("/")[0],)


def test_a_loop_of_links_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert startup.modules(tmp_path) == set()

"""What differs between the sides: read from flags, laid out as trees."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stackproof.base import git, places, processes
from stackproof.base.errors import Refusal
from stackproof.base.places import ROOT
from stackproof.gate import variants
from stackproof.gate.variants import Variant, assignments, sources
from stackproof.project import projects
from stackproof.stack import stacks

from .. import fakes


def test_assignments_keep_what_follows_the_first_equals_sign() -> None:
    assert assignments(["A=b=c", "E="], "--head-env") == {"A": "b=c", "E": ""}


@pytest.mark.parametrize("word", ["NCCL_PROTO", "=x", ""])
def test_a_word_without_a_name_or_an_equals_sign_is_refused(word: str) -> None:
    with pytest.raises(Refusal, match="--head-env.*NAME=VALUE"):
        assignments([word], "--head-env")


def test_a_source_must_be_a_project(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"pyproject\.toml"):
        sources([f"ultralytics={tmp_path}"], "--head-source")
    (tmp_path / "pyproject.toml").touch()
    assert sources([f"ultralytics={tmp_path}"], "--head-source") == {"ultralytics": tmp_path}


def test_an_unknown_commit_is_refused_by_name() -> None:
    with pytest.raises(Refusal, match="'no-such-branch' is no commit"):
        variants.resolved("no-such-branch")


def test_without_git_or_history_that_is_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal, match="is in no git repository"):
        variants.resolved("main", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match="git is not installed"):
        variants.resolved("main", tmp_path)


def test_a_side_is_built_with_the_uv_that_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv, asked = tmp_path / "tools" / "uv", list[tuple[str, Path]]()
    monkeypatch.setattr(variants.environments, "find_uv", lambda say: uv)

    def ran(command: list[str], environment: dict[str, str], cwd: Path, **_: object) -> processes.Ended:
        asked.append((environment["PATH"].split(os.pathsep)[0], cwd))
        return processes.Ended(0, "/a/python\n")

    monkeypatch.setattr(variants.processes, "run", ran)
    variant = Variant("head", sources={"numpy": tmp_path})
    monkeypatch.setattr(variants, "_lock_of", lambda tree, stack: stack.lock)
    assert variants._prepare(tmp_path, variant, stacks.load("cpu"), lambda _: None) == Path("/a/python")
    assert asked == [
        (str(uv.parent), tmp_path)
    ]  # where Python stands comes first: another checkout's modules would shadow


def test_a_tree_holds_this_harness_and_the_commits_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "HOME", tmp_path)

    tree = variants._tree(Variant("base", commit="HEAD"), stacks.load("cpu"))
    assert tree.parent == tmp_path
    harness = "src/stackproof/gate/side.py"
    assert (tree / harness).read_bytes() == (variants.ROOT / harness).read_bytes()
    stack = git.output_bytes(ROOT, "show", "HEAD:stacks/cpu/stack.toml")
    assert (tree / "stacks/cpu/stack.toml").read_bytes() == stack


def test_a_tree_sees_wheels_that_were_put_beside_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = fakes.stack(tmp_path / "here", "tiny")
    (stack / "wheels").mkdir()
    (stack / "wheels" / "alpha-1.whl").write_text("alpha", encoding="utf-8")
    monkeypatch.setattr(variants, "ROOT", tmp_path / "here")
    variants._lend_wheels(tmp_path / "tree", stacks.load("tiny", tmp_path / "here" / "stacks"))
    assert (tmp_path / "tree" / "stacks" / "tiny" / "wheels" / "alpha-1.whl").read_text(encoding="utf-8") == "alpha"


def test_this_checkout_as_it_is_needs_no_tree() -> None:

    assert variants._tree(Variant("head", environment={"A": "1"}), stacks.load("cpu")) == variants.ROOT


def test_a_side_has_its_stacks_variables_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:

    for name in ("SIM_CARDS", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    stack = stacks.load("sim")
    given = Variant("head", environment={"SIM_FAULTS": "host:op=mm"})
    found = variants.unpinned(given, stack, "fast", "", Path("python")).environment
    assert found["SIM_CARDS"] == stack.environment["SIM_CARDS"]
    assert str(ROOT / stack.packages[0]) in found["PYTHONPATH"]
    assert found["SIM_FAULTS"] == "host:op=mm"


@pytest.mark.parametrize("inner", ["", "src"])
def test_without_an_installation_a_source_is_imported_from_where_it_lies(inner: str, tmp_path: Path) -> None:
    package = tmp_path / inner / "some_package"
    package.mkdir(parents=True)
    given, stack = Variant("head", sources={"some-package": tmp_path}), stacks.load("cpu")
    with pytest.raises(Refusal, match="has no 'some_package' that could be imported"):
        variants.unpinned(given, stack, "fast", "", Path("python"))
    (package / "__init__.py").touch()
    spec = variants.unpinned(given, stack, "fast", "", Path("python"))
    assert spec.environment["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path / inner)
    assert spec.proof == f"unpinned; some-package from {tmp_path}"
    assert spec.source == ROOT / "src"


def test_a_commit_of_a_project_is_its_files_of_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, inner = tmp_path / "mine", tmp_path / "mine" / "models"
    (inner / "workloads").mkdir(parents=True)
    (inner / "stackproof.toml").write_text("", encoding="utf-8")
    (inner / "workloads" / "one.py").write_text("A = 1\n", encoding="utf-8")
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    (inner / "workloads" / "one.py").write_text("A = 2\n", encoding="utf-8")
    monkeypatch.setattr(variants, "HOME", tmp_path / "home")
    monkeypatch.setenv(places.PROJECT, str(inner))
    projects.current.cache_clear()
    try:
        head = variants._project(Variant("head"))
        base = variants._project(Variant("base", commit="HEAD"))
        tree = Path(base[places.PROJECT])
        assert head == {places.PROJECT: str(inner)} and variants.commit_of(head) == ""
        assert (tree / "workloads" / "one.py").read_text(encoding="utf-8") == "A = 1\n"
        assert len(variants.commit_of(base)) == 10
        assert variants._tree(Variant("base", commit="HEAD"), stacks.load("cpu")) == variants.ROOT
        with pytest.raises(Refusal, match="'no-such-branch' is no commit"):
            variants._project(Variant("base", commit="no-such-branch"))
    finally:
        projects.current.cache_clear()


def test_what_has_no_commit_is_called_as_people_call_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Variant("head", environment={"A": "1"}).label == "this checkout, A=1"
    monkeypatch.setattr(places, "INSTALLED", True)
    assert Variant("head").label == "the installed stackproof"
    (tmp_path / "stackproof.toml").write_text('name = "mine"\n', encoding="utf-8")
    mine = projects.load(tmp_path / "stackproof.toml")
    monkeypatch.setattr(projects, "current", lambda: mine)
    assert Variant("head").label == "mine as it is"

"""A project is found upward or named, read strictly, and what is wrong with it is one sentence."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.base.errors import Refusal
from stackproof.project import projects
from stackproof.stack import stacks


@pytest.fixture(autouse=True)
def unnamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin without a project, and end so."""
    monkeypatch.setenv(places.PROJECT, "")
    monkeypatch.delenv(places.PROJECT)
    projects.current.cache_clear()
    yield
    projects.current.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with one workload and a helper beside it."""
    (tmp_path / "stackproof.toml").write_text('name = "mine"\n', encoding="utf-8")
    (tmp_path / "workloads").mkdir()
    for name in ("one.py", "_helper.py", "test_one.py"):
        (tmp_path / "workloads" / name).write_text("", encoding="utf-8")
    return tmp_path


def test_it_is_found_upward(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = folder / "a" / "b"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    found = projects.choose(None)
    assert found is not None and (found.name, found.folder) == ("mine", folder)
    assert [path.name for path in found.workloads] == ["one.py"]
    assert os.environ[places.PROJECT] == str(folder)
    (folder / "stackproof.toml").write_text("workloads = []\n", encoding="utf-8")
    assert projects.load(found.file).workloads == ()


def test_where_there_is_none_nothing_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert projects.choose(None) is None
    assert os.environ[places.PROJECT] == ""


def test_a_table_of_pyproject_does(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text("", encoding="utf-8")
    text = '[project]\nname = "x"\n[tool.stackproof]\nworkloads = ["models.py"]\n'
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    found = projects.choose(str(tmp_path))
    assert found is not None and found.name == tmp_path.name
    assert [path.name for path in found.workloads] == ["models.py"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('worklods = ["a"]', "'worklods' is not a known key (did you mean 'workloads'?)"),
        ('workloads = ["absent"]', "'workloads' has 'absent', and"),
        ('workloads = "workloads"', "'workloads' is 'workloads'; it must be a list"),
        ('suites = "nowhere"', "'suites' is 'nowhere', and"),
        ('expected = "/etc/expected.toml"', "must lie in the project"),
        ('suites = "../out"', "must lie in the project"),
        ("name = ", "is not valid TOML"),
        ("name = 3", "'name' is 3; it must be a string"),
    ],
)
def test_a_slip_in_the_file_is_one_sentence(folder: Path, text: str, words: str) -> None:
    (folder / "stackproof.toml").write_text(text + "\n", encoding="utf-8")
    with pytest.raises(Refusal) as refused:
        projects.choose(str(folder))
    assert words in str(refused.value)
    assert str(folder / "stackproof.toml") in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_named_must_be_a_project(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for named, words in (
        (folder / "stackproof.toml", "is a file"),
        (empty, "holds no stackproof.toml"),
        (tmp_path / "gone", "does not exist"),
    ):
        with pytest.raises(Refusal, match=words):
            projects.choose(str(named))


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stackproof.toml").write_text("", encoding="utf-8")
    (tmp_path / "expected.toml").mkdir()
    with pytest.raises(Refusal, match="expected.toml: is no file"):
        projects.choose(str(tmp_path))
    (tmp_path / "suites").write_text("", encoding="utf-8")
    with pytest.raises(Refusal, match="suites: is no folder"):
        projects.choose(str(tmp_path))


def test_two_descriptions_are_refused(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.stackproof]\nname = "other"\n', encoding="utf-8")
    with pytest.raises(Refusal, match="both describe a project; keep one"):
        projects.choose(str(folder))


def test_a_file_of_another_user_above_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = folder / "own"
    inside.mkdir()
    monkeypatch.chdir(inside)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    own = Path.stat

    def stat(self: Path, **options: bool) -> os.stat_result:
        found = list(own(self, **options))
        found[4] = 4242 if self == inside else 77
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(Refusal, match="belongs to another user"):
        projects.choose(None)
    assert projects.choose(str(folder)) is not None


def test_its_digest_and_commit_are_facts(folder: Path) -> None:
    found = projects.choose(str(folder))
    assert found is not None
    before = found.facts()
    assert before["project.commit"] == "not in git"
    (folder / "workloads" / "_helper.py").write_text("A = 1\n", encoding="utf-8")
    assert found.digest() != before["project.digest"]
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    commit = found.facts()["project.commit"]
    assert len(commit) == 12
    (folder / "workloads" / "one.py").write_text("B = 1\n", encoding="utf-8")
    assert found.facts()["project.commit"] == f"{commit} (with local changes)"


def test_its_stacks_stand_beside_ours(folder: Path) -> None:
    ours = stacks.STACKS / "cpu"
    own = folder / "stacks" / "mine"
    own.mkdir(parents=True)
    for name in ("stack.toml", "requirements.in", "requirements.lock"):
        (own / name).write_text((ours / name).read_text(encoding="utf-8"), encoding="utf-8")
    projects.choose(str(folder))
    assert {"mine", "cpu"} <= set(stacks.names())
    assert stacks.load("mine").folder == own
    (folder / "stacks" / "mine").rename(folder / "stacks" / "cpu")
    with pytest.raises(Refusal, match="the stack 'cpu' exists already, in ") as refused:
        stacks.names()
    assert str(folder / "stacks" / "cpu" / "stack.toml") in str(refused.value)
    assert str(ours / "stack.toml") in str(refused.value)


def test_its_suites_stand_beside_ours(folder: Path) -> None:
    for name in ("ours_too", "models"):
        (folder / "suites" / name).mkdir(parents=True)
    (folder / "suites" / "ours_too" / "test_1_x.py").write_text("", encoding="utf-8")
    projects.choose(str(folder))
    assert "ours_too" in stacks.suites() and "smoke" in stacks.suites()
    (folder / "suites" / "models" / "test_1_x.py").write_text("", encoding="utf-8")
    with pytest.raises(Refusal, match="the suite 'models' is one of stackproof's too"):
        stacks.suites()


def test_its_digest_changes_with_what_a_workload_imports(folder: Path) -> None:
    found = projects.choose(str(folder))
    assert found is not None
    (folder / "mine").mkdir()
    for place in (folder / "mine" / "model.py", folder / "results" / "r.toml", folder / "env" / "lib" / "a.py"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("A = 1\n", encoding="utf-8")
    (folder / "env" / "pyvenv.cfg").touch()
    before = found.digest()
    for place in (folder / "results" / "r.toml", folder / "env" / "lib" / "a.py"):
        place.write_text("A = 2\n", encoding="utf-8")
    assert found.digest() == before
    (folder / "mine" / "model.py").write_text("A = 2\n", encoding="utf-8")
    assert found.digest() != before

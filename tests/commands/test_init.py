"""`init` writes a project that works, and never over what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base.places import EXAMPLE
from stackproof.commands.init import FILES
from stackproof.project import projects
from stackproof.stack import lockfile, stacks


def test_it_writes_what_the_example_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", str(tmp_path / "new" / "mine")]) == 0
    for name in FILES:
        assert (tmp_path / "new" / "mine" / name).read_bytes() == (EXAMPLE / name).read_bytes()
    assert "next: cd " in capsys.readouterr().out
    assert "results/local/" in (tmp_path / "new" / "mine" / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_what_git_ignores_already_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".gitignore").write_text("data/\n", encoding="utf-8")
    assert cli.main(["init", str(tmp_path)]) == 0
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "data/\n"
    assert "results/local/ belongs into .gitignore" in capsys.readouterr().out


def test_no_name_is_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("", " "):
        with pytest.raises(SystemExit) as ended:
            cli.main(["init", name])
        assert ended.value.code == 2 and "names no folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_it_overwrites_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine\n", encoding="utf-8")
    project = name == "stackproof.toml"
    assert cli.main(["init", str(tmp_path)]) == (2 if project else 0)
    printed = capsys.readouterr()
    assert (
        ("exists already, and nothing was written" in printed.err)
        if project
        else (f"stays as it is: {name}" in printed.out)
    )
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine\n"
    assert all((tmp_path / other).exists() is not project for other in FILES if other != name)


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["init", str(tmp_path / "file")])
    assert "is a file, not a folder" in capsys.readouterr().err


def test_the_readme_is_short() -> None:
    assert len((EXAMPLE / "README.md").read_text(encoding="utf-8").splitlines()) <= 10


def test_a_new_stack_is_one_that_the_doctor_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "--stack", "my-card"]) == 2 and "is no project" in capsys.readouterr().err
    assert cli.main(["init"]) == 0
    for name, code, words in (
        ("my-card", 0, "next: "),
        ("my-card", 2, "already"),
        ("cpu", 2, "already"),
        ("a b", 2, "no name"),
    ):
        assert cli.main(["init", "--stack", name]) == code
        assert words in "".join(capsys.readouterr())
    projects.choose(str(tmp_path))
    stack = stacks.load("my-card")
    assert stack.title.startswith("my-card: ") and stack.expected["rng"] == 1
    assert lockfile.read(stack.lock).header["stack"] == "my-card" and lockfile.stale(stack) == []

"""What lint looks at: every file of its kind, paths that texts name, sizes; and a failure of any part is the whole's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.stack import environments
from tools import lint

TABLE = "# shown in tests/there.py, not in tests/gone.py\n[[row]]\nreason = 'see tests/old'\npath = 'tests/none.py'\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a small checkout."""
    for name in ("src/stackproof/room/module.py", "tests/there.py", "stacks/cpu/stack.toml", "docs/page.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_files_of_forges_and_images_are_all_looked_at() -> None:
    looked = {word for command in lint.of_files() for word in command}
    patterns = (".github/workflows/*.yml", "examples/*/.github/workflows/*.yml", ".github/ISSUE_TEMPLATE/*.yml")
    files = [path for pattern in (*patterns, "containers/*/Containerfile") for path in ROOT.glob(pattern)]
    assert len(files) > 10
    assert {str(path.relative_to(ROOT)) for path in files} | {"action.yml"} <= looked


def test_hooks_are_part_of_it() -> None:
    first = next(lint.of_code("python"))
    assert first[1:3] == ["run", "--all-files"] and first[0].endswith("pre-commit")


@pytest.mark.parametrize(("code", "well"), [("raise SystemExit(3)", False), ("print('ran')", True)])
def test_a_command_runs_with_its_output_shown(code: str, well: bool, capfd: pytest.CaptureFixture[str]) -> None:
    assert lint.run([sys.executable, "-c", code]) is well
    assert ("ran" in capfd.readouterr().out.splitlines()) is well


def test_one_failure_is_the_wholes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lint, "exceeded", lambda *_: iter(()))
    monkeypatch.setattr(lint, "run", lambda command: "zizmor" not in command[0])
    assert lint.main(["python"]) == 1 and "zizmor --offline --quiet" in capsys.readouterr().out
    monkeypatch.setattr(lint, "run", lambda command: True)
    assert lint.main(["python"]) == 0, "a path that a text names is lost"


def test_mypy_reads_the_types_of_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python, said = tmp_path / "python", tmp_path / "said"
    (tmp_path / "mypy.py").write_text(
        f"import pathlib, sys\npathlib.Path({str(said)!r}).write_text(' '.join(sys.argv[1:]))\nsys.exit(3)\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(environments, "prepare", lambda stack, say: python)
    assert lint.main(["types", "--no-incremental"]) == 3
    assert said.read_text(encoding="utf-8") == f"--python-executable {python} --no-incremental"


def test_hooks_need_no_host_of_repositories() -> None:
    yaml = pytest.importorskip("yaml")
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    hooks = repos[0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["ruff-check", "ruff-format", "mypy"]
    assert len({(hook["language"], *hook["additional_dependencies"]) for hook in hooks}) == 1


@pytest.mark.parametrize(
    "name", ["lost/agent.py", "tests/lost", "src/stackproof/room/lost.py", "stacks/NAME/lost.toml"]
)
def test_a_lost_path_of_a_page_is_told(root: Path, name: str) -> None:
    (root / "docs" / "page.md").write_text(f"in `{name}`, and `{name}`", encoding="utf-8")
    assert [line.partition(",")[0] for line in lint.lost_paths(root)] == [f"docs/page.md: names '{name}'"]


@pytest.mark.parametrize(
    "text",
    [
        "`room/module.py`, `tests/there.py`, `stacks/NAME/stack.toml` and `tests/*.py`",
        "`src/stackproof/PACKAGE/MODULE[_TOPIC].py`",
        "`torch/version.py`, `results/local/STACK/x/record.json`, `./setup.py`, `out/results.json`, `tests/.../lost.py`",
        "https://example.org/docs/lost.md and `pip/uv`",
        "```\npython tests/lost.py\n```",
    ],
)
def test_what_stands_or_is_not_ours_is_not_told(root: Path, text: str) -> None:
    (root / "docs" / "page.md").write_text(text, encoding="utf-8")
    assert list(lint.lost_paths(root)) == []


def test_reasons_and_comments_of_tables_are_looked_at(root: Path) -> None:
    (root / "src" / "stackproof" / "rows.toml").write_text(TABLE, encoding="utf-8")
    found = list(lint.lost_paths(root))
    assert ["tests/gone.py" in found[0], "tests/old" in found[1], len(found)] == [True, True, 2]


def test_what_grows_and_what_nobody_counted_is_named(tmp_path: Path) -> None:
    for name in ("src/stackproof/gate", "src/stackproof/extras/fleet", "tests", "suites", "tools", "docs"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("gate/__init__.py", "gate/gate.py", "extras/__init__.py", "extras/fleet/plan.py"):
        (tmp_path / "src" / "stackproof" / name).write_text("x = 1\n" * 3, encoding="utf-8")
    (tmp_path / "docs" / "page.md").write_text("four words are here\n", encoding="utf-8")
    found = lint.sizes(tmp_path)
    assert found == {"gate": 6, "extras": 6, "src": 12, "core": 6, "tests": 0, "suites": 0, "tools": 0, "words": 4}
    assert not list(lint.exceeded(found, found))
    (gate,) = lint.exceeded(found, {**found, "gate": 5})
    assert gate.startswith("gate: 6 lines, and [tool.budget] of pyproject.toml allows 5; delete as much")
    (new,) = lint.exceeded(found, {name: size for name, size in found.items() if name != "extras"})
    assert new.startswith("extras: 6 lines, and [tool.budget] of pyproject.toml allows nothing")

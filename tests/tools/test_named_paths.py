"""Paths that texts name: those that are not in the checkout are told, whoever's else they are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import named_paths

TABLE = "# shown in tests/there.py, not in tests/gone.py\n[[row]]\nreason = 'see tests/old'\npath = 'tests/none.py'\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a small checkout."""
    for name in ("src/stackproof/room/module.py", "tests/there.py", "stacks/cpu/stack.toml", "docs/page.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "name", ["lost/agent.py", "tests/lost", "src/stackproof/room/lost.py", "stacks/NAME/lost.toml"]
)
def test_a_lost_path_of_a_page_is_told(root: Path, name: str) -> None:
    (root / "docs" / "page.md").write_text(f"in `{name}`, and `{name}`", encoding="utf-8")
    assert [line.partition(",")[0] for line in named_paths.wrong(root)] == [f"docs/page.md: names '{name}'"]


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
    assert list(named_paths.wrong(root)) == []


def test_reasons_and_comments_of_tables_are_looked_at(root: Path) -> None:
    (root / "src" / "stackproof" / "rows.toml").write_text(TABLE, encoding="utf-8")
    found = list(named_paths.wrong(root))
    assert ["tests/gone.py" in found[0], "tests/old" in found[1], len(found)] == [True, True, 2]


def test_this_checkout_names_none_that_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    assert named_paths.main() == 0 and capsys.readouterr().out == ""

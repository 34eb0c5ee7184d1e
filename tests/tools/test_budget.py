"""The budget of the house: what grows beyond it is named, and so is a room that nobody counted."""

from __future__ import annotations

from pathlib import Path

from tools import budget


def test_what_grows_and_what_nobody_counted_is_named(tmp_path: Path) -> None:
    for name in ("src/stackproof/gate", "src/stackproof/extras/fleet", "tests", "suites", "tools", "docs"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("gate/__init__.py", "gate/gate.py", "extras/__init__.py", "extras/fleet/plan.py"):
        (tmp_path / "src" / "stackproof" / name).write_text("x = 1\n" * 3, encoding="utf-8")
    (tmp_path / "docs" / "page.md").write_text("four words are here\n", encoding="utf-8")
    found = budget.sizes(tmp_path)
    assert found == {"gate": 6, "extras": 6, "src": 12, "core": 6, "tests": 0, "suites": 0, "tools": 0, "words": 4}
    assert not list(budget.exceeded(found, found))
    (gate,) = budget.exceeded(found, {**found, "gate": 5})
    assert gate.startswith("gate: 6, and pyproject.toml allows 5; delete as much")
    (new,) = budget.exceeded(found, {name: size for name, size in found.items() if name != "extras"})
    assert new.startswith("extras: 6, and pyproject.toml allows nothing")

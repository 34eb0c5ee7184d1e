"""The page of random operators says what the suite does."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.operators.draws import DRAWS
from tools import random_page


def test_the_page_is_fresh() -> None:
    text = random_page.PAGE.read_text(encoding="utf-8")
    assert random_page.page(text) == text
    dtypes = [row.split("|")[2].split(",") for row in list(random_page.rows())[2:]]
    assert sum(map(len, dtypes)) == sum(len(draw.dtypes) for draw in DRAWS)


def test_a_stale_page_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stale = tmp_path / "page.md"
    stale.write_text(f"Above.\n{random_page.BEGIN}\nold\n", encoding="utf-8")
    monkeypatch.setattr(random_page, "PAGE", stale)
    monkeypatch.setattr("sys.argv", ["random_page", "--check"])
    assert random_page.main() == 1 and "old" in stale.read_text(encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["random_page"])
    assert random_page.main() == 0 and stale.read_text(encoding="utf-8").startswith("Above.\n")
    assert "`randperm`" in stale.read_text(encoding="utf-8")

"""What lint looks at: every file of its kind, and a failure of any part is the whole's."""

from __future__ import annotations

import sys

import pytest

from stackproof import ROOT
from tools import lint


def test_files_of_forges_and_images_are_all_looked_at() -> None:
    looked = {word for command in lint.of_files() for word in command}
    patterns = (".github/workflows/*.yml", "examples/*/.github/workflows/*.yml", ".github/ISSUE_TEMPLATE/*.yml")
    files = [path for pattern in (*patterns, "containers/*/Containerfile") for path in ROOT.glob(pattern)]
    assert len(files) > 10
    assert {str(path.relative_to(ROOT)) for path in files} | {"action.yml"} <= looked


def test_hooks_are_part_of_it() -> None:
    first = next(lint.of_code("python"))
    assert first[1:3] == ["run", "--all-files"] and first[0].endswith("pre-commit")


def test_one_failure_is_the_wholes(capfd: pytest.CaptureFixture[str]) -> None:
    failed = lint.run([[sys.executable, "-c", "raise SystemExit(3)"], [sys.executable, "-c", "print('ran')"]])
    assert len(failed) == 1 and failed[0].endswith("-c raise SystemExit(3)")
    assert "ran" in capfd.readouterr().out

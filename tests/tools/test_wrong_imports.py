"""The contracts on imports are tried with wrong ones; here the linter is a stand-in, `nox -s lint` has the real one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import wrong_imports


def blind_to(*rows: str) -> Callable[[Path], bool]:
    """Return a linter that keeps contracts unless a row's line was planted, and misses these rows."""

    def lint(root: Path) -> bool:
        def planted(what: str) -> bool:
            file, line = wrong_imports.WRONG[what]
            path = root / "src" / "stackproof" / file
            return path.exists() and path.read_text(encoding="utf-8").endswith(f"\n{line}\n")

        found = [what for what in wrong_imports.WRONG if planted(what)]
        assert len(found) <= 1 and (root / "pyproject.toml").is_file() and (root / "tools").is_dir()
        return not found or found[0] in rows

    return lint


@pytest.mark.slow
@pytest.mark.parametrize(("missed", "status"), [((), 0), (("sideways",), 1)])
def test_each_row_must_be_found(
    missed: tuple[str, ...], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wrong_imports, "_lint", blind_to(*missed))
    assert wrong_imports.main() == status
    said = capsys.readouterr()
    assert said.out.endswith(f"planted, {len(missed)} missed\n")
    assert [what for what in wrong_imports.WRONG if f"of {what}: " in said.err] == list(missed)


def test_contracts_that_the_sound_source_breaks_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wrong_imports, "_lint", lambda _root: False)
    assert wrong_imports.main() == 1
    assert "the source as it is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "code", "kept"),
    [("Contracts: 5 kept", 0, True), ("Contracts: 1 broken", 1, False), ("Traceback", 1, None)],
)
def test_a_linter_that_does_not_judge_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int, kept: bool | None
) -> None:
    program = tmp_path / "lint-imports"
    program.write_text(f"#!/bin/sh\necho '{said}'\nexit {code}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if kept is None:
        with pytest.raises(SystemExit, match="did not judge: Traceback"):
            wrong_imports._lint(tmp_path)
    else:
        assert wrong_imports._lint(tmp_path) is kept

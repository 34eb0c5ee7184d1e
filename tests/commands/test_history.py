"""The verbs of what was kept on the command line: admission, and asv that is absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.record import store

from ..history import making


def test_admit_copies_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from stackproof.history import timeline

    monkeypatch.setattr(timeline.admit, "__defaults__", (tmp_path / "published",))
    path = store.append(making.record(0), tmp_path)
    assert cli.main(["admit", str(path)]) == 0
    published = Path(capsys.readouterr().out.strip())
    assert published.is_relative_to(tmp_path / "published" / "cuda" / "box")
    dirty = store.append(making.record(0, commit="unknown"), tmp_path)
    assert cli.main(["admit", str(dirty)]) == 2
    assert "is not admitted" in capsys.readouterr().err


def test_asv_that_is_not_installed_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "asv", None)
    assert cli.main(["asv", "publish"]) == 2
    assert "use `nox -s NAME-asv -- ...`" in capsys.readouterr().err

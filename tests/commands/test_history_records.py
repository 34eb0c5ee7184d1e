"""`verify-record`: a record is what was written, it or its log was edited, or it cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.cli import main

from ..record.test_reading import kept


def test_each_state_of_a_record_has_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kept(tmp_path)
    (path.parent / "record.dsse.json").write_text("{}", encoding="utf-8")  # a signature of before is left alone
    words = ["verify-record", str(path)]
    assert main(words) == 0 and "equals its own digests" in capsys.readouterr().out
    (path.parent / "suite-0.log").write_text("2 passed", encoding="utf-8")
    assert main(words) == 1 and "suite-0.log was edited" in capsys.readouterr().err
    (path.parent / "suite-0.log").unlink()
    assert main(words) == 1 and "suite-0.log is not beside it" in capsys.readouterr().err
    found = json.loads(path.read_text(encoding="utf-8"))
    del found["digests"]
    path.write_text(json.dumps(found), encoding="utf-8")
    assert main(words) == 1 and "holds no digest of itself" in capsys.readouterr().err
    path.write_text("{", encoding="utf-8")
    assert main(words) == 2

"""Rules of what a backend does not offer: strict, about existing rows, and by version."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.collectives import table
from stackproof.collectives.table import Lack, Row, lacking, lacks, rows
from stackproof.ranks import libraries

MEAN = Row("all_reduce", "avg", "float32")


@pytest.mark.parametrize("lack", lacks(), ids=lambda lack: lack.place)
def test_a_rule_is_about_something(lack: Lack) -> None:
    assert set(lack.backends) <= set(libraries.backends())
    versions, device = ("2.4.1", "2.8.0", "2.11.0", "2.15.0"), lack.devices[0].replace("*", "cuda")
    assert any(lack.covers(row, lack.backends[0], device, version) for row in rows() for version in versions)
    assert len(lack.reason) > 15 and len(lack.says) > 5 and (not lack.link or lack.link.startswith("https://"))


def test_a_rule_holds_for_its_versions() -> None:
    old, new = lacking(MEAN, "gloo", "cpu", "2.4.1+das.opt2"), lacking(MEAN, "gloo", "cpu", "2.8.0+cpu")
    assert old is not None and "no mean before" in old.reason and new is None


def test_a_rule_holds_for_its_backend_alone() -> None:
    assert lacking(Row("coalescing_all_reduce", "sum", "float32"), "gloo", "cuda") is not None
    assert lacking(Row("coalescing_all_reduce", "sum", "float32"), "nccl", "cuda") is None


def test_a_rule_holds_for_tensors_of_its_devices_alone() -> None:
    send = Row("send_recv", "copy", "float32")
    assert lacking(send, "gloo", "cpu", "2.11.0") is None
    lack = lacking(send, "gloo", "cuda", "2.11.0")
    assert lack is not None and not lack.tried
    assert "not tried, because it ended so: writev: Bad address" in lack.sentence


def test_what_is_not_tried_is_tried_with_a_newer_torch() -> None:
    assert lacking(Row("send_recv", "copy", "float32"), "gloo", "cuda", "3.0.0") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('torch = "newer than 2.8"\n', "it must be a version range"),
        ('operators = ["avg"]\n', "is not a known key"),
        ("reason = 7\n", "it must be a string"),
        ('tried = false\ntorch = ">=2.8"\n', "a row that is not tried needs an end"),
    ],
)
def test_a_broken_rule_is_refused(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = '[[lacks]]\nbackends = ["gloo"]\ncollectives = ["*"]\nsays = "no"\n' + text
    path = tmp_path / "collectives.toml"
    path.write_text(whole + ("" if "reason" in text else 'reason = "because"\n'))
    monkeypatch.setattr(table, "RULES", path)
    with pytest.raises(Refusal, match=words):
        lacks.__wrapped__()

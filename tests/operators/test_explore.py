"""Exploring: a planted fault comes as one cause, in few and plain numbers, with code and a row that excuses it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stackproof import DATA
from stackproof.base.errors import Refusal
from stackproof.base.toml import Table
from stackproof.device.devices import HOST
from stackproof.operators import engine, explore
from stackproof.operators.database import preserved
from stackproof.operators.relation import Relation
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure

from .test_engine import Planted


def explored(monkeypatch: pytest.MonkeyPatch, seed: int = 7) -> tuple[str, dict[str, Figure]]:
    """Explore one operator with a fault, and return the sentence and the figures."""
    figures: dict[str, Figure] = {}
    monkeypatch.setattr(explore, "_SEEN", set())
    with Planted("sin_.default", lambda out: out.mul_(1.01), lambda *_: True), pytest.raises(CheckFailed) as failed:
        explore.check(seed, 0.5, HOST, figures, "spellings-sin")
    return str(failed.value), figures


def test_a_fault_is_one_cause_with_code_and_a_row_that_excuses_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    sentence, figures = explored(monkeypatch)
    assert "no row knows: sin in " in sentence and figures["seed"] == 7
    code, mark, row = str(figures["cause 1"]).partition("[[known]]")
    compile(code, "pasted", "exec")
    path = tmp_path / "relations.toml"
    path.write_text((DATA / "relations.toml").read_text("utf-8").partition("[[known]]")[0] + mark + row, "utf-8")
    (known,) = Table.load(path).row(engine._Rows).known
    monkeypatch.setattr(engine, "known", lambda: (known,))
    figures = {}
    with Planted("sin_.default", lambda out: out.mul_(1.01), lambda *_: True):
        explore.check(7, 0.0, HOST, figures, "spellings-sin")  # without any time something is asked all the same
    assert figures["relations"] and "none fails that no row knows" in str(figures["summary"])


def test_a_case_that_no_judge_has_is_named() -> None:
    with pytest.raises(Refusal, match=r"'draws-rand' is in no JUDGE-OPERATOR"):
        explore.cases("draws-rand")
    with pytest.raises(Refusal, match=r"did you mean 'elementwise-exp'"):
        explore.cases("elementwise-epx")


def test_what_fails_is_cut_down_to_few_plain_numbers() -> None:
    tensor = torch.randn(6, 10, dtype=torch.float64).mT

    def first(x: torch.Tensor) -> torch.Tensor:
        return x.sum() + (x.dim() == 2)

    plain, wrong = Relation("adds", (tensor,), {}, first, torch.sum, "").reduced("number [] is 2 instead of 1")
    assert plain.arguments[0].shape == (1, 1) and plain.arguments[0].is_contiguous() and "instead of" in wrong
    assert plain.arguments[0].item() in (-1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("number [3] is nan instead of 1 (1 of 4 differ)", "is nan"),
        ("number [3] is -inf instead of 1 (1 of 4 differ)", "is -inf"),
        ("number [3] is 2 instead of 1 (1 of 4 differ)", ""),
        ('raises RuntimeError: size 3 of "x"', "raises RuntimeError: size"),
        ("has shape (3,) instead of (4,)", "has shape ("),
    ],
)
def test_a_symptom_stands_in_the_words(wrong: str, text: str) -> None:
    assert explore.symptom(wrong) == text and text in wrong


@pytest.mark.parametrize(
    ("judge", "name", "seed"),
    [
        ("derivatives", "nn.functional.prelu", 795542560),
        ("derivatives", "aminmax", 795542561),
        ("derivatives", "sgn", 38),
        ("company", "diag_embed", 795542561),
    ],
    ids=["a kink", "a tie", "a jump", "dimensions from the front"],
)
def test_where_there_is_no_answer_nothing_is_said(judge: str, name: str, seed: int) -> None:
    seen: dict[str, int] = {}
    with preserved(HOST.torch):
        faults = engine.faults(judge, name, HOST.torch, seed, seen)
        assert not [fault for fault in faults if "of squares" not in fault[1].says]
    assert seen["relations"] + seen["unusable"]

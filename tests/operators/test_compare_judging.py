"""What is expected of results: form, error against float64, and rows that exempt with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stackproof.base.errors import Refusal
from stackproof.operators import compare, database
from stackproof.operators.compute import Computed

ROW = '[[operator]]\nnames = ["exp"]\ndtypes = ["float32"]\nreason = "because"\n'


def kept(mean: torch.Tensor, output: float = 1.0) -> Computed:
    """Return what a batch normalisation gives: its output and what it keeps."""
    out = torch.tensor([output])
    return Computed((out, mean), {"output 0": out, "output 1": mean}, 0)


@pytest.mark.parametrize(
    ("mean", "output", "ok"),
    [(torch.zeros(1), 1.0, True), (torch.zeros(1, dtype=torch.float16), 1.0, True), (torch.zeros(1), 1.1, False)],
)
def test_what_a_kernel_keeps_for_itself_may_have_any_form(mean: torch.Tensor, output: float, ok: bool) -> None:
    reference, private = kept(torch.zeros(0)), ("output 1",)
    actual = kept(mean, output)
    assert compare.form_fault(actual, reference, torch.float32, private=private) == ""
    found = compare.judgements(actual, reference, None, torch.float32, compare.Exemption(private=private))
    assert all(judgement.ok for judgement in found.values()) is ok
    assert "output 1" not in found


def test_what_a_kernel_keeps_is_compared_where_it_is_the_same_thing() -> None:
    exemption = compare.Exemption(private=("output 1",))
    found = compare.judgements(kept(torch.ones(1)), kept(torch.full((1,), 2.0)), None, torch.float32, exemption)
    assert not found["output 1"].ok


def test_a_narrow_gradient_is_judged_as_what_it_is() -> None:
    exact, near, wrong = (Computed((), {"gradient": torch.tensor([1 + n])}, 1) for n in (0.0, 2e-7, 2e-6))
    assert compare.judgements(near, exact, None, torch.float64)["gradient"].ok
    assert not compare.judgements(wrong, exact, None, torch.float64)["gradient"].ok


def test_a_constant_in_float32_is_excused_by_a_row_and_no_more() -> None:
    row = compare.exemptions()["nn.functional.hardsigmoid", "float64"]
    sixth = Computed((), {"output": torch.tensor([1 / 6], dtype=torch.float64)}, 0)
    for factor, ok in ((1 + 3e-8, True), (1 + 1e-6, False)):
        off = Computed((), {"output": sixth.values["output"] * factor}, 0)
        assert compare.judgements(off, sixth, None, torch.float64, row)["output"].ok is ok
        assert not compare.judgements(off, sixth, None, torch.float64)["output"].ok


def values(number: float) -> Computed:
    """Return a result of one output of two numbers."""
    return Computed((), {"output": torch.tensor([1.0, number], dtype=torch.float64)}, 0)


def test_the_cpu_in_the_same_dtype_widens_the_bound_up_to_the_cap() -> None:
    reference, actual, anchor = values(1.0), values(1 + 4e-6), values(1 + 2e-6)
    assert not compare.judgements(actual, reference, None, torch.float32)["output"].ok
    assert compare.judgements(actual, reference, anchor, torch.float32)["output"].ok
    wrong = values(1 + 64 * 2.0**-23)
    assert not compare.judgements(wrong, reference, wrong, torch.float32)["output"].ok
    assert compare.judgements(wrong, reference, wrong, torch.float32, compare.Exemption(cap=1e-4))["output"].ok
    assert not compare.judgements(values(1.001), reference, values(1.001), torch.float32)["output"].ok


def test_results_that_cancel_are_compared_absolutely() -> None:
    nothing = Computed((), {"gradient": torch.tensor([1e-16], dtype=torch.float64)}, 1)
    noise = Computed((), {"gradient": torch.tensor([1e-7])}, 1)
    wrong = Computed((), {"gradient": torch.tensor([0.1])}, 1)
    assert compare.judgements(noise, nothing, noise, torch.float32)["gradient"].ok
    assert not compare.judgements(wrong, nothing, wrong, torch.float32)["gradient"].ok


def test_overflow_of_the_dtype_is_not_an_error() -> None:
    infinite = Computed((), {"output": torch.tensor([float("inf")], dtype=torch.float16)}, 0)
    big, small = (Computed((), {"output": torch.tensor([n], dtype=torch.float64)}, 0) for n in (1e6, 1e3))
    assert compare.judgements(infinite, big, None, torch.float16)["output"].ok
    assert not compare.judgements(infinite, small, infinite, torch.float16)["output"].ok


def test_indices_are_right_or_wrong() -> None:
    right, wrong = (Computed((), {"output": torch.tensor([10**9, n])}, 0) for n in (1, 2))
    assert not compare.judgements(wrong, right, wrong, torch.float32)["output"].ok


def test_each_exemption_names_operators_that_exist() -> None:
    assert {name for name, _ in compare.exemptions()} <= set(database.load())


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('compare = "form"\ncap = 1.0', "'values' needs one of 'cap', 'returns', 'ties'"),
        ("", "'values' needs one of 'cap', 'returns', 'ties'"),
        (f"cap = 1.0\n{ROW}cap = 1.0", "repeats an operator"),
        ('compare = "nothin"', "did you mean 'nothing'"),
        ('compare = "form"\ndtype = "float32"', "is not a known key"),
    ],
)
def test_a_bad_exemption_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, row: str, said: str) -> None:
    file = tmp_path / "operators.toml"
    file.write_text(f"{ROW}{row}\n", encoding="utf-8")
    monkeypatch.setattr(compare, "DATA", tmp_path)
    with pytest.raises(Refusal, match=r"operators\.toml: 'operator\[[01]\]") as refusal:
        compare.exemptions.__wrapped__()
    assert said in str(refusal.value)

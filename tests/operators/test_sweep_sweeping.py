"""The operator sweep: clean runs flag nothing, injected faults are flagged by name, counts add up."""

from __future__ import annotations

import pytest
import torch

from stackproof.base.errors import Refusal
from stackproof.operators import database
from stackproof.operators.compare import Outcome
from stackproof.operators.sweep import Sweep, sweep

from .faults import CPU, Change, Fault, broken, run, scaled, with_nan, wrong_if_odd


@pytest.fixture(scope="module")
def whole() -> Sweep:
    """The sweep that smoke makes."""
    return run(samples=2)


@pytest.mark.slow
def test_a_clean_sweep_of_the_whole_database_flags_nothing(whole: Sweep) -> None:
    assert [result.reason for result in whole.faults()] == []
    assert whole.ok
    assert whole.executed["forward"] >= 600
    assert whole.executed["backward"] >= 500


def test_every_operator_is_counted_once(whole: Sweep) -> None:
    assert sum(whole.counts.values()) == len(whole.results) == len(database.load())
    assert all(r.reason for r in whole.results if r.outcome is not Outcome.PASSED)
    assert all(r.worst for r in whole.results if r.outcome is Outcome.PASSED)


@pytest.mark.parametrize(
    ("name", "kernel", "change"),
    [
        ("addmm", "aten.addmm.default", scaled),
        ("nn.functional.linear", "aten.addmm.default", scaled),
        ("tanh", "aten.tanh_backward.default", scaled),
        ("nn.functional.conv2d", "aten.convolution.default", scaled),
        ("nn.functional.conv2d", "aten.convolution_backward.default", scaled),
        ("nn.functional.layer_norm", "aten.native_layer_norm.default", scaled),
        ("exp", "aten.exp.default", with_nan),
        ("add", "aten.add.Tensor", wrong_if_odd),
        ("linalg.svdvals", "aten._linalg_svd.default", scaled),
    ],
)
def test_a_wrong_kernel_is_flagged_by_operator(name: str, kernel: str, change: Change) -> None:
    with Fault(kernel, change) as fault:
        (result,) = run(name).results
    assert fault.fired > 0
    assert result.outcome is Outcome.FAILED
    assert f"{name} sample " in result.reason
    assert "exceeds the bound" in result.reason
    finding = result.findings[0]
    assert finding.call.startswith(f"{name}(")
    assert finding.judgement is not None
    assert finding.judgement.error > finding.judgement.bound
    assert 0 < finding.judgement.bound < 1.1e-4


def test_a_fault_in_one_kernel_spares_the_others() -> None:
    with Fault("aten.addmm.default", broken):
        found = run("exp", "addmm", "tanh")
    assert [r.outcome for r in found.results] == [Outcome.PASSED, Outcome.ERROR, Outcome.PASSED]
    assert not found.ok


def test_an_unknown_operator_is_refused_with_a_suggestion() -> None:
    with pytest.raises(Refusal, match=r"'adddmm' is not in .* operator database \(did you mean 'addmm'\?\)"):
        run("adddmm")


def test_operators_beyond_the_budget_are_not_run_and_not_ok() -> None:
    found = sweep(CPU, torch.float32, samples=1, budget_s=-1, names=["exp", "add"])
    assert [r.outcome for r in found.results] == [Outcome.NOT_RUN] * 2
    assert not found.ok


def test_progress_is_reported_before_each_operator() -> None:
    seen: list[tuple[int, int, str]] = []
    sweep(CPU, torch.float32, samples=1, names=["exp", "add"], on_progress=lambda *step: seen.append(step))
    assert seen == [(0, 2, "exp"), (1, 2, "add")]


def test_two_sweeps_agree_to_the_bit_and_leave_the_random_state() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = run("addmm", "nn.functional.conv2d", "linalg.solve")
    assert torch.equal(before, torch.get_rng_state())
    assert threads == torch.get_num_threads()
    torch.rand(3)
    assert first.results == run("addmm", "nn.functional.conv2d", "linalg.solve").results

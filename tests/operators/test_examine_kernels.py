"""The operator sweep: clean runs flag nothing, injected faults are flagged by name, counts add up."""

from __future__ import annotations

import pytest
import torch

from stackproof.operators.examine import Outcome

from .faults import Change, Fault, broken, run, scaled, with_nan, wrong_if_odd


@pytest.mark.slow
def test_a_clean_sweep_of_the_whole_database_flags_nothing() -> None:
    whole = run(samples=2)
    assert [one.reason for one in whole if not one.outcome.ok] == []
    assert sum(one.forward > 0 for one in whole) >= 600
    assert sum(one.backward > 0 for one in whole) >= 500
    assert all(one.reason for one in whole if one.outcome is not Outcome.PASSED)
    assert all(one.worst for one in whole if one.outcome is Outcome.PASSED)


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
        (result,) = run(name)
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
    assert [one.outcome for one in found] == [Outcome.PASSED, Outcome.ERROR, Outcome.PASSED]


def test_two_sweeps_agree_to_the_bit_and_leave_the_random_state() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = run("addmm", "nn.functional.conv2d", "linalg.solve")
    assert torch.equal(before, torch.get_rng_state())
    assert threads == torch.get_num_threads()
    torch.rand(3)
    assert [one.worst for one in first] == [one.worst for one in run("addmm", "nn.functional.conv2d", "linalg.solve")]

"""The operator sweep: clean runs flag nothing, injected faults are flagged by name, counts add up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stackproof import opdatabase, operators, opjudging
from stackproof.errors import Refusal
from stackproof.opdatabase import Computed, cotangent, relocate
from stackproof.operators import Outcome, Sweep, examine, sweep
from stackproof.opshapes import Sample, ShapedOp

CPU = torch.device("cpu")
ROW = '[[operator]]\nnames = ["exp"]\ndtypes = ["float32"]\nreason = "because"\n'
Change = Callable[[torch.Tensor], Any]


def run(*names: str, samples: int | None = 4) -> Sweep:
    """Sweep on the CPU in float32; all operators if none is named."""
    return sweep(CPU, torch.float32, samples=samples, names=names or None)


class Fault(TorchDispatchMode):
    """Changes the float32 results of one kernel; the float64 reference stays right."""

    def __init__(self, kernel: str, change: Change) -> None:
        super().__init__()
        self.kernel, self.change, self.fired = kernel, change, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first, *rest = result if isinstance(result, tuple) else (result,)
        if str(func) != self.kernel or first.dtype is not torch.float32:
            return result
        self.fired += 1
        return (self.change(first), *rest) if rest else self.change(first)


class Wrapped:
    """An operator of the database whose float32 output goes through `change` as a whole."""

    def __init__(self, op: Any, change: Callable[[Any], Any]) -> None:
        self.op, self.change = op, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def __call__(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the operator and change what it returns."""
        output = self.op(value, *args, **kwargs)
        return self.change(output) if value.dtype is torch.float32 else output


def wrap(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any]) -> None:
    """Put the wrapped operator into the database that the sweep loads."""
    database = opdatabase.load()
    monkeypatch.setattr(operators, "load", lambda: {**database, name: Wrapped(database[name], change)})


def scaled(tensor: torch.Tensor) -> torch.Tensor:
    """Err by one part in a thousand."""
    return tensor * 1.001


def with_nan(tensor: torch.Tensor) -> torch.Tensor:
    """Return numbers that are none."""
    return torch.full_like(tensor, float("nan"))


def wrong_if_odd(tensor: torch.Tensor) -> torch.Tensor:
    """Err at one odd size only, as vectorised kernels do at their tail."""
    return tensor + 1 if tensor.shape[-1:] == (5,) else tensor


def broken(tensor: torch.Tensor) -> torch.Tensor:
    """Raise as a device without that kernel does."""
    raise RuntimeError("no kernel image is available\nfor this device")


@pytest.fixture(scope="module")
def whole() -> Sweep:
    """The sweep that smoke makes."""
    return run(samples=2)


def test_a_clean_sweep_of_the_whole_database_flags_nothing(whole: Sweep) -> None:
    """The CPU passes on every operator, and at least 600 of them were executed."""
    assert [result.reason for result in whole.faults()] == []
    assert whole.ok
    assert whole.executed["forward"] >= 600
    assert whole.executed["backward"] >= 500


def test_every_operator_is_counted_once(whole: Sweep) -> None:
    """Outcomes add up to the database, and whatever was not compared says why."""
    assert sum(whole.counts.values()) == len(whole.results) == len(opdatabase.load())
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
    """A factor of 1.001 exceeds the cap although device and anchor are the same wrong kernel."""
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
    """Only the operators that reach the kernel are flagged, and the sweep goes on after them."""
    with Fault("aten.addmm.default", broken):
        found = run("exp", "addmm", "tanh")
    assert [r.outcome for r in found.results] == [Outcome.PASSED, Outcome.ERROR, Outcome.PASSED]
    assert not found.ok


def test_an_exception_becomes_an_error_with_its_first_line() -> None:
    """One line is enough to say what the device lacks."""
    with Fault("aten.exp.default", broken):
        (result,) = run("exp").results
    assert result.outcome is Outcome.ERROR
    assert result.reason.endswith("raises RuntimeError: no kernel image is available")
    assert len(result.findings) == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda out: out.to(torch.bfloat16), "returns bfloat16 instead of float32"),
        (lambda out: out.to(torch.float64), "returns float64 instead of float32"),
        (lambda out: out[..., None], "returns shape"),
        (lambda out: (out, out), "returns 2 outputs instead of 1"),
        (lambda out: None, "returns NoneType instead of Tensor"),
        (lambda out: out.detach(), "gradient of input 0 is missing"),
    ],
)
def test_a_wrong_form_is_flagged(monkeypatch: pytest.MonkeyPatch, change: Change, said: str) -> None:
    """Dtype, shape, number of outputs and the presence of gradients are compared before any value."""
    wrap(monkeypatch, "add", change)
    (result,) = run("add").results
    assert result.outcome is Outcome.FAILED
    assert said in result.reason


ULPS = 64 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize(
    "name",
    ["exp", "add", "sum", "mm", "addmm", "softmax", "nn.functional.layer_norm", "nn.functional.conv2d",
     "cumsum", "nn.functional.batch_norm", "linalg.solve", "linalg.vector_norm"],
)  # fmt: skip
def test_an_error_of_64_ulp_is_flagged(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also where numbers are added: the floor that grows with their number excuses another order, not lost digits."""
    card = torch.device("cpu", 0)  # the reference is "cpu": a device that errs where the CPU does not

    def lossy(op: Any, sample: Any, device: torch.device, *args: Any, **kwargs: Any) -> Computed:
        made = opdatabase.compute(op, sample, device, *args, **kwargs)
        if device.index is None:
            return made
        return Computed(made.outputs, {name: value * (1 + ULPS) for name, value in made.values.items()}, made.gradients)

    monkeypatch.setattr(operators, "compute", lossy)
    (result,) = sweep(card, torch.float32, samples=None, names=[name]).results
    assert result.outcome is Outcome.FAILED
    assert "exceeds the bound" in result.reason


def test_another_order_of_adding_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that keeps a running sum in float32 errs more than the CPU, which keeps it in float64."""

    def samples(dtype: torch.dtype) -> Iterator[Sample]:
        return iter([Sample(torch.full((600,), 0.1, dtype=dtype), (0,))])

    def running(x: torch.Tensor, dim: int) -> torch.Tensor:
        total, sums = torch.zeros((), dtype=x.dtype), []
        for number in x.unbind(dim):
            sums.append(total := total + number)
        return torch.stack(sums, dim)

    def narrow(op: Any, sample: Any, device: torch.device, *args: Any, **kwargs: Any) -> Computed:
        chosen = op if device.index is None else ShapedOp("cumsum", running, samples, False)
        return opdatabase.compute(chosen, sample, device, *args, **kwargs)

    monkeypatch.setattr(operators, "compute", narrow)
    op = ShapedOp("cumsum", torch.cumsum, samples, False)
    found = examine("cumsum", op, torch.device("cpu", 0), torch.float32, None)
    assert found.worst is not None
    assert found.worst.error > 4 * torch.finfo(torch.float32).eps
    assert (found.outcome, found.conditioned) == (Outcome.PASSED, 1)


def test_random_operators_are_compared_in_form() -> None:
    """They cannot pass by value, and their outcome says which kernel draws."""
    (result,) = run("rand_like").results
    assert result.outcome is Outcome.FORM
    assert "draws random numbers" in result.reason


def test_nan_from_a_random_operator_is_flagged() -> None:
    """Randomness excuses other numbers, not numbers that are none."""
    with Fault("aten.bernoulli.default", with_nan):
        (result,) = run("bernoulli").results
    assert result.outcome is Outcome.FAILED


def test_attention_is_not_excused_as_random() -> None:
    """The fused kernel carries the tag for its dropout, but without dropout it draws nothing."""
    kernel = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    with Fault(kernel, scaled) as fault:
        (result,) = run("nn.functional.scaled_dot_product_attention", samples=None).results
    assert fault.fired > 0
    assert result.outcome is Outcome.FAILED


def test_exempted_operators_say_why() -> None:
    """Uninitialised memory is compared in form; what has no CPU kernel is not applicable."""
    empty, jiterator = run("empty", "jiterator_unary").results
    assert (empty.outcome, jiterator.outcome) == (Outcome.FORM, Outcome.NOT_APPLICABLE)
    assert "uninitialised memory" in empty.reason
    assert "no CPU kernel" in jiterator.reason


def test_an_unsupported_dtype_is_not_applicable() -> None:
    """The database's own table decides, and the reason names dtype and device."""
    (result,) = run("bitwise_not").results
    assert (result.outcome, result.reason) == (
        Outcome.NOT_APPLICABLE,
        "the database lists no float32 for cpu",
    )


class OfADevice:
    """An operator of the database as a device lists it: for dtypes that the CPU does not have."""

    def __init__(self, op: Any) -> None:
        self.op = op

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def supported_dtypes(self, kind: str) -> set[torch.dtype]:
        """Return the database's for the CPU, and complex64 elsewhere."""
        return set(self.op.supported_dtypes("cpu")) if kind == "cpu" else {torch.complex64}


def test_what_the_cpu_does_not_have_is_not_applicable() -> None:
    """Without a reference there is nothing to compare with, and the reason says so."""
    op = OfADevice(opdatabase.load()["nansum"])
    found = examine("nansum", op, torch.device("meta"), torch.complex64, None)
    assert (found.outcome, found.reason) == (
        Outcome.NOT_APPLICABLE,
        "the database lists no complex64 for the CPU: nothing to compare with",
    )


def test_samples_that_a_device_refuses_are_left_out_and_say_why() -> None:
    """What the row's words refuse is counted with the row's reason; other errors are errors."""
    words = "`driver` other than `gels` is not supported on CUDA"
    op = opdatabase.load()["linalg.lstsq"]

    class Refusing(OfADevice):
        def __call__(self, *args: Any, driver: str, **kwargs: Any) -> Any:
            if driver != "gels":
                raise RuntimeError(f"torch.linalg.lstsq: {words}")
            return op(*args, driver=driver, **kwargs)

        def supported_dtypes(self, kind: str) -> set[torch.dtype]:
            return set(op.supported_dtypes(kind))

    with opdatabase.preserved():
        found = examine("linalg.lstsq", Refusing(op), CPU, torch.float32, None)
        words = "out of memory"
        broken = examine("linalg.lstsq", Refusing(op), CPU, torch.float32, None)
    assert (found.outcome, found.forward > 0, found.left_out > 0) == (Outcome.PASSED, True, True)
    assert found.why == f"{found.left_out}: {opjudging.exemptions()['linalg.lstsq', 'float32'].reason}"
    assert broken.outcome is Outcome.ERROR


def test_an_operator_that_a_device_refuses_as_a_whole_is_not_applicable() -> None:
    """With the row's reason; a device that has the kernel is examined."""

    class Missing(OfADevice):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(
                "Could not run 'aten::_sparse_mm_reduce_impl' with arguments from 'SparseCsrCUDA'"
            )

        def supported_dtypes(self, kind: str) -> set[torch.dtype]:
            return {torch.float32}

    op = opdatabase.load()["sparse.mm.reduce"]
    with opdatabase.preserved():
        found = examine("sparse.mm.reduce", Missing(op), CPU, torch.float32, None)
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert "has a kernel for the CPU alone" in found.reason
    assert run("sparse.mm.reduce").results[0].outcome is Outcome.PASSED


def kept(mean: torch.Tensor, output: float = 1.0) -> Computed:
    """Return what a batch normalisation gives: its output and what it keeps."""
    out = torch.tensor([output])
    return Computed((out, mean), {"output 0": out, "output 1": mean}, 0)


@pytest.mark.parametrize(
    ("mean", "output", "ok"),
    [
        (torch.zeros(1), 1.0, True),
        (torch.zeros(1, dtype=torch.float16), 1.0, True),
        (torch.zeros(1), 1.1, False),
    ],
)
def test_what_a_kernel_keeps_for_itself_may_have_any_form(mean: torch.Tensor, output: float, ok: bool) -> None:
    """Nothing on one device, float32 on another; the outputs that are promised are compared."""
    reference, private = kept(torch.zeros(0)), ("output 1",)
    actual = kept(mean, output)
    assert opjudging.form_fault(actual, reference, torch.float32, private=private) == ""
    found = opjudging.judgements(actual, reference, None, torch.float32, opjudging.Exemption(private=private))
    assert all(judgement.ok for judgement in found.values()) is ok
    assert "output 1" not in found


def test_what_a_kernel_keeps_is_compared_where_it_is_the_same_thing() -> None:
    """A mean of the right shape is a mean."""
    exemption = opjudging.Exemption(private=("output 1",))
    found = opjudging.judgements(kept(torch.ones(1)), kept(torch.full((1,), 2.0)), None, torch.float32, exemption)
    assert not found["output 1"].ok


def test_a_narrow_gradient_is_judged_as_what_it_is() -> None:
    """The gradient of float32 weights beside float64 numbers has the digits of float32."""
    exact, near, wrong = (Computed((), {"gradient": torch.tensor([1 + n])}, 1) for n in (0.0, 2e-7, 2e-6))
    assert opjudging.judgements(near, exact, None, torch.float64)["gradient"].ok
    assert not opjudging.judgements(wrong, exact, None, torch.float64)["gradient"].ok


def test_a_constant_in_float32_is_excused_by_a_row_and_no_more() -> None:
    """A sixth in float32 is 3e-8 off; a part in a million is not excused."""
    row = opjudging.exemptions()["nn.functional.hardsigmoid", "float64"]
    sixth = Computed((), {"output": torch.tensor([1 / 6], dtype=torch.float64)}, 0)
    for factor, ok in ((1 + 3e-8, True), (1 + 1e-6, False)):
        off = Computed((), {"output": sixth.values["output"] * factor}, 0)
        assert opjudging.judgements(off, sixth, None, torch.float64, row)["output"].ok is ok
        assert not opjudging.judgements(off, sixth, None, torch.float64)["output"].ok


def test_an_argument_that_names_a_card_names_the_device_that_is_examined() -> None:
    """The database has samples with device="cuda" on hosts with one; the reference is the CPU's all the same."""
    seen: list[Any] = []

    def like(x: torch.Tensor, *, device: Any, mode: str) -> torch.Tensor:
        seen.append((device, mode))
        return x

    sample = Sample(torch.ones(2), (), {"device": "cuda", "mode": "mean"})
    opdatabase.compute(ShapedOp("f", like, iter), sample, CPU, torch.float32, False)
    assert seen == [(CPU, "mean")]


def test_dtypes_that_stay_on_the_host_stay_there() -> None:
    """Indices that an operator reads on the CPU are not moved with the numbers."""
    seen: list[Any] = []

    def places(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        seen.extend((x.device.type, index.device.type))
        return x

    sample = Sample(torch.ones(2), (torch.tensor([1]),))
    opdatabase.compute(ShapedOp("f", places, iter), sample, torch.device("meta"), torch.float32, False, host=("int64",))
    assert seen == ["meta", "cpu"]


def test_a_stable_sort_is_not_excused_for_ties() -> None:
    """Torch promises the order of equal numbers there."""
    sample = Sample(torch.tensor([1.0, 1.0, 0.0]), (), {"stable": True})

    def last(x: torch.Tensor, **options: Any) -> torch.Tensor:
        return x.flip(0).argsort(**options).flip(0) if x.dtype is torch.float32 else x.argsort(**options)

    found = examine("argsort", ShapedOp("argsort", last, lambda _: iter([sample]), False), CPU, torch.float32, None)
    assert found.outcome is Outcome.FAILED


def test_an_unknown_operator_is_refused_with_a_suggestion() -> None:
    """A typo must not shrink the sweep."""
    with pytest.raises(Refusal, match=r"'adddmm' is not in .* operator database \(did you mean 'addmm'\?\)"):
        run("adddmm")


def test_operators_beyond_the_budget_are_not_run_and_not_ok() -> None:
    """A sweep that was cut short cannot look green."""
    found = sweep(CPU, torch.float32, samples=1, budget_s=-1, names=["exp", "add"])
    assert [r.outcome for r in found.results] == [Outcome.NOT_RUN] * 2
    assert not found.ok


def test_progress_is_reported_before_each_operator() -> None:
    """The display can name the operator that hangs."""
    seen: list[tuple[int, int, str]] = []
    sweep(CPU, torch.float32, samples=1, names=["exp", "add"], on_progress=lambda *step: seen.append(step))
    assert seen == [(0, 2, "exp"), (1, 2, "add")]


def test_two_sweeps_agree_to_the_bit_and_leave_the_random_state() -> None:
    """Samples come from a fixed seed whatever was drawn before, and the caller's stream is undisturbed."""
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = run("addmm", "nn.functional.conv2d", "linalg.solve")
    assert torch.equal(before, torch.get_rng_state())
    assert threads == torch.get_num_threads()
    torch.rand(3)
    assert first.results == run("addmm", "nn.functional.conv2d", "linalg.solve").results


def values(number: float) -> Computed:
    """Return a result of one output of two numbers."""
    return Computed((), {"output": torch.tensor([1.0, number], dtype=torch.float64)}, 0)


def test_the_cpu_in_the_same_dtype_widens_the_bound_up_to_the_cap() -> None:
    """Three times the CPU's error is accepted; without the anchor, or beyond the cap, it is not."""
    reference, actual, anchor = values(1.0), values(1 + 2e-5), values(1 + 1e-5)
    assert not opjudging.judgements(actual, reference, None, torch.float32)["output"].ok
    assert opjudging.judgements(actual, reference, anchor, torch.float32)["output"].ok
    assert not opjudging.judgements(values(1.001), reference, values(1.001), torch.float32)["output"].ok


def test_results_that_cancel_are_compared_absolutely() -> None:
    """A reference of 1e-16 where the truth is zero has no digit to compare, but a device's 0.1 is wrong."""
    nothing = Computed((), {"gradient": torch.tensor([1e-16], dtype=torch.float64)}, 1)
    noise = Computed((), {"gradient": torch.tensor([1e-7])}, 1)
    wrong = Computed((), {"gradient": torch.tensor([0.1])}, 1)
    assert opjudging.judgements(noise, nothing, noise, torch.float32)["gradient"].ok
    assert not opjudging.judgements(wrong, nothing, wrong, torch.float32)["gradient"].ok


def test_overflow_of_the_dtype_is_not_an_error() -> None:
    """Float16 rightly gives infinity where float64 has 1e6, and wrongly where float64 has 1e3."""
    infinite = Computed((), {"output": torch.tensor([float("inf")], dtype=torch.float16)}, 0)
    big, small = (Computed((), {"output": torch.tensor([n], dtype=torch.float64)}, 0) for n in (1e6, 1e3))
    assert opjudging.judgements(infinite, big, None, torch.float16)["output"].ok
    assert not opjudging.judgements(infinite, small, infinite, torch.float16)["output"].ok


def test_indices_are_right_or_wrong() -> None:
    """No tolerance applies to whole numbers, however large."""
    right, wrong = (Computed((), {"output": torch.tensor([10**9, n])}, 0) for n in (1, 2))
    assert not opjudging.judgements(wrong, right, wrong, torch.float32)["output"].ok


@pytest.mark.parametrize(
    "view",
    [
        torch.arange(24.0).reshape(4, 6)[1:, ::2],
        torch.arange(3.0).expand(4, 3),
        torch.arange(12.0).reshape(4, 3)[:1].expand(4, 3),
        torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2),
        torch.empty(0, 3),
        torch.tensor(2.0),
    ],
)
def test_samples_keep_their_strides(view: torch.Tensor) -> None:
    """What breaks devices is layout: views arrive with strides, offset and numbers unchanged."""
    copy = relocate(view.requires_grad_(), CPU, torch.float64)
    assert (copy.stride(), copy.storage_offset(), copy.dtype) == (
        view.stride(),
        view.storage_offset(),
        torch.float64,
    )
    assert copy.is_leaf
    assert copy.requires_grad
    assert torch.equal(copy.float(), view)
    assert copy.data_ptr() != view.data_ptr() or view.numel() == 0


def test_cotangents_are_uneven_and_the_same_numbers_in_every_dtype() -> None:
    """All ones would hide wrong broadcasting and be orthogonal to the gradients of softmax and norms."""
    narrow, wide = (cotangent(torch.empty(7, dtype=dtype), torch.bfloat16) for dtype in (torch.bfloat16, torch.float64))
    assert torch.equal(narrow.double(), wide)
    assert len(set(wide.tolist())) == 7
    assert wide.min() < 0 < wide.max()


def test_each_exemption_names_operators_that_exist() -> None:
    """A row for an operator that torch has renamed is dead weight that nobody would notice."""
    assert {name for name, _ in opjudging.exemptions()} <= set(opdatabase.load())


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
    """One sentence with file and key."""
    (tmp_path / "fixtures").mkdir()
    file = tmp_path / "fixtures" / "operators.toml"
    file.write_text(f"{ROW}{row}\n", encoding="utf-8")
    monkeypatch.setattr(opjudging, "ROOT", tmp_path)
    with pytest.raises(Refusal, match=r"operators\.toml: 'operator\[[01]\]") as refusal:
        opjudging.exemptions.__wrapped__()
    assert said in str(refusal.value)


def in_another_process(code: str) -> str:
    """Run Python code from a clean start; it must end well and print nothing to stderr."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_missing_test_package_is_one_sentence() -> None:
    """Torch's test suite needs expecttest, which a vendor's container may lack."""
    said = in_another_process(
        "import sys; sys.modules['expecttest'] = None\n"
        "from stackproof import opdatabase, errors\n"
        "try: opdatabase.load()\n"
        "except errors.Refusal as refusal: print(refusal)"
    )
    assert said.startswith("torch's operator database needs the package 'expecttest', which is not installed; run")


STATE = """
import os, random, sys, warnings
import numpy, torch
from stackproof import opdatabase
sys.argv = ["stackproof", "smoke", "--seed", "not a number"]
os.environ["PYTORCH_OPINFO_SAMPLE_INPUT_INDEX"] = "1"
def state():
    return (
        dict(os.environ), list(sys.argv), list(sys.path), len(warnings.filters),
        random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().tolist(),
        torch.get_default_dtype(), torch.backends.flags_frozen(), torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(),
        torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__,
    )
before = state()
assert len(opdatabase.load()) > 600
print([n for n, (old, new) in enumerate(zip(before, state())) if old != new])
"""


def test_loading_the_database_leaves_the_process_as_it_was() -> None:
    """Importing torch's test suite reads our arguments and freezes torch's flags; nothing of that remains."""
    assert in_another_process(STATE) == "[]"

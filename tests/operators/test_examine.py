"""One operator under examination: every way to end, and what is excused and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from stackproof.operators import compare, compute, database
from stackproof.operators import examine as examining
from stackproof.operators.compute import Computed
from stackproof.operators.examine import Outcome, examine

from .faults import CPU, Change, Fault, Sample, ShapedOp, broken, run, scaled, with_nan, wrap


def test_an_exception_becomes_an_error_with_its_first_line() -> None:
    with Fault("aten.exp.default", broken):
        (result,) = run("exp")
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
    wrap(monkeypatch, "add", change)
    (result,) = run("add")
    assert result.outcome is Outcome.FAILED
    assert said in result.reason


ULPS = 64 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize(
    "name",
    ["exp", "add", "sum", "mm", "addmm", "softmax", "nn.functional.layer_norm", "nn.functional.conv2d",
     "cumsum", "nn.functional.batch_norm", "linalg.solve", "linalg.vector_norm"],
)  # fmt: skip
def test_an_error_of_64_ulp_is_flagged(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    card = torch.device("cpu", 0)  # the reference is "cpu": a device that errs where the CPU does not

    def lossy(op: Any, sample: Any, device: torch.device, *args: Any, **kwargs: Any) -> Computed:
        made = compute.compute(op, sample, device, *args, **kwargs)
        if device.index is None:
            return made
        return Computed(made.outputs, {name: value * (1 + ULPS) for name, value in made.values.items()}, made.gradients)

    monkeypatch.setattr(examining, "compute", lossy)
    with database.preserved():
        result = examine(name, database.load()[name], card, torch.float32, None)
    assert result.outcome is Outcome.FAILED
    assert "exceeds the bound" in result.reason


def test_another_order_of_adding_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def samples(dtype: torch.dtype) -> Iterator[Sample]:
        return iter([Sample(torch.full((600,), 0.1, dtype=dtype), (0,))])

    def running(x: torch.Tensor, dim: int) -> torch.Tensor:
        total, sums = torch.zeros((), dtype=x.dtype), []
        for number in x.unbind(dim):
            sums.append(total := total + number)
        return torch.stack(sums, dim)

    def narrow(op: Any, sample: Any, device: torch.device, *args: Any, **kwargs: Any) -> Computed:
        chosen = op if device.index is None else ShapedOp("cumsum", running, samples, False)
        return compute.compute(chosen, sample, device, *args, **kwargs)

    monkeypatch.setattr(examining, "compute", narrow)
    op = ShapedOp("cumsum", torch.cumsum, samples, False)
    found = examine("cumsum", op, torch.device("cpu", 0), torch.float32, None)
    assert found.worst is not None
    assert found.worst.error > 4 * torch.finfo(torch.float32).eps
    assert (found.outcome, found.conditioned) == (Outcome.PASSED, 1)


def test_random_operators_are_compared_in_form() -> None:
    (result,) = run("rand_like")
    assert result.outcome is Outcome.FORM
    assert "draws random numbers" in result.reason


def test_nan_from_a_random_operator_is_flagged() -> None:
    with Fault("aten.bernoulli.default", with_nan):
        (result,) = run("bernoulli")
    assert result.outcome is Outcome.FAILED


@pytest.mark.slow
def test_attention_is_not_excused_as_random() -> None:
    kernel = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    with Fault(kernel, scaled) as fault:
        (result,) = run("nn.functional.scaled_dot_product_attention", samples=None)
    assert fault.fired > 0
    assert result.outcome is Outcome.FAILED


def test_exempted_operators_say_why() -> None:
    empty, jiterator = run("empty", "jiterator_unary")
    assert (empty.outcome, jiterator.outcome) == (Outcome.FORM, Outcome.NOT_APPLICABLE)
    assert "uninitialised memory" in empty.reason
    assert "no CPU kernel" in jiterator.reason


def test_an_unsupported_dtype_is_not_applicable() -> None:
    (result,) = run("bitwise_not")
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, "the database lists no float32 for cpu")


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
    op = OfADevice(database.load()["nansum"])
    found = examine("nansum", op, torch.device("meta"), torch.complex64, None)
    assert (found.outcome, found.reason) == (
        Outcome.NOT_APPLICABLE,
        "the database lists no complex64 for the CPU: nothing to compare with",
    )


def test_samples_that_a_device_refuses_are_left_out_and_say_why() -> None:
    words = "`driver` other than `gels` is not supported on CUDA"
    op = database.load()["linalg.lstsq"]

    class Refusing(OfADevice):
        def __call__(self, *args: Any, driver: str, **kwargs: Any) -> Any:
            if driver != "gels":
                raise RuntimeError(f"torch.linalg.lstsq: {words}")
            return op(*args, driver=driver, **kwargs)

        def supported_dtypes(self, kind: str) -> set[torch.dtype]:
            return set(op.supported_dtypes(kind))

    with database.preserved():
        found = examine("linalg.lstsq", Refusing(op), CPU, torch.float32, None)
        words = "out of memory"
        broken = examine("linalg.lstsq", Refusing(op), CPU, torch.float32, None)
    assert (found.outcome, found.forward > 0, found.left_out.total() > 0) == (Outcome.PASSED, True, True)
    assert [*found.left_out] == [compare.exemptions()["linalg.lstsq", "float32"].reason]
    assert broken.outcome is Outcome.ERROR


def test_an_operator_that_a_device_refuses_as_a_whole_is_not_applicable() -> None:
    class Missing(OfADevice):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(
                "Could not run 'aten::_sparse_mm_reduce_impl' with arguments from 'SparseCsrCUDA'"
            )

        def supported_dtypes(self, kind: str) -> set[torch.dtype]:
            return {torch.float32}

    op = database.load()["sparse.mm.reduce"]
    with database.preserved():
        found = examine("sparse.mm.reduce", Missing(op), CPU, torch.float32, None)
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert "has a kernel for the CPU alone" in found.reason
    assert run("sparse.mm.reduce")[0].outcome is Outcome.PASSED


def test_a_stable_sort_is_not_excused_for_ties() -> None:
    sample = Sample(torch.tensor([1.0, 1.0, 0.0]), (), {"stable": True})

    def last(x: torch.Tensor, **options: Any) -> torch.Tensor:
        return x.flip(0).argsort(**options).flip(0) if x.dtype is torch.float32 else x.argsort(**options)

    found = examine("argsort", ShapedOp("argsort", last, lambda _: iter([sample]), False), CPU, torch.float32, None)
    assert found.outcome is Outcome.FAILED

"""The sweep: what is excused and what is not, by faults in kernels and by operators of our own, and code that repeats a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from stackproof.base.errors import Refusal
from stackproof.device.devices import HOST
from stackproof.operators import database, engine
from stackproof.operators.judges import samples
from stackproof.record.checks import CheckFailed, NotApplicable
from stackproof.record.records import Figure

from ..faults import Change, Fault, Sample, ShapedOp, broken, scaled, with_nan, wrap, wrong_if_odd

INF, MATRIX = float("inf"), torch.tensor([[1e4, 1e4], [1.0, 2.0]])
TRIPLES = torch.arange(1.0, 41.0).repeat_interleave(3)


def check(name: str, dtype: torch.dtype = torch.float32) -> dict[str, Figure]:
    """Return the figures of a check that passes."""
    figures: dict[str, Figure] = {}
    engine.check("samples", name, HOST, figures, [dtype])
    return figures


def wrong(op: Any, dtype: torch.dtype = torch.float32) -> list[str]:
    """Return what is wrong with an operator of our own, sample by sample."""
    point = engine.OperatorPoint(op.name, op, dtype, HOST.torch, samples.torch)  # type: ignore[arg-type]
    with database.preserved():
        return [relation.wrong() for relation in samples.relations(point)]


def of(function: Any, *inputs: Any, **options: Any) -> ShapedOp:
    """Return an operator of one sample; tensors are cast to the dtype that is asked."""

    def made(dtype: torch.dtype) -> Iterator[Sample]:
        cast = [x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
        yield Sample(cast[0], tuple(cast[1:]), options)

    return ShapedOp("f", function, made, False)


def narrowly(change: Callable[[torch.Tensor], Any], function: Any) -> Any:
    """Return the function with its results changed where they are of a narrow dtype."""

    def changed(x: torch.Tensor, *more: Any, **options: Any) -> Any:
        return change(x) if x.dtype is not torch.float64 else function(x, *more, **options)

    return changed


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
        ("exp", "aten.exp.default", lambda out: out * (1 + 64 * 2.0**-23)),
        ("add", "aten.add.Tensor", wrong_if_odd),
        ("linalg.svdvals", "aten._linalg_svd.default", scaled),
        ("linalg.lu", "aten.linalg_lu.default", scaled),
        ("bernoulli", "aten.bernoulli.default", with_nan),
    ],
)
def test_a_wrong_kernel_is_flagged_by_operator(name: str, kernel: str, change: Change) -> None:
    with (
        Fault(kernel, change) as fault,
        pytest.raises(CheckFailed, match=f"{name} in float32 on cpu.*, sample .* instead of"),
    ):
        check(name)
    assert fault.fired > 0


def test_a_kernel_that_raises_is_flagged() -> None:
    with (
        Fault("aten.addmm.default", broken),
        pytest.raises(CheckFailed, match="raises RuntimeError: no kernel image is available"),
    ):
        check("addmm")


def test_what_is_not_implemented_is_flagged() -> None:
    def missing(x: torch.Tensor) -> Any:
        raise NotImplementedError("Could not run 'aten::f'")

    assert wrong(of(narrowly(missing, torch.sin), torch.ones(3))) == [
        "raises NotImplementedError: Could not run 'aten::f'"
    ]
    assert "raises" in wrong(of(missing, torch.ones(3)))[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: out.to(torch.bfloat16), "is torch.bfloat16 instead of torch.float32"),
        (lambda out: out.to(torch.float64), "is torch.float64 instead of torch.float32"),
        (lambda out: out[..., None], "has shape"),
        (lambda out: (out, out), "results instead of"),
        (lambda out: None, "results instead of"),
        (lambda out: out.detach(), "without gradient of input 0"),
    ],
)
def test_a_wrong_form_is_flagged(monkeypatch: pytest.MonkeyPatch, change: Change, message: str) -> None:
    wrap(monkeypatch, "add", change)
    with pytest.raises(CheckFailed, match=message):
        check("add")


@pytest.mark.parametrize(
    ("name", "dtype", "note"),
    [
        ("rand_like", torch.float32, "in form only: aten.rand_like.default draws random numbers"),
        ("linalg.lstsq", torch.float32, "relations"),
        ("native_batch_norm", torch.bfloat16, "relations"),
        ("cov", torch.complex64, "relations"),
        ("empty", torch.float16, "by its row: the contents are uninitialised memory"),
    ],
)
def test_a_right_operator_says_what_was_seen(name: str, dtype: torch.dtype, note: str) -> None:
    figures = check(name, dtype)
    assert note in figures and "relations hold" in str(figures["summary"])


@pytest.mark.slow
def test_attention_is_not_excused_as_random() -> None:
    with Fault("aten._scaled_dot_product_flash_attention_for_cpu.default", scaled) as fault, pytest.raises(CheckFailed):
        check("nn.functional.scaled_dot_product_attention")
    assert fault.fired > 0


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [
        ("bitwise_not", torch.float32, "the database lists no float32 for cpu"),
        ("jiterator_unary", torch.float16, "there is no CPU kernel to compare with"),
    ],
)
def test_what_makes_no_sense_is_not_applicable(name: str, dtype: torch.dtype, message: str) -> None:
    with pytest.raises(NotApplicable, match=message):
        check(name, dtype)


def test_a_refusal_that_a_row_knows_leaves_a_sample_out_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    row = samples.Exemption(("f",), ("float32",), "the drivers of another device", refuses="driver other than gels")
    monkeypatch.setattr(samples, "exemptions", lambda: (row,))

    def refusing(words: str) -> Any:
        def refuse(x: torch.Tensor) -> Any:
            raise RuntimeError(words)

        return of(narrowly(refuse, torch.sin), torch.ones(3))

    assert "raises" in wrong(refusing("out of memory"))[0]
    with pytest.raises(samples.UnusableError, match="drivers of another device"):
        wrong(refusing("driver other than gels is not supported"))


@pytest.mark.parametrize(
    ("op", "dtype", "right"),
    [
        # ill-conditioned, and off by what one ulp of the input does
        (of(narrowly(lambda x: x.double().sub(2**-9).log().to(x.dtype), torch.log), torch.tensor([1 + 2**-7])), torch.bfloat16, True),
        (of(narrowly(lambda x: x * 0 + 0.2, torch.log), torch.tensor([1 + 2**-7])), torch.bfloat16, False),
        # another order of adding
        (of(narrowly(lambda x: x.unbind()[0] * 600 + 0.02 * x.max() ** 3, torch.sum), torch.full((600,), 0.1)), torch.float32, True),
        (of(narrowly(lambda x: x[0] * 600 + 0.01, torch.sum), torch.full((600,), 0.1)), torch.float32, False),
        # a matrix is factorised to a small error of the whole
        (of(narrowly(lambda x: torch.linalg.svdvals(x) + 1e-3, torch.linalg.svdvals), MATRIX), torch.float32, True),
        # another choice among equal numbers, and of another number
        (of(narrowly(lambda x: 3 - x.flip(0).argmax(), torch.argmax), torch.tensor([1.0, 3, 3, 2])), torch.float32, True),
        (of(narrowly(lambda x: x.argmin(), torch.argmax), torch.tensor([1.0, 3, 3, 2])), torch.float32, False),
        # equal numbers in another order, and numbers that are none
        (of(narrowly(lambda x: x.argsort(stable=True).view(-1, 3).roll(1, 1).flatten(), torch.argsort), TRIPLES), torch.float32, True),
        (of(narrowly(lambda x: x.argsort(stable=True).roll(1), torch.argsort), TRIPLES), torch.float32, False),
        # a stable sort has no choice
        (
            of(narrowly(lambda x, **_: torch.tensor([2, 1, 0]), torch.argsort), torch.tensor([1.0, 1, 0]), stable=True),
            torch.float32, False,
        ),
        # overflow where rounding overflows, next to the largest number, and elsewhere
        (of(narrowly(lambda x: x * INF, lambda x: (x * x).sqrt()), torch.tensor([1e3])), torch.float16, True),
        (of(narrowly(lambda x: x * INF, torch.clone), torch.tensor([6e4])), torch.float16, True),
        (of(narrowly(lambda x: x * INF, torch.clone), torch.tensor([1e3])), torch.float16, False),
        # results that cancel are as large as nothing
        (of(narrowly(lambda x: x * 0 + 1e-7, lambda x: x * 0 + 1e-16), torch.ones(1)), torch.float32, True),
        (of(narrowly(lambda x: x * 0 + 0.1, lambda x: x * 0 + 1e-16), torch.ones(1)), torch.float32, False),
        # indices are right or wrong, however large
        (of(narrowly(lambda x: torch.tensor([10**9, 2]), lambda x: torch.tensor([10**9, 1])), torch.ones(1)), torch.float32, False),
    ],
)  # fmt: skip
def test_what_rounding_may_do_is_excused_and_no_more(op: ShapedOp, dtype: torch.dtype, right: bool) -> None:
    (message,) = wrong(op, dtype)
    assert (message == "") is right


def test_gradients_that_are_fed_in_are_moved_too() -> None:
    op = replace(of(torch.clone, torch.ones(1)), differentiable=True)
    (relation,) = samples.relations(engine.OperatorPoint("f", op, torch.float32, HOST.torch, samples.torch))  # type: ignore[arg-type]
    assert relation.others is not None
    line = torch.ones(5, requires_grad=True)
    first, second = (relation.others(draw)(line)["gradient of input"] for draw in (1, 2))
    assert not torch.equal(first, second) and torch.allclose(first, second, rtol=1e-6)


def chosen(factor: float) -> Any:
    """Return `linalg.lu` that, in float32, factorises so many times the matrix by other pivots."""

    def other(x: torch.Tensor) -> Any:
        permutation, lower, upper = torch.linalg.lu(x.flip(0) * factor)
        return permutation.flip(0), lower, upper

    return narrowly(other, torch.linalg.lu)


def test_other_pivots_are_right_and_factors_of_another_matrix_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = (row for row in samples.exemptions() if row.factors)
    assert set(row.names) == {name for name in database.load() if name in ("lu", "linalg.lu") or "lu_factor" in name}
    monkeypatch.setattr(
        samples, "exemptions", lambda: (samples.Exemption(("f",), ("float32",), "pivots", factors=True),)
    )
    matrix = torch.tensor([[2.0, 1.0, 3.0], [2.0, 5.0, 6.0], [2.0, 8.0, 10.0]])
    assert wrong(of(chosen(1.0), matrix)) == [""]
    assert "instead of" in wrong(of(chosen(1.001), matrix))[0]


@pytest.mark.parametrize("factorise", [torch.linalg.lu, torch.linalg.lu_factor, torch.linalg.lu_factor_ex])
def test_factors_make_the_matrix_again(factorise: Any) -> None:
    matrix = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]], dtype=torch.float64)
    assert torch.allclose(samples.product(factorise(matrix)), matrix)


def test_what_a_kernel_keeps_may_have_any_form_and_is_compared_where_it_is_the_same_thing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = samples.Exemption(("f",), ("float32",), "kept for its own backward", private=("output 1",))
    monkeypatch.setattr(samples, "exemptions", lambda: (row,))

    def keeps(kept: torch.Tensor, share: float = 1.0) -> Any:
        return of(
            narrowly(lambda x: (x * share, kept), lambda x: (x, torch.ones(2, dtype=torch.float64))), torch.ones(3)
        )

    assert wrong(keeps(torch.zeros(0))) == wrong(keeps(torch.ones(2))) == [""]
    assert wrong(keeps(torch.zeros(2))) != [""] and wrong(keeps(torch.zeros(0), 1.1)) != [""]


def test_each_exemption_names_operators_that_exist() -> None:
    assert {name for row in samples.exemptions() for name in row.names} <= set(database.load())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('compare = "nothin"', "did you mean 'nothing'"),
        ('compare = "form"\ndtype = "float32"', "is not a known key"),
    ],
)
def test_a_bad_exemption_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, row: str, message: str) -> None:
    file = tmp_path / "operators.toml"
    file.write_text(
        f'[[operator]]\nnames = ["exp"]\ndtypes = ["float32"]\nreason = "because"\n{row}\n', encoding="utf-8"
    )
    monkeypatch.setattr(samples, "DATA", tmp_path)
    samples.exemptions.cache_clear()
    with pytest.raises(Refusal, match=message):
        samples.exemptions()


@pytest.mark.parametrize(
    ("name", "dtype", "kernel", "holds"),
    [
        ("addmm", torch.bfloat16, "aten.addmm.default", "torch.tensor(["),
        ("tanh", torch.float32, "aten.tanh_backward.default", "operator = torch.tanh"),
        ("linalg.svd", torch.float32, "aten._linalg_svd.default", "of the operator database of this very torch"),
    ],
)
def test_the_code_repeats_the_failure(name: str, dtype: torch.dtype, kernel: str, holds: str) -> None:
    figures: dict[str, Figure] = {}
    with Fault(kernel, lambda out: out * 1.25, dtype), pytest.raises(CheckFailed, match="'repro' is code"):
        engine.check("samples", name, HOST, figures, [dtype])
    code = str(figures["repro"])
    assert holds in code and "stackproof" not in code

    def agrees() -> bool:
        names: dict[str, Any] = {"__name__": "pasted"}
        with database.preserved():
            exec(code, names)
        return all(
            torch.allclose(x.double(), y.double(), rtol=0.05, atol=1e-3)
            for x, y in zip(names["first"], names["second"], strict=True)
        )

    assert agrees()
    with Fault(kernel, lambda out: out * 1.25, dtype):
        assert not agrees()


def test_two_sweeps_leave_the_random_state() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    check("addmm")
    assert torch.equal(before, torch.get_rng_state()) and threads == torch.get_num_threads()

"""Each judge turns red by a planted fault, says it well, and gives code that can be pasted; and none does without one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stackproof.device.devices import HOST
from stackproof.operators import engine
from stackproof.operators.database import preserved
from stackproof.operators.relation import Relation, moved
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure


class Planted(TorchDispatchMode):
    """Changes what a kernel returns where a condition on its arguments holds."""

    def __init__(self, kernel: str, change: Callable[..., Any], when: Callable[..., bool]) -> None:
        super().__init__()
        self.kernel, self.change, self.when = kernel, change, when

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.kernel in str(func) and self.when(*args):
            return self.change(result)
        return result


def wrong(judge: str, name: str, kernel: str, change: Callable[..., Any], when: Callable[..., bool]) -> tuple[str, str]:
    """Return the sentence and the code of a check under a planted fault."""
    figures: dict[str, Figure] = {}
    with pytest.raises(CheckFailed) as failed, Planted(kernel, change, when):
        engine.check(judge, name, HOST, figures)
    return str(failed.value), str(figures["repro"])


def _near(x: torch.Tensor, number: float) -> bool:
    """Whether all of a float32 tensor is near a number."""
    return x.dtype is torch.float32 and bool(((x - number).abs() < 99).all())


@pytest.mark.parametrize(
    ("judge", "name", "kernel", "change", "when", "says"),
    [
        ("elementwise", "exp", "exp.default", lambda out: out * 1.001, lambda x: x.numel() > 1, "alone as in a row"),
        (
            "company",
            "linalg.inv",
            "linalg_inv_ex",
            lambda out: (out[0] * 1.01, out[1]),
            lambda x: x.dim() > 2 and len(x) > 60,
            "in a batch",
        ),
        (
            "lists",
            "mul",
            "_foreach_mul.List",
            lambda out: [x * 1.01 for x in out],
            lambda *_: True,
            "mixed, with empty",
        ),
        ("parts", "sum", "sum.", lambda out: out * 1.001, lambda x, *_: x.numel() > 1000, "numbers of ["),
        (
            "sizes",
            "take",
            "put.default",
            lambda out: out * 0.98,
            lambda x, i, *_: x.dtype is torch.float32 and len(i) > 64,
            "gradient of argument 0",
        ),
        (
            "exact",
            "pow",
            "pow.Tensor_Scalar",
            lambda out: out.double().long(),
            lambda x, _: x.dtype is torch.int64,
            "large whole numbers",
        ),
        ("elementwise", "ceil", "ceil.default", lambda out: out + 0.0, lambda *_: True, "as NumPy has it"),
        (
            "elementwise",
            "sqrt",
            "sqrt.default",
            lambda out: torch.where(out.real == 0, 1j * out.abs(), out),
            lambda x: x.is_complex(),
            "conjugate",
        ),
        (
            "elementwise",
            "remainder",
            "remainder.Tensor",
            lambda out: out.where(~out.isinf(), torch.nan),
            lambda *_: True,
            "as NumPy has it, ordinary numbers",
        ),
        (
            "elementwise",
            "lerp",
            "lerp.",
            lambda out: out * 1.001,
            lambda x, *_: x.dtype is torch.float32,
            "narrow as wide, ordinary numbers",
        ),
        ("elementwise", "sub", "rsub.Scalar", lambda out: out + 1, lambda *_: True, "with Python's 3"),
        (
            "elementwise",
            "clamp",
            "clamp.default",
            lambda out: out.nan_to_num(0.5),
            lambda *_: True,
            "with Python's 3",
        ),
        (
            "elementwise",
            "nn.functional.hardswish",
            "hardswish_.default",
            lambda out: out.clamp_(max=3),
            lambda *_: True,
            "in place",
        ),
        (
            "spellings",
            "masked_fill",
            "masked_fill_.Scalar",
            lambda out: out.mul_(2),
            lambda x, *_: not x.is_contiguous(),
            "in place transposed",
        ),
        (
            "regimes",
            "amax",
            "amax.default",
            lambda out: out.nan_to_num(0.5),
            lambda x, *_: x.shape[-1:] == (39,),
            "a NaN where it counts",
        ),
        ("exact", "addmm", "addmm.default", lambda out: out + torch.nan, lambda x, *_: x.isnan().all(), "beta=0"),
        (
            "references",
            "searchsorted",
            "searchsorted.Tensor",
            lambda out: out + 1,
            lambda *arguments: len(arguments) > 1,
            "as defined",
        ),
        ("namesakes", "roll", "roll.default", lambda out: out * 1.001, lambda *_: True, "as NumPy has it"),
        (
            "regimes",
            "var",
            "var.correction",
            lambda out: out + 1,
            lambda x, *_: _near(x, 4096.0),
            "shifted far away",
        ),
        ("regimes", "amax", "amax.", lambda out: out.nan_to_num(0.0), lambda *_: True, "a NaN where it counts"),
        (
            "residuals",
            "linalg.solve",
            "_linalg_solve_ex",
            lambda out: (out[0] * 1.01, *out[1:]),
            lambda *_: True,
            "rebuilds",
        ),
        (
            "residuals",
            "linalg.lu",
            "linalg_lu.default",
            lambda out: (out[0], out[1].tril(-1) * 3e-4 + out[1], out[2]),
            lambda *_: True,
            "rebuilds",
        ),
        ("sizes", "sin", "sin.default", lambda out: out * 1.001, lambda x: x.numel() == 65_537, "N=65537"),
        ("spellings", "sin", "sin_.default", lambda out: out.mul_(1.01), lambda *_: True, "in place"),
        ("sparse", "neg", "_coalesce", lambda out: out * 2, lambda *_: True, "was coalesced"),
        ("again", "sin", "sin.d", lambda out: out * 1.01, lambda _: torch.get_num_threads() > 1, "threads as on one"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_fault_is_named(judge: str, name: str, kernel: str, change: Any, when: Any, says: str) -> None:
    sentence, code = wrong(judge, name, kernel, change, when)
    assert sentence.startswith(f"{name} in ") and says in sentence and "instead of" in sentence
    assert f"operator = torch.{name}" in code and "print(first)" in code
    compile(code, "repro", "exec")


def test_every_order_of_a_norm_over_a_list_is_asked() -> None:
    for order in (1, torch.inf):
        plant = (lambda out: [x * 1.01 for x in out], lambda _, own, *__, order=order: own == order)
        assert f"ord={order}" in wrong("lists", "norm", "_foreach_norm.Scalar", *plant)[0]


@pytest.mark.parametrize(
    "case",
    [
        ("elementwise", "exp"),
        ("namesakes", "searchsorted"),
        ("regimes", "cdist"),
        ("parts", "sum"),
        ("residuals", "linalg.solve"),
        ("derivatives", "tanh"),
        ("draws", "randint below 3000000000"),
        ("sizes", "bmm"),
        ("modules", "LeakyReLU"),
        ("optimisers", "Adagrad"),
        ("draws", "multinomial"),
        ("sparse", "neg"),
    ],
)
def test_a_right_operator_passes(case: tuple[str, str]) -> None:
    figures: dict[str, Figure] = {}
    engine.check(*case, HOST, figures)
    assert "relations hold" in str(figures["summary"]) and int(figures["relations"]) > 0


def red(judge: str, name: str) -> set[str]:
    with preserved():
        return {relation.says for _, relation, _ in engine.faults(judge, name, HOST.torch)}


def test_an_option_that_a_module_loses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.LeakyReLU, "forward", lambda _, x: torch.nn.functional.leaky_relu(x))
    assert red("modules", "LeakyReLU") >= {"with negative_slope=1.01"}
    with Planted("hardswish_.default", lambda out: out.clamp_(max=1), lambda *_: True):
        assert red("modules", "Hardswish") == {"with inplace=True"}


def test_an_option_that_an_optimiser_loses_is_seen_as_is_a_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[torch.optim.Adagrad.__module__]
    step = module._multi_tensor_adagrad

    def lost(*arguments: Any, **options: Any) -> None:
        step(*arguments, **{**options, "lr_decay": 0.0, "maximize": False})

    monkeypatch.setattr(module, "_multi_tensor_adagrad", lost)
    assert red("optimisers", "Adagrad") >= {"foreach, each option changes something", "foreach, upwards"}


class _Deaf(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **{name: value for name, value in (kwargs or {}).items() if name != "generator"})


def test_a_generator_that_is_ignored_is_seen() -> None:
    with _Deaf():
        assert red("draws", "multinomial") == {"from a generator that is given"}


class _Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *fed: torch.Tensor) -> torch.Tensor:
        return fed[0] / 2


def test_a_wrong_gradient_is_a_derivative_that_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    op = engine.database()["sin"]
    monkeypatch.setattr(op, "op", _Half.apply)
    monkeypatch.setattr(op, "supports_forward_ad", False)
    with preserved():
        failures = [relation.says for _, relation, _ in engine.faults("derivatives", "sin", HOST.torch)]
    assert "reverse mode as the difference quotient" in failures


def test_the_points_are_the_same_in_every_run() -> None:
    def drawn() -> Iterator[Any]:
        for point in engine.points("again", "add", HOST.torch):
            yield [call.inputs[0].tolist() for call in point.samples(2)]

    with preserved():
        assert list(drawn()) == list(drawn())


def test_every_row_of_what_is_known_has_a_link_and_asks_a_judge_that_is_there() -> None:
    assert {row.judge for row in engine.known()} <= {*engine.JUDGES, "*"}
    assert [row for row in engine.known() if not row.link.startswith("https://") or not row.reason] == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_numbers_of_every_dtype_are_moved_by_opposite_pairs(dtype: torch.dtype) -> None:
    line = torch.linspace(1, 2, 9, dtype=dtype)
    up, down = (moved(line, torch.finfo(dtype).eps, draw) - line for draw in (0, 1))
    assert ((up * down) < 0).all()
    zeros = torch.tensor([0.0, -0.0], dtype=dtype)
    assert [moved(zeros, 0.1, draw).signbit().tolist() for draw in range(4)] == [[False, True]] * 4
    assert moved(torch.tensor([0.0, 1.0], dtype=dtype), 0.1, 0, normwise=True)[0] != 0


def test_code_for_a_card_makes_its_arguments_there() -> None:
    made = Relation("says", (torch.ones(2),), {}, torch.sin, torch.sin, "first = second = operator(*arguments)")
    assert 'torch.set_default_device("cuda:1")' in made.program("torch.sin", torch.device("cuda", 1))
    assert "device" not in made.program("torch.sin", HOST.torch)

"""The replay: equal bits on equal cards, an error in any product is seen, and what is right is never called odd."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from stackproof.device import devices, threads
from stackproof.extras.fleet import plan, work
from stackproof.extras.fleet.plan import ReplaySize
from stackproof.extras.fleet.work import ReplayedKind, ReplayKind
from stackproof.record.records import Verdict

HOST = devices.HOST
SMALL = ReplaySize(4, 16)
ALL = [
    dataclasses.replace(kind, size=SMALL)
    for kind in work.kinds(plan.table().replay, "tiny", ("float64", "float32", "bfloat16", "float16"))
]
KIND = next(kind for kind in ALL if kind.name == "product-float32")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two runs between two looks at the clock, on one thread; torch imports its compiler to be deterministic, for seconds."""
    monkeypatch.setattr(work, "BLOCK", 2)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *_, **__: None)
    with threads.chosen("tiny"):
        yield


def told(kind: ReplayKind = KIND) -> ReplayedKind:
    """Replay a kind for a moment."""
    with work.deterministic():
        found = work.cold(kind, HOST, 0.0)
        work.hot(found, HOST, 0.0)
    return found


def test_every_kind_repeats_itself() -> None:
    seen = [told(kind) for kind in ALL]
    assert [one.odd for one in seen] == [0] * len(ALL)
    assert len({work.digest(one.first) for one in seen}) == len(ALL)
    assert {kind.pattern for kind in ALL} == set(work.PATTERNS) and {kind.kernel for kind in ALL} == set(work.KERNELS)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.name}-{kind.pattern}")
def test_factors_are_numbers_of_their_pattern(kind: ReplayKind) -> None:
    one, other = (work.factors(kind, HOST) for _ in range(2))
    assert all(torch.equal(left, right) and left.isfinite().all() for left, right in zip(one, other, strict=True))
    assert all(len(left.unique()) > 1 and left.dtype is getattr(torch, kind.dtype) for left in one)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_any_bit_of_any_number_changes_a_digest(dtype: torch.dtype) -> None:
    result = torch.randn(4, 8, 8).to(dtype)
    before = work.digests(result)
    for place in (0, 17, 63):
        for bit in range(8 * result.element_size()):
            spoilt = result.clone()
            spoilt.view(torch.uint8).view(4, -1)[2, place * result.element_size() + bit // 8] ^= 1 << bit % 8
            assert (work.digests(spoilt) != before).tolist() == [False, False, True, False]


def test_a_run_that_differs_is_counted_and_one_of_the_first_too(monkeypatch: pytest.MonkeyPatch) -> None:
    right = work.KERNELS["product"]
    for odd in range(5):
        runs = iter(range(1000))

        def sometimes(*factors: torch.Tensor, odd: int = odd, runs: object = runs) -> torch.Tensor:
            result = right.compute(*factors)
            if next(runs) == odd:  # type: ignore[call-overload]
                result[3, 0, 0] += 1e-3
            return result

        monkeypatch.setitem(work.KERNELS, "product", work.ReplayKernel(right.shapes, sometimes))
        seen = told()
        assert seen.odd == 1
        check = seen.check(0)
        assert check.verdict is Verdict.FAILED and check.figures["odd"] == 1
        monkeypatch.setitem(work.KERNELS, "product", right)
        assert check.figures["digest"] == told().check(0).figures["digest"]


def test_a_card_that_is_always_wrong_has_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    right, before = work.KERNELS["product"], told()
    wrong = work.ReplayKernel(right.shapes, lambda *factors: right.compute(*factors) * (1 + 2**-20))
    monkeypatch.setitem(work.KERNELS, "product", wrong)
    after = told()
    assert after.odd == 0 and work.digest(after.first) != work.digest(before.first)


def test_what_a_stack_cannot_compute_is_left_out() -> None:
    assert {kind.dtype for kind in work.kinds(plan.table().replay, "tiny", ("float32",))} == {"float32"}

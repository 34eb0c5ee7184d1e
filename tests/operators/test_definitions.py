"""Definitions in NumPy hold what torch computes: known values, and functions that are wrong in one argument, layout or gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from stackproof.operators import definitions, layers, losses, pictures
from stackproof.record.checks import CheckFailed

CPU = [(torch.device("cpu"), torch.float32)]


def test_each_row_is_of_a_function_that_torch_has() -> None:
    assert definitions.forms().keys() <= definitions.DEFINITIONS.keys()
    assert all(hasattr(functional, name) for name in definitions.forms())


@pytest.mark.parametrize("text", ["numbers 3 x", "reals 3", "classes<b 3"])
def test_an_argument_that_nobody_can_draw_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a kind of numbers and a shape"):
        definitions._argument(text)


def test_smoothed_cross_entropy_of_equal_scores_is_the_logarithm_of_their_number() -> None:
    labels = np.array([0, 2, 3])
    assert losses.cross_entropy(np.zeros((3, 4)), labels, label_smoothing=0.3) == pytest.approx(np.log(4))
    scores = np.array([[0.0, 1.0], [5.0, 1.0]])
    assert losses.cross_entropy(scores, np.array([1, 0]), ignore_index=0) == pytest.approx(np.log1p(np.exp(-1.0)))


def test_one_alignment_has_the_probability_of_its_path() -> None:
    logs = np.log(np.full((2, 1, 3), 1 / 3))
    assert losses.ctc_loss(logs, np.array([[1, 2]]), (2,), (2,), reduction="sum") == pytest.approx(2 * np.log(3))


def test_resized_pictures_keep_a_slope() -> None:
    line = np.arange(4.0).reshape(1, 1, 1, 4)
    found = pictures.interpolate(line, (1, 7), mode="bilinear", align_corners=True)
    assert np.allclose(found.reshape(-1), np.arange(7) / 2)
    assert np.array_equal(pictures.interpolate(line, scale_factor=(1, 2)).reshape(-1), np.repeat(np.arange(4), 2))


def test_windows_at_the_edge_count_what_is_there() -> None:
    ones = np.ones((1, 1, 4, 4))
    assert np.allclose(pictures.PICTURES["avg_pool2d"](ones, 3, 2, 1, True, False), 1.0)
    assert pictures.PICTURES["avg_pool2d"](ones, 3, 2, 1).min() == pytest.approx(4 / 9)


def test_frozen_statistics_do_not_run() -> None:
    found = layers.batch_norm(np.random.default_rng(0).normal(size=(4, 2)), np.ones(2), np.full(2, 3.0))
    assert np.array_equal(found["running_mean"], np.ones(2))
    assert np.allclose(found["running_var"], 3.0)


def _doubled(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **given: original(**{**given, "beta": given["beta"] * 2})


def _wrong_if_strided(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **given: original(**given) * (1.0 if given["input"].is_contiguous() else 1.001)


def _wrong_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(**given: Any) -> Any:
        found = original(**given)
        return found + 0.01 * (given["input"].sum() - given["input"].sum().detach())

    return wrong


@pytest.mark.parametrize(
    ("make", "said"),
    [(_doubled, "the output is"), (_wrong_if_strided, "strided: the output"), (_wrong_backward, "input's gradient is")],
)
def test_a_function_that_is_wrong_is_named(
    make: Callable[..., Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functional, "smooth_l1_loss", make(functional.smooth_l1_loss))
    with pytest.raises(CheckFailed, match=said):
        definitions.hold(definitions.forms()["smooth_l1_loss"][0], CPU)


def test_a_gradient_where_there_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = functional.embedding
    monkeypatch.setattr(functional, "embedding", lambda **given: own(**{**given, "padding_idx": None}))
    with pytest.raises(CheckFailed, match="has a gradient in row 2"):
        definitions.hold(definitions.forms()["embedding"][0], CPU)

"""Networks by their definitions, on numbers that can be done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stackproof.operators import networks

ONES = {"weight_ih_l0": np.ones((1, 1)), "weight_hh_l0": np.ones((1, 1))}


def test_a_plain_network_adds_up_what_it_is_given() -> None:
    given, start = np.array([[[1.0], [2.0], [4.0]]]), np.zeros((1, 1, 1))
    output, last = networks.recurrent(ONES, "relu", given, [start])
    assert output[0, :, 0].tolist() == [1, 3, 7] and last.tolist() == [[[7]]]
    both = ONES | {f"{name}_reverse": one for name, one in ONES.items()}
    output, last = networks.recurrent(both, "relu", given, [np.zeros((2, 1, 1))])
    assert output[0].tolist() == [[1, 7], [3, 6], [7, 4]] and last[:, 0, 0].tolist() == [7, 7]


def test_what_is_beyond_a_sequence_is_zero() -> None:
    given, start = np.ones((2, 3, 1)), np.zeros((1, 2, 1))
    output, last = networks.recurrent(ONES, "relu", given, [start], (3, 1))
    assert output[..., 0].tolist() == [[1, 2, 3], [1, 0, 0]] and last[0, :, 0].tolist() == [3, 1]


def test_a_cell_that_forgets_nothing_keeps() -> None:
    values = {
        "weight_ih": np.zeros((4, 1)),
        "weight_hh": np.zeros((4, 1)),
        "bias_ih": np.array([-99.0, 99, 0, 99]),
        "bias_hh": np.zeros(4),
    }
    state, cell = networks.STEPS["lstm"](values, "", np.ones((1, 1)), np.zeros((1, 1)), np.full((1, 1), 0.5))
    assert cell == pytest.approx(0.5) and state == pytest.approx(np.tanh(0.5))


def test_an_update_gate_that_is_open_keeps_the_state() -> None:
    values = {
        "weight_ih": np.zeros((3, 1)),
        "weight_hh": np.zeros((3, 1)),
        "bias_ih": np.array([0.0, 99, 5]),
        "bias_hh": np.zeros(3),
    }
    (state,) = networks.STEPS["gru"](values, "", np.ones((1, 1)), np.full((1, 1), 0.25))
    assert state == pytest.approx(0.25)


def test_attention_takes_the_mean_of_what_it_cannot_tell_apart() -> None:
    eye = np.eye(2)
    values = {"in_proj_weight": np.concatenate([eye, 0 * eye, eye]), "out_proj.weight": eye}
    query, value = np.ones((1, 1, 2)), np.array([[[3.0, 0.0], [0.0, 6.0], [9.0, 9.0]]])
    output, shares = networks.attention(values, query, value, value, 1)
    assert shares[0, 0] == pytest.approx(1 / 3) and output[0, 0] == pytest.approx([4, 5])
    hidden = np.array([0, 0, -np.inf]).reshape(1, 1, 1, 3)
    output, shares = networks.attention(values, query, value, value, 1, hidden=hidden, zero=True)
    assert shares[0, 0].tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3]) and output[0, 0] == pytest.approx([1, 2])


def test_later_places_are_hidden() -> None:
    assert np.isfinite(networks.causal(3)[0, 0]).tolist() == [[True, False, False], [True, True, False], [True] * 3]

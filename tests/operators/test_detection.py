"""A detector's loss by its definition, on boxes that can be done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stackproof.operators import detection


def test_middles_of_cells_row_by_row() -> None:
    anchors = detection.anchors(32, (16, 32))
    assert anchors.points.tolist() == [[0.5, 0.5], [1.5, 0.5], [0.5, 1.5], [1.5, 1.5], [0.5, 0.5]]
    assert anchors.strides.tolist() == [16] * 4 + [32]


def test_distances_are_means_of_bins() -> None:
    box = detection.decoded(np.zeros((1, 4, 4)), detection.AnchorPoints(np.array([[2.0, 3.0]]), np.ones(1)))
    assert box[0].tolist() == [0.5, 1.5, 3.5, 4.5]


def test_overlap_of_boxes() -> None:
    box = np.array([0.0, 0, 4, 2])
    assert detection.overlap(box, box) == pytest.approx((1, 0, 0))
    near, aspects, _ = detection.overlap(box, np.array([2.0, 0, 6, 2]))
    assert near == pytest.approx(1 / 3 - 4 / 40) and aspects == 0
    _, aspects, _ = detection.overlap(box, np.array([1.0, -1, 3, 3]))
    assert aspects == pytest.approx(4 / math.pi**2 * (math.atan(2) - math.atan(0.5)) ** 2)


def test_each_box_takes_its_best_anchors() -> None:
    at = detection.anchors(64, (8,))
    truths = np.array([[0.0, 0, 40, 40], [0.0, 0, 20, 20]])
    boxes = np.tile([0.0, 0, 4, 4], (64, 1))  # in strides: 32 pixels
    assigned = detection.assign(np.zeros((64, 2)), boxes, at, truths, np.array([0, 1]))
    middles = at.points * 8
    taken = assigned.boxes >= 0
    assert (middles[taken] < 40).all() and 1 <= taken.sum() <= 14
    assert set(assigned.boxes) == {-1, 0}, "the smaller box overlaps less with what is predicted"
    assert assigned.shares.max() == pytest.approx(0.64 - 0.01, abs=1e-6) and assigned.shares[~taken].max() == 0


def test_losses_of_one_anchor() -> None:
    at = detection.AnchorPoints(np.array([[2.0, 2.0]]), np.array([8.0]))
    sides = np.full((1, 4, 4), -99.0)
    sides[..., 1] = 99
    truths = np.array([[8.0, 8, 24, 24]])
    assigned = detection.Assigned(np.array([0]), np.ones(1), np.zeros(1))
    losses = detection.parts(np.zeros((1, 2)), sides, at, truths, np.array([1]), assigned)
    assert losses == pytest.approx([0, 2 * math.log(2), 0], abs=1e-6)

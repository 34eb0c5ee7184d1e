"""The loss of YOLOv8 by its papers, in NumPy: complete IoU, task-aligned assignment, cross entropy, and distributions of distances.

A picture's predictions are `scores` (anchors, classes) and `sides` (anchors, 4, bins), its boxes (boxes, 4) are corners in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stackproof.operators.forms import Array, Floats, softmax

_TINY = 1e-9
_BEST = 10
"""AnchorPoints that each box may take; scores count by their root and overlaps by their sixth power (TOOD: Feng et al., 2021)."""
_LAST = 0.01
"""So far below the last bin distances are cut."""


class AnchorPoints(NamedTuple):
    """Where predictions stand: (anchors, 2) in strides, and each one's stride in pixels."""

    points: Floats
    strides: Floats


class Assigned(NamedTuple):
    """Which box each anchor answers for (-1: none), its share, and how much a wrong aspect weighs against its overlap."""

    boxes: Array
    shares: Floats
    aspects: Floats


def anchors(size: int, strides: Sequence[int]) -> AnchorPoints:
    """Return the middles of all cells of all maps of a square picture, row by row."""
    arrays = [np.stack(np.meshgrid(*[np.arange(size // stride) + 0.5] * 2), -1).reshape(-1, 2) for stride in strides]
    return AnchorPoints(np.concatenate(arrays), np.repeat(strides, [len(array) for array in arrays]).astype(np.float64))


def decoded(sides: Floats, at: AnchorPoints) -> Floats:
    """Return corners in strides: each side's distance is the mean of its distribution (Li et al., 2020)."""
    distances = softmax(sides, -1) @ np.arange(sides.shape[-1])
    return np.concatenate([at.points - distances[:, :2], at.points + distances[:, 2:]], -1)


def overlap(array: Floats, other: Floats) -> tuple[Floats, Floats, Floats]:
    """Return of pairs of boxes the overlap less the distance of middles, the difference of aspects, and what that weighs.

    The complete overlap (CIoU: Zheng et al., 2020) is the first less the product of the others.
    """
    width, height = (array[..., 2 + axis] - array[..., axis] for axis in (0, 1))
    wide, high = (other[..., 2 + axis] - other[..., axis] for axis in (0, 1))
    near, far = np.maximum(array[..., :2], other[..., :2]), np.minimum(array[..., 2:], other[..., 2:])
    common = np.prod(np.maximum(far - near, 0), -1)
    share = common / (width * height + wide * high - common + 1e-7)
    around = np.maximum(array[..., 2:], other[..., 2:]) - np.minimum(array[..., :2], other[..., :2])
    between = (array[..., :2] + array[..., 2:] - other[..., :2] - other[..., 2:]) / 2
    apart = (between**2).sum(-1) / ((around**2).sum(-1) + 1e-7)
    aspects = 4 / math.pi**2 * (np.arctan(wide / high) - np.arctan(width / height)) ** 2
    return share - apart, aspects, aspects / (1 - share + aspects + 1e-7)


def assign(scores: Floats, boxes: Floats, at: AnchorPoints, truths: Floats, labels: Array) -> Assigned:
    """Give each box its best anchors among those whose middles it holds; an anchor of several boxes goes to the nearest."""
    middles = at.points * at.strides[:, None]
    inside = ((middles > truths[:, None, :2]) & (middles < truths[:, None, 2:])).all(-1)
    share, aspects, weight = overlap(truths[:, None], (boxes * at.strides[:, None])[None])
    near = np.maximum(share - aspects * weight, 0) * inside
    metric = (1 / (1 + np.exp(-scores)))[:, labels].T ** 0.5 * near**6
    order = np.argsort(-metric, 1, kind="stable")[:, :_BEST]
    taken = np.zeros_like(inside)
    np.put_along_axis(taken, order, True, 1)
    taken &= inside
    nearest = np.arange(len(truths))[:, None] == near.argmax(0)
    taken = np.where(taken.sum(0) > 1, nearest, taken)
    metric, near = metric * taken, near * taken
    shares = (metric * near.max(1, keepdims=True) / (metric.max(1, keepdims=True) + _TINY)).max(0)
    array = np.where(taken.any(0), taken.argmax(0), -1)
    return Assigned(array, shares, np.zeros(len(array)))


def weighed(boxes: Floats, at: AnchorPoints, truths: Floats, assigned: Assigned) -> Assigned:
    """Return an assignment with the weights of aspects, which count as constants where the loss is differentiated."""
    _, _, weight = overlap(boxes, truths[assigned.boxes] / at.strides[:, None])
    return assigned._replace(aspects=weight)


def parts(scores: Floats, sides: Floats, at: AnchorPoints, truths: Floats, labels: Array, assigned: Assigned) -> Floats:
    """Return the sums of a picture's losses of boxes, classes and distances."""
    taken = assigned.boxes >= 0
    place, share = assigned.boxes[taken], assigned.shares[taken]
    targets = truths[place] / at.strides[taken, None]
    near, aspects, _ = overlap(decoded(sides, at)[taken], targets)
    box = ((1 - near + aspects * assigned.aspects[taken]) * share).sum()
    hot = np.zeros_like(scores)
    hot[np.flatnonzero(taken), labels[place]] = share
    classes = (np.logaddexp(0, scores) - scores * hot).sum()
    points, bins = at.points[taken], sides.shape[-1]
    distances = np.concatenate([points - targets[:, :2], targets[:, 2:] - points], -1).clip(0, bins - 1 - _LAST)
    low = distances.astype(int)
    logs = np.log(softmax(sides[taken], -1))
    first, second = (np.take_along_axis(logs, (low + value)[..., None], -1)[..., 0] for value in (0, 1))
    spread = -(first * (low + 1 - distances) + second * (distances - low)).mean(-1)
    return np.array([box, classes, (spread * share).sum()])

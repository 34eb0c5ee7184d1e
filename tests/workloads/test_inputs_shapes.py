"""Pictures of labelled shapes."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from stackproof.workloads import inputs

LAYOUT = inputs.Layout(size=64, cell=32, smallest=10, largest=20, most=4)


def test_detection_pictures_are_the_same_on_every_machine() -> None:
    made = inputs.detection(0, 8, LAYOUT)
    arrays = (made.images, made.labels.astype("<i8"), made.owners.astype("<i8"), made.corners.astype("<i8"))

    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    assert digest == "1783b4979d2e002200a87822dd928f79b3d69863d56357f932c8b63c18d2dc6d"


def test_classification_pictures_are_the_same_on_every_machine() -> None:
    images, labels = inputs.classification(0, 8, 16)

    digest = hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    assert digest == "94fe3e12990efaf3db91ed40fbfb4e4df682a2ffca1112bedf81676508d9f2ab"


def test_boxes_fit_their_shapes() -> None:
    made = inputs.detection(3, 16, LAYOUT)
    bright = made.images.min(axis=1) >= 128
    for owner, (left, top, right, bottom) in zip(made.owners, made.corners, strict=True):
        shape = bright[owner, top:bottom, left:right]
        assert all(edge.any() for edge in (shape[0], shape[-1], shape[:, 0], shape[:, -1]))
        bright[owner, top:bottom, left:right] = False

    assert not bright.any()


def test_boxes_have_odd_corners_and_do_not_overlap() -> None:
    made = inputs.detection(4, 16, LAYOUT)
    covered = np.zeros((16, 64, 64), dtype=np.int64)
    for owner, (left, top, right, bottom) in zip(made.owners, made.corners, strict=True):
        covered[owner, top:bottom, left:right] += 1

    assert (made.corners % 2 == 1).all()
    assert covered.max() == 1


def test_every_picture_has_a_shape_and_every_kind_occurs() -> None:
    made = inputs.detection(5, 32, LAYOUT)

    assert set(made.owners) == set(range(32))
    assert set(made.labels) == set(range(len(inputs.FORMS)))


@pytest.mark.parametrize("change", [{"largest": 32}, {"smallest": 9}, {"most": 5}, {"most": 0}])
def test_a_layout_that_cannot_be_drawn_is_refused(change: dict[str, int]) -> None:
    sizes = {"size": 64, "cell": 32, "smallest": 10, "largest": 20, "most": 4}

    with pytest.raises(ValueError, match="sides are even"):
        inputs.Layout(**{**sizes, **change})

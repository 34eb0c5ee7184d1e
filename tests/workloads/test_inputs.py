"""The integer source under all data makers."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from stackproof.workloads import inputs
from stackproof.workloads.inputs import Draws


def test_a_seed_gives_the_same_numbers_on_every_machine() -> None:
    raw = Draws(0).array((1000,), below=1 << 16).astype("<i8").tobytes()

    assert hashlib.sha256(raw).hexdigest() == "c7bfb221b5d457f89fa582b80910b3bc414672317356909264dd6a6d68af2311"


def test_bounds_are_included() -> None:
    draws = Draws(1)

    assert {draws.between(3, 5) for _ in range(100)} == {3, 4, 5}


@pytest.mark.parametrize("count", [0, 1, 7])
def test_chosen_items_are_different(count: int) -> None:
    chosen = Draws(2).choose(range(7), count)

    assert len(chosen) == len(set(chosen)) == count
    assert set(chosen) <= set(range(7))


def test_sequences_are_the_same_on_every_machine() -> None:
    drawn = inputs.progressions(0, 16, vocabulary=256)

    digest = hashlib.sha256(b"|".join(row.astype("<i8").tobytes() for row in drawn)).hexdigest()
    assert digest == "9f257b6aec3b6b3757804601788feb140226c5f3e20efa2e94aceeb89475d87a"


@pytest.mark.parametrize("mean", [8, 24, 155, 512])
def test_every_block_of_eight_has_exactly_the_mean(mean: int) -> None:
    lengths = inputs.lengths(Draws(1), 80, mean)

    assert {sum(lengths[start : start + 8]) for start in range(0, 80, 8)} == {8 * mean}
    assert len(set(lengths)) > 3
    assert min(lengths) >= 2


def test_lengths_have_a_long_tail() -> None:
    lengths = inputs.lengths(Draws(2), 800)

    assert np.median(lengths) < 0.85 * inputs.MEAN
    assert max(lengths) > 2.5 * inputs.MEAN


def test_a_sequence_is_a_progression_within_the_vocabulary() -> None:
    for row in inputs.progressions(3, 8, vocabulary=100):
        steps = np.diff(row[1:]) % 61

        assert row[0] == 0
        assert row.max() < 100
        assert len(set(steps)) <= 1


@pytest.mark.parametrize(
    ("samples", "non_embedding", "printed"),
    [(1090 * 3, 445_513_728, 1_351_978e9), (1091 * 3, 7_525_896_192, 22_837_125e9)],
    ids=["qwen3-0.6b", "llama3-8b"],
)
def test_the_mean_length_reproduces_the_users_total_flops(samples: int, non_embedding: int, printed: float) -> None:
    assert 6 * inputs.MEAN * samples * non_embedding == pytest.approx(printed, rel=5e-3)


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

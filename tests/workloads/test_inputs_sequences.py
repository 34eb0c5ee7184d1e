"""Token sequences."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from stackproof.workloads import inputs
from stackproof.workloads.inputs import Draws


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
    assert max(lengths) <= inputs.CUTOFF


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


@pytest.mark.parametrize("sizes", [{"mean": 7}, {"mean": 513}, {"vocabulary": 7}])
def test_sizes_that_make_no_sense_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="allowed are means of 8 to 512"):
        inputs.progressions(0, 8, **{"vocabulary": 256, **sizes})


@pytest.mark.parametrize(
    ("samples", "non_embedding", "printed"),
    [(1090 * 3, 445_513_728, 1_351_978e9), (1091 * 3, 7_525_896_192, 22_837_125e9)],
    ids=["qwen3-0.6b", "llama3-8b"],
)
def test_the_mean_length_reproduces_the_users_total_flops(samples: int, non_embedding: int, printed: float) -> None:
    assert 6 * inputs.MEAN * samples * non_embedding == pytest.approx(printed, rel=5e-3)

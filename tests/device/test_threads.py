"""One policy of threads for all that measures."""

from __future__ import annotations

import os

import pytest
import torch

from stackproof.device import threads


def test_tiny_work_gets_one_thread_and_the_rest_what_torch_chose() -> None:
    before = torch.get_num_threads()
    with threads.chosen("tiny"):
        assert torch.get_num_threads() == 1
        with threads.chosen("full"):
            assert torch.get_num_threads() == threads.default()
    assert torch.get_num_threads() == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this host gives this process one core")
def test_work_of_one_thread_keeps_to_one_core_while_it_is_timed() -> None:
    before = os.sched_getaffinity(0)
    with threads.chosen("tiny"):
        seen = []
        for number in (0, 1, 0, None):
            with threads.on_core(number):
                seen.append(os.sched_getaffinity(0))
    assert seen[0] == seen[2] != seen[1]
    assert [len(cores) for cores in seen] == [1, 1, 1, len(before)]
    assert os.sched_getaffinity(0) == before

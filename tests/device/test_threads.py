"""One policy of threads for all that measures."""

from __future__ import annotations

import torch

from stackproof.device import threads


def test_tiny_work_gets_one_thread_and_the_rest_what_torch_chose() -> None:
    """Whatever was set in between, and nothing stays after the block."""
    before = torch.get_num_threads()
    with threads.chosen("tiny"):
        assert torch.get_num_threads() == threads.count("tiny") == 1
        with threads.chosen("full"):
            assert torch.get_num_threads() == threads.count("full")
    assert torch.get_num_threads() == before

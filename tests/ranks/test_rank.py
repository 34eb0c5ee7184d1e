"""How a rank leaves: at once, unless its library must say goodbye."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEAVING = """
import atexit, sys
import torch.distributed as dist
from stackproof.ranks import libraries, rank
libraries.finalises = lambda backend: {finalise}
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
atexit.register(print, "goodbye")
rank.end(lambda: {status})
"""


@pytest.mark.slow
@pytest.mark.parametrize(("finalise", "status", "said"), [(False, 0, ""), (True, 0, "goodbye"), (True, 1, "")])
def test_a_rank_shuts_down_in_order_only_where_its_library_needs_it(finalise: bool, status: int, said: str) -> None:
    code = LEAVING.format(finalise=finalise, status=status)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (status, said), ended.stderr

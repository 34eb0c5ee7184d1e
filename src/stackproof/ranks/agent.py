"""The process that holds the ranks' store and starts them, as torchrun does: `python -m stackproof.ranks.agent SPEC`."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

from torch._C._distributed_c10d import TCPStore

from stackproof.base import processes
from stackproof.ranks.launchers import Spec, note_failure

_OTHERS_S = 1.0
"""How long the others have, once a rank has failed, to fail of themselves and say why."""


def main(path: Path) -> int:
    """Start the ranks and return 0 when all have ended well, or 1 with `rankN.failure` of each that did not.

    The store's port is one that the kernel chose as it was bound.
    """
    processes.die_with_parent()
    spec, mark, until = Spec.load(path), processes.new_mark(), math.inf
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    size = {"WORLD_SIZE": str(len(spec.cards)), "LOCAL_WORLD_SIZE": str(len(spec.cards)), "GROUP_RANK": "0"}
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port), "TORCHELASTIC_RUN_ID": "ranks"}
    command = [sys.executable, "-m", "stackproof.ranks.rank", str(path), str(store.port)]
    living = {}
    for rank in range(len(spec.cards)):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        with (path.parent / f"rank{rank}.log").open("wb") as output:
            living[rank] = processes.start(command, output, {**size, **meeting, **own}, mark)
    while living and time.monotonic() < until:
        for rank, child in list(living.items()):
            if child.poll() is not None:
                del living[rank]
                if child.returncode:
                    note_failure(path.parent, rank, child.returncode)
                    until = min(until, time.monotonic() + _OTHERS_S)
        time.sleep(0.03)
    return int(until < math.inf)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

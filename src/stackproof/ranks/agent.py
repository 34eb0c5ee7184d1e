"""The process that holds torch's elastic agent: `python -m stackproof.ranks.agent SPEC` starts the ranks and reports failures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from torch._C._distributed_c10d import TCPStore
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from stackproof.base.processes import die_with_parent
from stackproof.ranks.launchers import Spec


def configuration(spec: Spec) -> LaunchConfig:
    """Return the launch of one node: the rendezvous picks a free port itself, and a failed rank is not restarted."""
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=len(spec.cards),
        run_id="ranks",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(log_dir=spec.folder, redirects=Std.ALL),
    )


def main(path: Path) -> int:
    """Launch the ranks and return 0, or 1 with `failures.json` beside the specification.

    The ranks' store is held here, on a port that the kernel chose as it was bound: torch 2.4 would tell the ranks a port that
    was free a moment ago, and a host name that may not resolve.
    """
    die_with_parent()
    spec = Spec.load(path)
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    try:
        elastic_launch(configuration(spec), sys.executable)("-m", "stackproof.ranks.rank", str(path), str(store.port))
    except ChildFailedError as error:
        failures = [
            {"rank": rank, "exitcode": failure.exitcode, "time": failure.timestamp}
            for rank, failure in error.failures.items()
        ]
        (path.parent / "failures.json").write_text(json.dumps(failures), encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

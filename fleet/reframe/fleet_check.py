"""One host of a fleet as a ReFrame test (4.10): it runs `stackproof fleet card` on a node and reads the record that was left.

    reframe -c fleet/reframe/fleet_check.py --distribute=idle -S sweep=/shared/sweeps/monday -S python=/path/to/python -r

`stackproof fleet plan` has made the sweep's folder; `stackproof fleet judge` says what the records of all nodes amount to. ReFrame's own
result says only that a node left a record and what its figures are: which node is odd nobody can say of one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, sanity_function, variable

_RECORD = r"(?:record: |answered already: )(\S+\.json)"


@rfm.simple_test
class StackproofFleetCard(rfm.RunOnlyRegressionTest):
    """Lets one node answer; `--distribute` makes a job for each node."""

    sweep = variable(str, value="")
    stack = variable(str, value="")
    host = variable(str, value="")
    python = variable(str, value="python3")
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    exclusive_access = True
    time_limit = "1h"

    @run_after("init")
    def _words(self) -> None:
        self.executable = self.python
        chosen = ["--stack", self.stack] if self.stack else []
        chosen += ["--host", self.host] if self.host else []
        self.executable_opts = ["-m", "stackproof", "fleet", "card", self.sweep, *chosen]

    @run_before("run")
    def _require_sweep(self) -> None:
        self.skip_if(not self.sweep, "which sweep? add -S sweep=FOLDER, which `stackproof fleet plan` has made")

    @sanity_function
    def left_a_record(self) -> Any:
        """The step names the record, or says that this host has answered already."""
        return sn.assert_found(_RECORD, self.stdout)

    @run_before("performance")
    def _figures(self) -> None:
        said = Path(self.stagedir, self.stdout.evaluate())
        found = sn.extractsingle(_RECORD, str(said), 1).evaluate()
        rows = json.loads(Path(found).read_text(encoding="utf-8"))["measurements"]
        self.perf_variables = {
            f"{row['workload']}_card{row['figures'].get('card', 0)}": sn.make_performance_function(
                sn.defer(row["value"]), row["unit"]
            )
            for row in rows
        }

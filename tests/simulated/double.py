"""Runs Python on the simulated cards, in a process of its own, as users would: by plain `import torch`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.stack import hosts, stacks

from .. import warm

PATH = os.pathsep.join((str(ROOT / "fixtures" / "simulated"), str(ROOT / "src")))
_SLOW_HOST_S = 600


def require_compiler() -> None:
    """Skip where the stack's own table says that this host cannot have the cards, with its sentence."""
    found = hosts.inspect(stacks.load("sim"))
    if not found.present:
        pytest.skip(str(found.refusal()))


def run(
    code: str,
    *,
    ranks: Path | None = None,
    faults: str = "",
    signs: Path | None = None,
    fresh: bool = False,
    **more: str,
) -> str:
    """Run code and return what it printed; its failed assertions fail the test.

    `ranks`: a file for the code, which is then run by as many ranks as there are cards.
    `fresh`: start Python anew, which ranks always do; otherwise the cards come into a process that has torch already.
    """
    require_compiler()
    script = ["-c", code]
    if ranks:
        ranks.write_text(code, encoding="utf-8")
        script = ["-m", "torch.distributed.run", "--nproc-per-node", more.get("SIM_CARDS", "2"), str(ranks)]
    env = {**os.environ, "PYTHONPATH": PATH, "SIM_CARDS": "2", "OMP_NUM_THREADS": "1", "SIM_FAULTS": faults} | more
    env |= {"SIM_FAULTS_FIRED": str(signs)} if signs else {}
    if not (fresh or ranks):
        return _warm(code, env)
    done = subprocess.run(
        [sys.executable, *script], env=env, capture_output=True, text=True, timeout=_SLOW_HOST_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _warm(code: str, env: dict[str, str]) -> str:
    """Run code where torch was imported without cards; what its entry point does in `import torch` is done first."""
    with tempfile.TemporaryFile() as output:
        child = warm.fork(
            {"code": f"import torch_sim; torch_sim.load()\n{code}", "path": PATH.split(os.pathsep)}, env, output
        )
        status = child.wait(_SLOW_HOST_S)
        output.seek(0)
        said = output.read().decode()
    assert status == 0, said[-3000:]
    return said


def fired(folder: Path) -> dict[str, int]:
    """Return how often each fault fired, over all processes."""
    counts: dict[str, int] = {}
    for path in folder.glob("*.txt"):
        for line in path.read_text(encoding="ascii").replace("\0", "").splitlines():
            count, name = line.split()[:2]
            counts[name] = counts.get(name, 0) + int(count)
    return counts

"""The path of `ccl` - import order, registration by the bindings, environment, launch, bring-up - with a double of the bindings.

The double registers gloo as `ccl`: this proves our path to oneCCL, and nothing of oneCCL.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.record import reading
from stackproof.record.records import Record, Verdict

from .. import fakes

DOUBLES = Path(__file__).parent / "planted"
"""Start-up code is refused in a run that counts; what a drill plants may be there, and the record says so."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose xpu stack runs on the CPU: all that differs is the device, what recognises it, and the flavour."""
    root = fakes.checkout(tmp_path_factory.mktemp("checkout"), "xpu")
    path = root / "stacks" / "xpu" / "stack.toml"
    text = re.sub(r"\[\[host\]\]\n(?:.+\n)+", "", path.read_text(encoding="utf-8"))
    for old, new in (
        ('device = "xpu"', 'device = "cpu"'),
        ('xpu = "set"', 'xpu = "any"'),
        ('cuda = "unset"', 'cuda = "any"'),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text.replace('version_contains = "+xpu"', ""), encoding="utf-8")
    return root


def run(root: Path, *arguments: str, **environ: str) -> Record:
    path = os.pathsep.join(map(str, (root / "src", root, DOUBLES)))
    out = root / "record.json"
    command = [sys.executable, "-m", "stackproof", *arguments, "--stack", "xpu", "--json", str(out)]
    environ = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", places.FIRED: str(DOUBLES.parent / "fired"), **environ}
    ended = subprocess.run(
        [*command, "--results", str(root / "results")], cwd=root, env={**os.environ, **environ}, capture_output=True, text=True,
        timeout=500, check=False,
    )  # fmt: skip
    assert out.exists(), ended.stderr[-2000:]
    found = reading.read(out)
    out.unlink()
    return found


def verdicts(record: Record) -> dict[str, tuple[Verdict, str]]:
    return {check.id: (check.verdict, check.reason) for check in record.checks}


@pytest.mark.slow
def test_ccl_comes_up_and_its_log_is_read(checkout: Path) -> None:
    found = verdicts(run(checkout, "ddp", "--suite", "groups"))
    executed = {name: said for name, said in found.items() if said[0] is not Verdict.NOT_APPLICABLE}
    bad = {
        name: said for name, said in executed.items() if said[0] is not Verdict.PASSED and not name.startswith("guard")
    }
    assert not bad
    assert found["groups/bringup::forms[ccl]"][1].startswith("ccl: rank 0 on cpu, rank 1 on cpu")
    effect = found["groups/bringup::effect[ccl]"][1]
    assert effect.startswith("oneCCL: version Gold-0.0.0-double, transport ofi, workers 4")
    assert found["groups/bringup::forms[gloo]"][1].startswith("gloo: ")


@pytest.mark.slow
def test_ddp_trains_over_ccl(checkout: Path) -> None:
    found = verdicts(run(checkout, "smoke", "--only", "smoke/ddp::*"))
    assert [Verdict.PASSED] * 5 == [said[0] for name, said in found.items() if name.startswith("smoke/ddp")]
    assert found["smoke/ddp::bring_up"][1].startswith("ccl: ")


@pytest.mark.slow
def test_what_is_asked_for_and_not_in_effect_fails(checkout: Path) -> None:
    record = run(checkout, "ddp", "--suite", "groups", "--only", "groups/bringup::effect*", CCL_WORKER_COUNT="2")
    verdict, reason = verdicts(record)["groups/bringup::effect[ccl]"]
    assert (verdict, reason) == (Verdict.FAILED, "CCL_WORKER_COUNT=2 was asked for, 4 is in effect")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"CCL_ATL_TRANSPORT": "mpi"}, "CCL_ATL_TRANSPORT=mpi under plain torchrun hangs in the first collective"),
        (
            {"PMI_FD": "9", "CCL_ATL_TRANSPORT": "mpi"},
            "torchrun runs inside mpirun: its ranks inherit a dead PMI descriptor",
        ),
        ({"CCL_KVS_IFACE": "nosuch0"}, "CCL_KVS_IFACE='nosuch0' names nosuch0"),
    ],
)
def test_what_hangs_or_crashes_ccl_is_refused_before_a_rank_starts(
    checkout: Path, environ: dict[str, str], words: str
) -> None:
    record = run(checkout, "ddp", "--suite", "groups", "--only", "groups/preflight::suits[[]ccl]", **environ)
    verdict, reason = verdicts(record)["groups/preflight::suits[ccl]"]
    assert (verdict, words in reason) == (Verdict.FAILED, True), reason


@pytest.mark.slow
def test_a_launch_that_would_hang_starts_nothing(checkout: Path) -> None:
    before = set((checkout / "results").rglob("*.phases"))
    record = run(
        checkout, "ddp", "--suite", "groups", "--only", "groups/bringup::forms[[]ccl]", CCL_ATL_TRANSPORT="mpi"
    )
    verdict, reason = verdicts(record)["groups/bringup::forms[ccl]"]
    assert (verdict, "hangs in the first collective" in reason) == (Verdict.FAILED, True), reason
    assert before == set((checkout / "results").rglob("*.phases"))


@pytest.mark.slow
def test_the_order_of_imports_counts(checkout: Path) -> None:
    path = checkout / "stacks" / "xpu" / "stack.toml"
    text = path.read_text(encoding="utf-8")
    right = '"torch", "intel_extension_for_pytorch", "oneccl_bindings_for_pytorch"'
    assert right in text
    try:
        path.write_text(
            text.replace(right, '"torch", "oneccl_bindings_for_pytorch", "intel_extension_for_pytorch"', 1),
            encoding="utf-8",
        )
        found = verdicts(run(checkout, "ddp", "--suite", "groups"))
    finally:
        path.write_text(text, encoding="utf-8")
    verdict, reason = found["import oneccl_bindings_for_pytorch"]
    assert (verdict, "has to be imported before the bindings" in reason) == (Verdict.FAILED, True)

"""Variables as findings: a problem counts for stacks that read the variable; what is not checked is said; the host is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.doctor import cards, checkup, host, rules
from stackproof.doctor.rules import Finding
from stackproof.stack import stacks
from stackproof.stack.findings import Inventory
from stackproof.stack.stacks import Stack
from stackproof.stack.variables import Level

from .boxes import Box, b60, bare, h200

CPU, XPU, CUDA = (stacks.load(name) for name in ("cpu", "xpu", "cuda"))


def seen(box: Box) -> Inventory:
    """Return what of the box values may name."""
    machine, table = box.machine(), rules.load()
    found = [card for maker in table.makers for card in cards.discover(machine, maker, table)]
    return checkup.inventory_of(machine, host.gather(machine), found)


def wrong(box: Box, concerned: list[Stack]) -> list[Finding]:
    """Return what is wrong with the variables of the box."""
    found = checkup.examine_variables(box.environ, concerned, seen(box))
    return [finding for finding in found if finding.level is not Level.OK]


def said(box: Box, concerned: list[Stack]) -> str:
    """Return the sentence about what was checked."""
    (finding,) = (row for row in checkup.examine_variables(box.environ, concerned) if row.level is Level.OK)
    return finding.sentence


def test_nothing_is_claimed_of_what_is_not_checked(tmp_path: Path) -> None:
    box = bare(tmp_path / "box")
    assert said(box, [CPU]) == "none of the libraries below torch is set"
    box.environ |= {"OMP_NUM_THREADS": "8", "TORCH_TRACE": "/tmp", "OMP_ABRACADABRA": "1"}
    text = said(box, [CPU])
    assert text.startswith("1 of the libraries below torch checked, and none is misspelt")
    assert "values not known here: 1 (TORCH_TRACE); in no list: 1 (OMP_ABRACADABRA)" in text
    box.environ["OMP_NUM_THREADS"] = "eight"
    assert "none is misspelt" not in said(box, [CPU])


def test_a_problem_of_another_stack_is_a_warning(tmp_path: Path) -> None:
    box = bare(tmp_path / "box")
    box.environ["CCL_WORKER_COUNT"] = "two"
    (named,) = wrong(box, [XPU])
    assert (named.level, named.subjects) == (Level.PROBLEM, ("CCL_WORKER_COUNT",))
    assert next(iter(wrong(box, [CUDA, CPU]))).level is Level.WARNING
    assert wrong(box, [CUDA]) == []


def test_each_slip_is_said_once(tmp_path: Path) -> None:
    box = bare(tmp_path / "box")
    box.environ |= {"ZE_AFFINITY_MASK": "0.1", "CUDA_VISIBLE_DEVICES": "0"}
    sentences = [finding.sentence for finding in wrong(box, [XPU, CPU])]
    assert len(sentences) == len(set(sentences)) == 2
    assert any("does not choose Intel cards" in sentence for sentence in sentences)


def networked(box: Box) -> Box:
    """Give a box two interfaces, a file that is none, and a folder of CUDA's."""
    for name in ("eth0", "ib0"):
        box.file(f"/sys/class/net/{name}/operstate", "up\n")
    return box.file("/sys/class/net/bonding_masters").file("/usr/local/cuda-12.4/version.json")


def test_the_host_is_gathered(tmp_path: Path) -> None:
    box = networked(h200(tmp_path / "box")).file("/sys/class/infiniband/mlx5_0/ports/1/state")
    found = seen(box)
    assert (found.interfaces, found.adapters) == (("eth0", "ib0"), {"mlx5_0": ("1",)})
    assert (dict(found.cards), found.cores) == ({"cuda": 8}, 128)
    assert (found.is_file("/etc/hostname"), found.is_folder("/usr/local/cuda-12.4"), found.is_folder("rel")) == (
        True,
        True,
        None,
    )
    assert dict(seen(b60(tmp_path / "xe")).cards) == {"xpu": 2}


@pytest.mark.parametrize(
    ("name", "value", "stack", "sentence"),
    [
        ("NCCL_SOCKET_IFNAME", "eno1", CUDA, "matches no interface of this host, which has eth0, ib0"),
        ("GLOO_SOCKET_IFNAME", "eth1", CPU, "names eth1, and this host has eth0, ib0"),
        ("NCCL_IB_HCA", "mlx5_4", CUDA, "names mlx5_4, and this host has mlx5_0 (port 1)"),
        ("CUDA_VISIBLE_DEVICES", "0,8", CUDA, "names card 8, and this host has cards 0 to 7"),
        ("CUDA_HOME", "/usr/local/cuda", CUDA, "names a folder that is not here"),
        ("OMP_NUM_THREADS", "256", CPU, "is more threads than this host's 128 CPUs"),
    ],
)
def test_what_a_value_names_is_looked_for(tmp_path: Path, name: str, value: str, stack: Stack, sentence: str) -> None:
    box = networked(h200(tmp_path / "box")).file("/sys/class/infiniband/mlx5_0/ports/1/state")
    box.environ[name] = value
    (finding,) = wrong(box, [stack])
    assert sentence in finding.sentence
    assert finding.remedy


def test_what_is_not_known_of_a_host_is_not_judged(tmp_path: Path) -> None:
    box = bare(tmp_path / "box")
    box.environ |= {"GLOO_SOCKET_IFNAME": "eth7", "NCCL_IB_HCA": "mlx5_9", "CUDA_VISIBLE_DEVICES": "99"}
    assert wrong(box, [CPU]) == wrong(box, [CUDA]) == []

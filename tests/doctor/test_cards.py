"""Cards: what the bus shows of them, their drivers, nodes, links; each fault is named with its remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stackproof.doctor import cards, host, rules
from stackproof.doctor.rules import Finding, Maker
from stackproof.stack.variables import Level

from .boxes import Box, b60, h200, k100

TABLE = rules.load()


def maker(name: str) -> Maker:
    """Return a maker of the table."""
    return next(row for row in TABLE.makers if row.name == name)


def look(box: Box, name: str, *, member: bool = True) -> list[Finding]:
    """Return what is found of one maker's cards."""
    machine = box.machine(member=member)
    found = cards.discover(machine, maker(name), TABLE)
    facts = host.gather(machine) | cards.gather(machine, TABLE, found)
    return list(cards.examine(machine, maker(name), found, facts))


def wrong(box: Box, name: str, *, member: bool = True) -> list[Finding]:
    """Return what is not as it should be."""
    return [finding for finding in look(box, name, member=member) if finding.level is not Level.OK]


@pytest.mark.parametrize(("make", "name"), [(b60, "Intel"), (k100, "Hygon"), (h200, "NVIDIA")])
def test_a_good_box_has_one_sentence(tmp_path: Path, make: object, name: str) -> None:
    box = make(tmp_path / "box")  # type: ignore[operator]
    (finding,) = look(box, name)
    assert finding.level is Level.OK
    for other in TABLE.makers:
        if other.toolkit != maker(name).toolkit:
            assert look(box, other.name) == []


def test_the_sentence_has_what_an_issue_asks_for(tmp_path: Path) -> None:
    (finding,) = look(h200(tmp_path / "box"), "NVIDIA")
    assert finding.sentence.startswith(
        "8 x NVIDIA H200: driver nvidia 580.95.05, PCIe 32 GT/s x16; NUMA node 0: 0000:10:00.0, "
    )
    assert "; NUMA node 1: 0000:14:00.0, " in finding.sentence


def test_the_link_of_an_arc_card_is_its_switchs(tmp_path: Path) -> None:
    (finding,) = look(b60(tmp_path / "box"), "Intel")
    assert finding.sentence.startswith("2 x Intel Arc Pro B60: driver xe 1.1.0, PCIe 32 GT/s x8; ")


def test_a_narrow_slot_is_seen_through_the_switch(tmp_path: Path) -> None:
    box = b60(tmp_path / "box").file("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_width", "4\n")
    (finding,) = wrong(box, "Intel")
    assert "0000:03:00.0 runs at x4 of x8 lanes" in finding.sentence
    assert (finding.level, "lspci -vv -s 0000:03:00.0" in finding.remedy) == (Level.WARNING, True)


def test_a_bridge_of_another_maker_is_no_part_of_the_card(tmp_path: Path) -> None:
    box = Box(tmp_path / "box").library("libze_intel_gpu.so.1")
    way = "0000:00:01.0/0000:01:00.0/0000:02:01.0"
    box.card("0000:00:01.0/0000:01:00.0", "0x1000", "0xc010", kind="0x060400", width=16)
    box.card(f"{way}/0000:03:00.0", "0x8086", "0xe211", driver="xe", width=8, widest=8, speed="16.0")
    (finding,) = look(box, "Intel")
    assert "PCIe 16 GT/s x8" in finding.sentence


@pytest.mark.parametrize("width", ["0", "63", "255", "unknown"])
def test_a_link_that_does_not_say_is_not_judged(tmp_path: Path, width: str) -> None:
    box = (
        Box(tmp_path / "box")
        .library("libcuda.so.1")
        .node("/dev/nvidia0")
        .node("/dev/nvidiactl")
        .node("/dev/nvidia-uvm")
    )
    box.card("0000:00:05.0", "0x10de", "0x2335", driver="nvidia")
    box.file("/sys/bus/pci/devices/0000:00:05.0/current_link_width", f"{width}\n")
    (finding,) = look(box, "NVIDIA")
    assert "PCIe link unknown" in finding.sentence


def test_no_resizable_bar(tmp_path: Path) -> None:
    box = b60(tmp_path / "box")
    folder = "/sys/bus/pci/devices/0000:03:00.0/resource"
    box.file(folder, "0x0000006000000000 0x000000600fffffff 0x0000000000140204\n0x0 0x0 0x0\n")
    (finding,) = wrong(box, "Intel")
    assert "256 MiB of its memory: Resizable BAR is off" in finding.sentence


def test_a_card_without_a_driver(tmp_path: Path) -> None:
    box = b60(tmp_path / "box")
    (box.root / "sys/bus/pci/devices/0000:03:00.0/driver").unlink()
    (finding,) = wrong(box, "Intel")
    assert "Arc Pro B60 at 0000:03:00.0 has no driver bound to it" in finding.sentence
    assert (finding.level, "multi-arc-bmg" in finding.remedy, finding.toolkit) == (Level.PROBLEM, True, "xpu")
    box.card(
        "0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0", "0x8086", "0xe211", driver="vfio-pci", width=1, widest=1
    )
    (finding,) = wrong(box, "Intel")
    assert "is bound to vfio-pci, and torch needs xe or i915" in finding.sentence


def test_a_driver_that_nobody_knows_is_a_note(tmp_path: Path) -> None:
    box = k100(tmp_path / "box")
    (box.root / "sys/bus/pci/devices/0000:01:00.0/driver").unlink()
    box.card("0000:00:00.1/0000:01:00.0", "0x1d94", "0x6210", kind="0x0b4000", driver="hygpu", render="renderD128")
    (finding,) = wrong(box, "Hygon")
    assert (finding.level, "is bound to hygpu" in finding.sentence) == (Level.NOTE, True)


def test_a_node_that_is_made_on_demand(tmp_path: Path) -> None:
    box = h200(tmp_path / "box")
    (box.root / "dev/nvidia-uvm").unlink()
    assert wrong(box, "NVIDIA") == []
    (finding,) = wrong(box.file("/.dockerenv"), "NVIDIA")
    assert "but /dev/nvidia-uvm is not here" in finding.sentence
    assert finding.remedy == "start the container with --gpus all"


def test_nodes_that_the_container_was_not_given(tmp_path: Path) -> None:
    box = k100(tmp_path / "box")
    shutil.rmtree(box.root / "dev")
    (finding,) = wrong(box, "Hygon")
    assert "/dev/kfd, /dev/dri/renderD128, " in finding.sentence
    assert finding.remedy == "start the container with --device /dev/kfd --device /dev/dri"
    (box.root / ".dockerenv").unlink()
    assert wrong(box, "Hygon")[0].remedy == maker("Hygon").install


def test_kfd_that_may_not_be_opened_in_a_container(tmp_path: Path) -> None:
    box = k100(tmp_path / "box").container().shm("16g").file("/etc/group", "root:x:99999:\n")
    (finding,) = wrong(box, "Hygon", member=False)
    number = (box.root / "dev/kfd").stat().st_gid
    assert "this user may not read and write /dev/kfd, /dev/dri/renderD128" in finding.sentence
    assert f"(-rw-rw---- group {number})" in finding.sentence
    assert (finding.level, finding.remedy) == (Level.PROBLEM, f"start the container with --group-add {number}")


def test_render_nodes_that_may_not_be_opened(tmp_path: Path) -> None:
    box = b60(tmp_path / "box")
    (finding,) = wrong(box, "Intel", member=False)
    assert "(-rw-rw---- render)" in finding.sentence
    assert finding.remedy == "sudo usermod -aG render $USER, then log in again"


def test_a_library_of_the_driver_is_missing(tmp_path: Path) -> None:
    box = b60(tmp_path / "box").file("/etc/ld.so.cache", "libc.so.6\0")
    (finding,) = wrong(box, "Intel")
    assert finding.sentence.startswith("libze_intel_gpu.so.1 is not here")
    box.environ["LD_LIBRARY_PATH"] = "/opt/gpu/lib"
    assert wrong(box.file("/opt/gpu/lib/libze_intel_gpu.so.1"), "Intel") == []


def test_cards_without_a_bus(tmp_path: Path) -> None:
    box = h200(tmp_path / "box")
    shutil.rmtree(box.root / "sys/bus")
    (finding,) = look(box, "NVIDIA")
    assert "the PCI bus shows no card" in finding.sentence
    assert "driver 580.95.05" in finding.sentence


def test_an_integrated_gpu_is_no_card(tmp_path: Path) -> None:
    box = Box(tmp_path / "box").card("0000:00:02.0", "0x8086", "0x46a6", driver="i915", render="renderD128")
    assert look(box, "Intel") == []

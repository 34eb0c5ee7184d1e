"""What a host is recognised by: device nodes, the PCI bus, tools; and what a host that lacks it is told."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.stack import hosts, stacks

from .. import fakes

REAL_GLOB = glob.glob


class Host:
    """A host made of files: what it has is what was added."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools: set[str] = set()
        (root / "pci").mkdir()

    def add(self, *paths: str) -> Host:
        for path in paths:
            (self.root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path.lstrip("/")).touch()
        return self

    def card(self, address: str, vendor: str, kind: str = "0x030000") -> Host:
        folder = self.root / "pci" / address
        folder.mkdir()
        (folder / "vendor").write_text(f"{vendor}\n", encoding="ascii")
        (folder / "class").write_text(f"{kind}\n", encoding="ascii")
        return self

    def glob(self, pattern: str) -> list[str]:
        """Look below the root in place of the real file system."""
        return [f"/{Path(path).relative_to(self.root)}" for path in REAL_GLOB(f"{self.root}{pattern}")]

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.tools else None


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path).add("/proc/cpuinfo")
    monkeypatch.setattr(hosts, "PCI_DEVICES", tmp_path / "pci")
    monkeypatch.setattr(hosts.glob, "glob", made.glob)
    monkeypatch.setattr(hosts.shutil, "which", made.which)
    return made


def present() -> set[str]:
    return {stack.name for stack in stacks.load_all() if hosts.inspect(stack).present}


def xpu(host: Host) -> Host:
    return host.add("/dev/dri/renderD128", "/sys/module/xe/version")


def test_bare_host_has_only_the_cpu(host: Host) -> None:
    assert present() == {"cpu", "cpu-ipex"}
    assert hosts.preferred().stack.name == "cpu"


def test_every_rehearsal_needs_nothing(host: Host) -> None:
    assert [stack.name for stack in stacks.load_all() if not hosts.inspect(stack.rehearse()).present] == []


def test_arc_card_is_recognised(host: Host) -> None:
    xpu(host).card("0000:03:00.0", "0x8086")
    assert present() == {"cpu", "cpu-ipex", "xpu", "xpu-native"}
    assert hosts.preferred().stack.name == "xpu-native"


def test_integrated_gpu_does_not_claim_a_laptop(host: Host) -> None:
    xpu(host).card("0000:00:02.0", "0x8086")
    assert present() == {"cpu", "cpu-ipex"}
    assert hosts.preferred().stack.name == "cpu"
    host.card("0000:03:00.0", "0x8086", "0x038000")
    assert hosts.preferred().stack.name == "xpu-native"


@pytest.mark.parametrize("kind", ["0x020000", "0x060400", "0x010802", "0x0c0330", ""])
def test_other_devices_of_the_vendor_are_no_cards(host: Host, kind: str) -> None:
    xpu(host).card("0000:03:00.0", "0x8086", kind)
    assert "xpu" not in present()


@pytest.mark.parametrize("lost", ["/dev/dri/renderD128", "/sys/module/xe/version", "pci"])
def test_each_requirement_counts(host: Host, lost: str) -> None:
    xpu(host).card("0000:03:00.0", "0x8086")
    shutil.rmtree(host.root / "pci") if lost == "pci" else (host.root / lost.lstrip("/")).unlink()
    if lost.startswith("/sys"):
        (host.root / "sys/module/xe").rmdir()
    assert present() == {"cpu", "cpu-ipex"}


def test_hygon_card_is_recognised_by_bus_or_tool(host: Host) -> None:
    host.add("/dev/kfd", "/opt/dtk-25.04")
    assert "dcu" not in present()
    host.card("0000:09:00.0", "0x1002")
    assert "dcu" not in present()
    host.tools.add("hy-smi")
    assert hosts.preferred().stack.name == "dcu"
    host.tools.clear()
    host.card("0000:0a:00.0", "0x1d94", "0x0b4000")
    assert hosts.preferred().stack.name == "dcu"


def test_nvidia_card_is_recognised(host: Host) -> None:
    host.add("/dev/nvidiactl", "/proc/driver/nvidia/version")
    assert "cuda" not in present()
    host.add("/dev/nvidia0")
    assert hosts.preferred().stack.name == "cuda"


def test_refusal_names_what_was_looked_for(host: Host) -> None:
    host.add("/dev/dri/renderD128")
    refusal = hosts.inspect(stacks.load("xpu")).refusal()
    said = str(refusal)
    assert refusal.exit_code == 3
    assert said.startswith("this host has no stack 'xpu': it lacks an Intel GPU card on the PCI bus")
    for place in (str(hosts.PCI_DEVICES), "vendor 0x8086", "/sys/module/xe", "/sys/module/i915"):
        assert place in said
    assert "a GPU render node" not in said  # that was found
    assert said.endswith(stacks.load("xpu").install_hint)
    assert "\n" not in said


def test_findings_name_their_evidence(host: Host) -> None:
    host.add(*(f"/dev/dri/renderD{128 + n}" for n in range(6))).card("0000:03:00.0", "0x8086")
    node, card, driver = hosts.inspect(stacks.load("xpu")).findings
    assert (node.found, card.found, driver.found) == (True, True, False)
    assert node.evidence.count("/dev/dri/renderD") == 4
    assert card.evidence == "PCI 0000:03:00.0 (0x8086)"


def test_unreadable_bus_entry_is_passed_over(host: Host) -> None:
    (host.root / "pci" / "0000:03:00.0").mkdir()
    host.card("0000:04:00.0", "0x8086")
    (host.root / "pci" / "0000:04:00.0" / "class").write_bytes(b"\xff\xfe\n")
    assert "xpu" not in present()


def test_checkout_without_the_cpu_stack_is_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_xpu() -> Iterable[stacks.Stack]:
        return (stacks.load("xpu"),)

    monkeypatch.setattr(hosts, "load_all", only_xpu)
    with pytest.raises(Refusal, match="none of the stacks"):
        hosts.preferred()


def test_broken_definition_leaves_no_preferred_stack(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.stack(tmp_path / "checkout", "good")
    fakes.stack(tmp_path / "checkout", "bad", "title = 1\n")
    monkeypatch.setattr(hosts, "load_all", lambda: stacks.load_all(tmp_path / "checkout" / "stacks"))
    with pytest.raises(Refusal, match=r"bad/stack\.toml"):
        hosts.preferred()


@pytest.mark.parametrize(("here", "verb"), [(True, "smoke"), (False, "rehearse")])
def test_a_stack_is_proved_as_far_as_the_host_goes(here: bool, verb: str) -> None:
    assert hosts.proof(stacks.load("xpu"), here) == f"nox -s xpu-{verb}"
    assert hosts.proof(stacks.load("xpu").rehearse(), here) == "nox -s xpu-rehearse"

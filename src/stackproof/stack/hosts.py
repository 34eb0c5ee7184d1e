"""Which stacks this host can run, and why: read from device nodes, the PCI bus and tools; needs no torch."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import advice
from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.base.files import kernel_value
from stackproof.stack.stacks import HostRequirement, Stack, load_all

PCI_DEVICES = Path("/sys/bus/pci/devices")

# PCI base classes of things that compute: display controllers, co-processors, processing accelerators
# (PCI Code and ID Assignment, section 1). A vendor's bridges and network cards must not pass for its cards.
_COMPUTE_CLASSES = ("0x03", "0x0b40", "0x12")


@dataclass(frozen=True)
class Requirement:
    """One requirement of a stack, held against this host."""

    what: str
    found: bool
    evidence: str


@dataclass(frozen=True)
class Availability:
    """What was looked for on behalf of one stack."""

    stack: Stack
    findings: tuple[Requirement, ...]

    @property
    def present(self) -> bool:
        """Whether the host has everything that the stack needs."""
        return all(finding.found for finding in self.findings)

    def refusal(self) -> StackUnavailableError:
        """Say in one sentence what was looked for and not found, and what to do."""
        missing = "; ".join(f"{row.what} (looked at {row.evidence})" for row in self.findings if not row.found)
        return StackUnavailableError(
            f"this host has no stack '{self.stack.name}': it lacks {missing}. To get it, {self.stack.install_hint}"
        )


def inspect(stack: Stack, root: str = "") -> Availability:
    """Hold the host against what the stack needs; a stack that needs nothing is always there.

    `root`: where the host's files lie, for a host that is looked at as a tree of files; its tools are then files too.
    """
    return Availability(stack, tuple(_look(row, root) for row in stack.host))


def require(stack: Stack) -> Stack:
    """Return the stack; refuse a host that lacks what it needs, before anything is downloaded."""
    availability = inspect(stack)
    if not availability.present:
        raise availability.refusal()
    return availability.stack


def proof(stack: Stack, here: bool | None = None) -> str:
    """Return what to type to have a stack proved, in an environment that this builds: without its card, its rehearsal.

    `here`: whether its card is, for who has looked already.
    """
    present = inspect(stack).present if here is None else here
    return advice.command(stack.name, "smoke" if present and not stack.rehearsed else "rehearse")


def preferred(root: str = "") -> Availability:
    """Return the stack with the highest priority that this host has; the CPU's needs nothing."""
    availability = next((availability for stack in load_all() if (availability := inspect(stack, root)).present), None)
    if availability is None:
        raise Refusal("this host has none of the stacks, and stacks/cpu, which needs nothing, is not there; restore it")
    return availability


def cards(vendors: tuple[str, ...], skip: tuple[str, ...] = (), root: str = "") -> dict[str, str]:
    """Return the makers' cards on the PCI bus that compute: address to vendor; bridges and network cards are none."""
    values = {}
    for card in sorted(Path(f"{root}{PCI_DEVICES}").glob("*")) if vendors else []:
        vendor, kind = kernel_value(card / "vendor"), kernel_value(card / "class")
        if vendor in vendors and kind.startswith(_COMPUTE_CLASSES) and card.name not in skip:
            values[card.name] = vendor
    return values


def _look(row: HostRequirement, root: str) -> Requirement:
    on_bus = cards(row.pci_vendors, row.pci_skip, root)
    seen = _existing(row.paths, root) + tools(row.tools, root)
    seen += [f"PCI {address} ({vendor})" for address, vendor in on_bus.items()]
    if seen:
        return Requirement(row.what, True, ", ".join(seen[:4]))
    looked = [*row.paths, *row.tools, *(f"{PCI_DEVICES} for vendor {vendor}" for vendor in row.pci_vendors)]
    return Requirement(row.what, False, ", ".join(looked))


def _existing(patterns: Iterable[str], root: str) -> list[str]:
    paths = [path for pattern in patterns for path in sorted(glob.glob(f"{root}{pattern}"))]  # noqa: PTH207 - absolute
    return [path[len(root) :] for path in paths]


def tools(names: tuple[str, ...], root: str = "") -> list[str]:
    """Return the paths of tools that are here, by name or by path."""
    if root:
        return _existing((name if "/" in name else f"/usr/bin/{name}" for name in names), root)
    return [path for name in names if (path := shutil.which(name))]

"""What torch and the installed packages say of themselves and of the devices, as facts for a record's provenance."""

from __future__ import annotations

from importlib import metadata

import torch

from stackproof.device import devices
from stackproof.record.records import Figure
from stackproof.stack import provenance
from stackproof.stack.stacks import Stack


def torch_facts(stack: Stack) -> dict[str, Figure]:
    """Return what torch knows: devices, driver under all of its names, build; runs inside the stack's environment."""
    cards = devices.visible(stack.device)
    facts: dict[str, Figure] = {
        "devices": len(cards),
        "torch.git_version": str(torch.version.git_version),
        "torch.threads": torch.get_num_threads(),
        "torch.cpu_capability": str(torch.backends.cpu.get_cpu_capability()),
    }
    for card in cards:
        facts[f"{card}.name"] = card.name()
        facts[f"{card}.memory_bytes"] = card.memory().total
        facts |= {f"{card}.{name}": value for name, value in card.driver().items()}
    return facts | {f"package.{name}": version for name, version in _versions().items()}


def _versions() -> dict[str, str]:
    found = {}
    for name in provenance.explaining().packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found

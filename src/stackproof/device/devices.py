"""The one seam over torch's devices: cpu, cuda (NVIDIA and HIP), xpu, and whatever registers itself with torch.

Which there are, and which one a word means. With `kinds` this is all that asks which type a device is of.
"""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stackproof.base.errors import Refusal, StackUnavailableError, answer, suggestion
from stackproof.device.kinds import Accelerator, Device, Host, quietly
from stackproof.device.names import require_of
from stackproof.record.records import Figure
from stackproof.stack import provenance, stacks

HOST: Device = Host(stacks.HOST, 0)


def kinds() -> dict[str, type[Device]]:
    """Return the device types of this torch: the known ones and the one that an extension registered."""
    registered = torch._C._get_privateuse1_backend_name()
    known: dict[str, type[Device]] = {stacks.HOST: Host, "cuda": Accelerator, "xpu": Accelerator}
    return known if registered == "privateuseone" else {**known, registered: Accelerator}


def count(kind: str) -> int:
    """Return how many devices of the type are visible; 0 where this torch was built without it.

    Raises:
        StackUnavailableError: asking the driver failed; what torch said is in the sentence, because "no device" would
            send people looking in the wrong place (`NameError: name 'amdsmi' is not defined`, for one).
    """
    if _class(kind) is Host:
        return 1
    module = quietly(lambda: torch.get_device_module(kind))
    if module is None:
        return 0
    try:
        return int(module.device_count())
    except Exception as error:
        asked = f"asking torch {torch.__version__} for its '{kind}' devices failed"
        raise StackUnavailableError(f"{asked}: {type(error).__name__}: {error}") from error


def visible(kind: str) -> tuple[Device, ...]:
    return tuple(_class(kind)(kind, index) for index in range(count(kind)))


def default(kind: str) -> Device:
    """Return the first visible device of the type, or refuse because there is none."""
    devices = visible(kind)
    if not devices:
        raise StackUnavailableError(
            f"torch {torch.__version__} sees no '{kind}' device; check the driver, permissions and visibility variables"
        )
    return devices[0]


def parse(text: str, kind: str) -> Device:
    """Return the one device that `text` names on a stack of type `kind`; anything else is refused with its reason."""
    require_of(text, kind)
    devices, index = visible(kind), int(text.partition(":")[2] or 0)
    if not devices:
        raise Refusal(f"device '{text}': no '{kind}' device is visible")
    if index >= len(devices):
        raise Refusal(f"device '{text}' does not exist; choose one of {', '.join(map(str, devices))}")
    return devices[index]


def _class(kind: str) -> type[Device]:
    try:
        return kinds()[kind]
    except KeyError:
        raise Refusal(
            f"there is no device type '{kind}'{suggestion(kind, kinds())}; known: {', '.join(kinds())}"
        ) from None


def torch_facts(stack: stacks.Stack) -> dict[str, Figure]:
    """Return what torch knows: devices, driver under all of its names, build; runs inside the stack's environment."""
    cards = visible(stack.device)
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
    for name in provenance.explaining().packages:
        if there := list(metadata.distributions(name=name)):
            facts[f"package.{name}"] = there[0].version
    return facts


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operators that reach a backend, as torch's dispatcher sees them, in order and by name (`mm`, `_foreach_add_`)."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


if __name__ == "__main__":  # DEVICE: whether this environment has it
    sys.exit(answer(lambda: parse(sys.argv[1], sys.argv[1].partition(":")[0])))

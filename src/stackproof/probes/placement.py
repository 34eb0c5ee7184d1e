"""Work that lands on the card that was asked for and on no other, however the card was spelled (docs/users-reports.md A2).

`torch.get_device_module` gives streams, events and the current device of every type, the CPU's among them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from stackproof.device import devices
from stackproof.device.kinds import Device
from stackproof.probes import children
from stackproof.record.checks import require
from stackproof.stack.stacks import Stack

_ELEMENTS = 1 << 20
_SIZE = 4 * _ELEMENTS
Made = Callable[[], torch.Tensor]


def spellings(card: Device) -> dict[str, Made]:
    """Return every accepted way to ask for this card; each makes a tensor of 4 MiB that is full of ones."""
    kind, index, plain = card.kind, card.index, torch.ones(_ELEMENTS)
    text = f"{kind}:{index}"
    return {
        f"device='{text}'": lambda: torch.ones(_ELEMENTS, device=text),
        f"torch.device('{text}')": lambda: torch.ones(_ELEMENTS, device=torch.device(text)),
        f"torch.device('{kind}', {index})": lambda: torch.ones(_ELEMENTS, device=torch.device(kind, index)),
        f"tensor.to('{text}')": lambda: plain.to(text, copy=True),
        f"tensor.to(torch.device('{text}'))": lambda: plain.to(torch.device(text), copy=True),
        f"tensor.to(tensor on {text})": lambda: plain.to(torch.empty(0, device=text), copy=True),
        f"tensor.{kind}()": lambda: _sent(card, plain),
        f"module.to('{text}')": lambda: _module().to(text).weight.detach(),
        f"module.{kind}()": lambda: _sent(card, _module()).weight.detach(),
        f"with torch.device('{text}')": lambda: _within(torch.device(text), lambda: torch.ones(_ELEMENTS)),
        f"current card, device='{kind}'": lambda: _within(
            card.current(), lambda: torch.ones(_ELEMENTS, device=kind)
        ),
        f"current card, tensor.to('{kind}')": lambda: _within(card.current(), lambda: plain.to(kind, copy=True)),
        "parsed by stackproof": lambda: torch.ones(_ELEMENTS, device=devices.parse(text, kind).torch),
    }  # fmt: skip


def _sent(card: Device, thing: Any) -> Any:
    """Call the method that torch names after the type; the CPU's takes no index."""
    return getattr(thing, card.kind)(*([] if card.shareable else [card.index]))


def _module() -> nn.Linear:
    module = nn.Linear(1024, 1024, bias=False)
    nn.init.ones_(module.weight)
    return module


def _within(context: Any, make: Made) -> torch.Tensor:
    with context:
        return make()


def lands(card: Device, cards: Sequence[Device], made: dict[str, Made]) -> int:
    """Make each tensor and compute with it: it must be on the card, counted there and nowhere else; returns how many."""
    for spelling, make in made.items():
        with unmoved(card, f"{spelling}"):
            before = {other: other.memory().allocated for other in cards}
            tensor = make()
            _is_on(card, tensor, spelling)
            _is_on(card, tensor + tensor, f"a sum of what {spelling} gave")
            count = int(tensor.sum().item())  # whole numbers below 2**24 are exact
        require(count == _ELEMENTS, f"{spelling}: {_ELEMENTS} ones sum to {count}")
        # A tensor may say that it is on one card and take memory of another; the host's memory is everybody's.
        for other in () if card.shareable else cards:
            grown, expected = other.memory().allocated - before[other], _SIZE if other == card else 0
            require(grown == expected, f"{spelling}: memory of {other} grew by {grown} bytes, {expected} were expected")
        del tensor
    return len(made)


def _is_on(card: Device, tensor: torch.Tensor, spelling: str) -> None:
    require(card.has(tensor), f"{spelling}: the tensor is on {tensor.device}, not on {card.torch}")


@contextmanager
def unmoved(card: Device, what: str) -> Any:
    """Fail if the block leaves another card current than it found."""
    module = torch.get_device_module(card.kind)
    before = module.current_device()
    yield
    after = module.current_device()
    require(after == before, f"{what}: the current device was {before} and is {after} afterwards")


def queues(card: Device) -> None:
    """A stream made for the card is on it, is current inside its block only, and orders work; so are its events."""
    module = torch.get_device_module(card.kind)
    with unmoved(card, f"a stream of {card}"), card.current():
        outside, stream = module.current_stream(), module.Stream()
        index = getattr(getattr(stream, "device", None), "index", getattr(stream, "device_index", None))
        require(index == card.index, f"{card}: a stream made while it is current belongs to card {index}")
        with module.stream(stream):
            require(module.current_stream() == stream, f"{card}: the stream is not current inside its own block")
            tensor = torch.ones(_ELEMENTS, device=card.torch)
            event = module.Event()
            event.record()
        require(module.current_stream() == outside, f"{card}: the stream is still current after its block")
        event.synchronize()
        require(event.query(), f"{card}: an event that was waited for is not done")
    _is_on(card, tensor, "work on a stream")
    card.synchronize()
    require(bool((tensor == 1).all()), f"{card}: work on a stream was lost")


def identity(card: Device) -> dict[str, str]:
    """Return what tells the card from its like: its name, and serial numbers where this torch knows them."""
    properties = torch.get_device_module(card.kind).get_device_properties(card.index)
    facts = {name: getattr(properties, name, None) for name in ("uuid", "pci_bus_id", "pci_device_id", "total_memory")}
    return {"name": card.name(), **{name: str(value) for name, value in facts.items() if value not in (None, "")}}


def seen_by_child(stack: Stack, card: Device, seconds: float) -> dict[str, Any]:
    """Start a process that may see this card only, under the stack's visibility variable, and return what it reports."""
    value = mask(os.environ.get(stack.visibility, ""), card.index)
    what, words = f"a process under {stack.visibility}={value}", (stack.device, *stack.imports)
    seen = {stack.visibility: value}
    return {"value": value, **children.ask(f"{__name__}:report", *words, what=what, seconds=seconds, environment=seen)}


def mask(outer: str, index: int) -> str:
    """Return the value that leaves card `index`: the variable may be set already, and then cards are numbered within it."""
    named = [part.strip() for part in outer.split(",") if part.strip()]
    return named[index] if index < len(named) else str(index)


def only_that_card(stack: Stack, card: Device, expected: dict[str, str], child: dict[str, Any]) -> None:
    """The child must have seen one card, the right one, and computed on it."""
    under = f"under {stack.visibility}={child['value']}"
    require(child["count"] == 1, f"{under} a process sees {child['count']} cards, one was expected")
    other = {name: child["identity"].get(name) for name in expected if child["identity"].get(name) != expected[name]}
    require(not other, f"{under} a process sees another card than {card}: {other}, expected {expected}")
    require(child["sum"] == _ELEMENTS, f"{under} {_ELEMENTS} ones sum to {child['sum']}")


def report() -> None:
    """Be the child: say how many cards are visible, which is the first, and what it computes."""
    kind, *imports = sys.argv[1:]
    for name in imports:
        __import__(name)
    card = devices.default(kind)
    count = int(torch.ones(_ELEMENTS, device=card.torch).sum().item())
    print(json.dumps({"count": devices.count(kind), "identity": identity(card), "sum": count}))  # noqa: T201

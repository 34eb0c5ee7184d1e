"""The operators that reach a backend, as torch's dispatcher sees them: what really ran, whatever was called."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operators that run while it is active, forward and backward, in order and by name (`mm`, `_foreach_add_`)."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))

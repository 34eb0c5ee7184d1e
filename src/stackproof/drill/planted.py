"""What code that is planted in the processes of a run is made of; imported there by a `sitecustomize`, so that it must load fast.

Whatever goes wrong by our hand says so: a fault that never fired has proved nothing.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stackproof.base.places import FIRED

Make = Callable[[Callable[..., Any]], Callable[..., Any]]


@functools.cache
def fired() -> None:
    """Leave a sign that the fault took effect in this process; in a codec that needs no import, for this runs inside of imports."""
    Path(os.environ[FIRED], f"{os.getpid()}.fired").write_text("fired\n", encoding="utf-8")


def in_checks() -> bool:
    """Whether this process runs the checks of a suite."""
    return "pytest" in sys.orig_argv


def in_rank(*ranks: int) -> bool:
    """Whether this process is a rank that a suite launched: one of these numbers, or any."""
    return "stackproof.ranks.joined" in sys.orig_argv and (not ranks or os.environ.get("RANK", "") in map(str, ranks))


def in_side(name: str) -> bool:
    """Whether this process is the side of a gate that is called so."""
    return "stackproof.gate.side" in sys.orig_argv and f'"name": "{name}"' in sys.orig_argv[-1]


def during(check: str) -> bool:
    """Whether a check whose name holds these words is running in this process (pytest names the test)."""
    return check in os.environ.get("PYTEST_CURRENT_TEST", "")


def replace(owner: Any, name: str, make: Make, check: str = "") -> None:
    """Put `make(original)` in the place of an attribute, for one check if it is named; a call of it is the fault."""
    original = getattr(owner, name)
    wrong = make(original)

    @functools.wraps(original, updated=())
    def planted(*arguments: Any, **keywords: Any) -> Any:
        if not during(check):
            return original(*arguments, **keywords)
        fired()
        return wrong(*arguments, **keywords)

    setattr(owner, name, planted)


def corrupt_operator(
    operator: str, change: Callable[[Any], Any], when: Callable[..., bool] = lambda *_: True, of: int = 0
) -> None:
    """Let every result of an operator that reaches the dispatcher (`mm.default`) go through `change`, from now on.

    `when` gets the result and the arguments; a change in place may return nothing. `of`: which of several results.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    wanted = functools.reduce(getattr, operator.split("."), torch.ops.aten)

    class Wrong(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
            result = function(*arguments, **(keywords or {}))
            if function is not wanted:
                return result
            meant = result[of] if isinstance(result, tuple) else result
            if not when(meant, *arguments):
                return result
            fired()
            changed = change(meant)
            changed = meant if changed is None else changed
            return (*result[:of], changed, *result[of + 1 :]) if isinstance(result, tuple) else changed

    Wrong().__enter__()  # type: ignore[no-untyped-call]


def single(result: Any, *_: Any) -> bool:
    """Whether a result is in float32: references are in float64 and stay right."""
    return str(result.dtype) == "torch.float32"


def watch(path: str) -> None:
    """Take the opening of a file, or of anything in a folder, for the fault: who reads what was doctored is under it."""
    prefix = os.path.abspath(path)  # noqa: PTH100 - not resolved: copies are made of links

    def listen(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str):
            return
        if os.path.abspath(arguments[0]).startswith(prefix):  # noqa: PTH100
            fired()

    sys.addaudithook(listen)


def doctor_sees(root: str) -> None:
    """Let the doctor look at a host made of files, where `/opt/env` is the Python environment if there is one."""
    from stackproof.doctor import machine

    prefix = Path(root) / "opt/env"
    fields: dict[str, Any] = {"prefix": prefix} if prefix.exists() else {}
    environ = {"PATH": "/usr/bin", "USER": "somebody", "HOME": "/home/somebody"}
    host = functools.partial(machine.Machine, root=Path(root), environ=environ, **fields)
    replace(machine, "Machine", lambda _: host)

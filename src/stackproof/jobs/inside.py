"""Runs somebody's Python file with torch's counters around it: `python -m stackproof.jobs.inside [--operators] --to FILE -- train.py ARGS`.

It stands alone, without any other module of ours, so that it can be run by its path in any environment. The file sees what it would see
without it: its own `__main__`, arguments and path.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main(words: list[str]) -> None:
    """Run the file, or `-m` and a module; whatever it raises, or exits with, goes through."""
    parser = argparse.ArgumentParser(prog="inside", allow_abbrev=False)
    parser.add_argument("--to", type=Path, required=True, help="where the counters are written to, as JSON")
    parser.add_argument("--operators", action="store_true", help="count every operator, which is slow")
    own, theirs = words[: words.index("--")], words[words.index("--") + 1 :]
    options = parser.parse_args(own)
    owner, counts = os.getpid(), dict[str, int]()
    try:
        with _operators(counts) if options.operators else contextlib.nullcontext():
            _run(theirs)
    finally:
        if os.getpid() == owner:  # a fork of theirs that ends here has nothing to say
            with contextlib.suppress(Exception):
                counts |= _counted(compiled=not options.operators)
            options.to.write_text(json.dumps(counts), encoding="utf-8")


def _run(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv = words[1:]
        _look_in(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = words
    _look_in(Path(words[0]).resolve().parent)
    module = types.ModuleType("__main__")
    module.__file__, module.__builtins__ = str(Path.cwd() / words[0]), __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    code = compile(Path(words[0]).read_bytes(), module.__file__, "exec")
    exec(code, module.__dict__)  # noqa: S102 - it is what the user asked us to run


def _look_in(folder: Path) -> None:
    """Put a folder where Python puts that of a file which it runs, unless it was told not to (`-I`, `-P`)."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = str(folder)


@contextlib.contextmanager
def _operators(counts: dict[str, int]) -> Iterator[None]:
    """Count operators that reach a backend, forward and backward; nothing where there is no torch."""
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        yield
        return

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            counts["operators"] = counts.get("operators", 0) + 1
            return func(*args, **(kwargs or {}))

    with Counting():  # type: ignore[no-untyped-call]
        yield


def _counted(*, compiled: bool) -> dict[str, int]:
    """Return what torch counted by itself: blocks that a card's allocator handed out, and how a compiler cut the model.

    While operators are counted nothing is compiled, so `compiled` says whether graphs tell anything; else whether it is worth another run.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    counts: dict[str, int] = {}
    with contextlib.suppress(Exception):
        counts["allocations"] = int(torch.get_device_module().memory_stats()["allocation.all.allocated"])
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and compiled:
        counts["graphs"] = int(dynamo.counters["stats"]["unique_graphs"])
        counts["graph-breaks"] = sum(dynamo.counters["graph_break"].values())
    elif dynamo is not None:
        counts["may compile"] = 1
    return counts


if __name__ == "__main__":
    main(sys.argv[1:])

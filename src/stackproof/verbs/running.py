"""From the options of a run to its exit code: what is refused at once, the run, and what is done with its record."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import hosts, stacks, stages
from ..errors import Refusal

if TYPE_CHECKING:
    from ..records import Record

Look = Callable[["Record"], None]

ALL = "all"


def run(options: argparse.Namespace, rehearsed: bool = False, look: Look | None = None) -> int:
    """Run what the options ask for, or show a record in its place; return the exit code.

    `look` sees the record after it was shown.
    """
    if options.replay:
        return _replay(options.replay, look)
    if not options.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(options.stack)
    return _conduct(options, stack.rehearse() if rehearsed else stack, look)


def _replay(path: Path, look: Look | None) -> int:
    from .. import records, summary

    record = records.read(path)
    summary.show(record, path)
    if look:
        look(record)
    return record.verdict.exit_code


def _conduct(options: argparse.Namespace, stack: stacks.Stack, look: Look | None) -> int:
    from .. import console, runs, summary
    from ..verify import Plan

    _check_device(options.device, stack)
    everything = stages.of_verb("verify") + stages.of_verb("ddp")
    chosen = everything if ALL in (options.suites or ()) else tuple(options.suites or options.otherwise)
    plan = Plan(
        verb=options.verb,
        stack=stack,
        suites=chosen,
        device=options.device,
        preset=options.preset,
        only=tuple(options.only),
        deadline_scale=options.deadline_scale,
        shuffle=options.shuffle,
        dataset=_dataset(options.dataset, chosen),
        preflight=options.preflight,
        options=options.told if "told" in options else {},
    )
    outputs = runs.Outputs(options.results or runs.LOCAL, options.json, options.junit)
    with console.Terminal().watching(f"{plan.verb} {stack.label}: {stack.title}") as terminal:
        record, where = runs.conduct(plan, outputs, terminal, options.resume)
    summary.show(record, where)
    if options.export_goldens:
        _export_goldens(record, where.parent)
    if look:
        look(record)
    return record.verdict.exit_code


def _dataset(path: Path | None, chosen: tuple[str, ...]) -> str:
    """Return the training set's full path, or refuse one that cannot be read or that nothing would read."""
    if path is None:
        return ""
    if "data" not in chosen:
        raise Refusal(f"--dataset {path}: only the suite 'data' reads it; add --suite data")
    try:
        path.open("rb").close()
    except OSError as error:
        raise Refusal(
            f"--dataset {path}: cannot be read ({error.strerror}); name a file of JSON or JSON Lines"
        ) from error
    return str(path.resolve())


def _export_goldens(record: Record, run: Path) -> None:
    from ..distributed import goldens
    from ..records import Verdict

    passed = [check.id for check in record.checks if check.verdict is Verdict.PASSED]
    kept = goldens.collect(run, [name.partition("curve[")[2][:-1] for name in passed if "::curve[" in name])
    if not kept:
        raise Refusal("no golden was written: no loss curve of this run agreed with float64; run the suite convergence")
    for path in kept:
        print(f"kept {path}")  # noqa: T201


def _check_device(text: str, stack: stacks.Stack) -> None:
    """Refuse a bad device string at once; a host or a torch that is not right has its own sentence later."""
    if not text or not hosts.inspect(stack).present:
        return
    try:
        from ..device import parse
    except (ImportError, OSError):
        return
    parse(text, stack.device)

"""The verb `asv`: asv itself, with what a stack adds, and the history of states as a second set of its pages. Imports asv.

`run` and `continuous` measure in the environment of a stack, `compare` and `publish` read what is in the store; with `--states` the
commits are states of the stack (a driver, a wheel) in place of commits of the code.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from asv import util
from asv.commands import make_argparser
from asv.console import log

from stackproof import ROOT
from stackproof.base import processes
from stackproof.base.errors import Refusal
from stackproof.bench.subjects import profile
from stackproof.history import leaf
from stackproof.history.timeline import entries
from stackproof.record import store
from stackproof.record.store import rules, slug
from stackproof.stack import provenance, stacks

STATES = Path(".asv") / "states"
CONFIGURATION = "asv.conf.json"
_MEASURING = ("run", "continuous")
_IN_STACK = (*_MEASURING, "check", "setup")
_BY_STATE = ("compare", "publish", "show", "preview")
_INTERRUPTED = 130


@dataclass(frozen=True)
class Wish:
    """One call of asv: its own arguments, and the stack, device and profile that ours add."""

    stack: str
    rehearsed: bool
    states: bool
    profile: str
    device: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        """What asv is to do: the first word that is no flag."""
        return next((word for word in self.arguments if not word.startswith("-")), "")


def call(wish: Wish) -> int:
    """Run asv and return the exit code of the contracts: asv says 2 where a benchmark failed, that is 1 here.

    Raises:
        Refusal: the command makes no sense for what was asked.
    """
    os.chdir(ROOT)
    os.environ[leaf.PROFILE] = profile(wish.profile).name
    os.environ[leaf.DEVICE] = wish.device
    if not wish.arguments:
        raise Refusal(
            "which command of asv? For example: run HEAD^!, continuous HEAD~1 HEAD, compare HEAD~1 HEAD, publish, check"
        )
    if wish.states and wish.command not in _BY_STATE:
        known = ", ".join(_BY_STATE)
        raise Refusal(f"states are made from the records of other runs; with --states there are: {known}")
    if wish.states:
        show_states()
        return _asv(["--config", str(STATES / CONFIGURATION), *wish.arguments, *_this_host(wish)])
    code = _asv(_completed(wish))
    if code or wish.command != "publish" or not show_states():
        return code
    # Below the code's pages.
    command = [sys.executable, "-m", "asv", "--config", str(STATES / CONFIGURATION), "publish"]
    return 0 if processes.run(command, seconds=math.inf, captured=False).ok else 1


def _completed(wish: Wish) -> list[str]:
    """Add what asv has to be told each time: the stack's environment, raw samples, and which host's results are compared."""
    arguments = list(wish.arguments)
    if wish.command in _IN_STACK:
        if not wish.stack:
            raise Refusal(f"asv {wish.command} measures in the environment of a stack; add --stack NAME before it")
        os.environ[leaf.STACK] = stacks.load(wish.stack).name
        os.environ[leaf.REHEARSED] = "1" if wish.rehearsed else ""
    if wish.command in _MEASURING:
        arguments.append("--record-samples")
    return arguments + _this_host(wish)


def _this_host(wish: Wish) -> list[str]:
    """Say which machine: asv compares within one machine and wants its name once there are several."""
    named = any(word == "-m" or word.startswith("--machine") for word in wish.arguments)
    return ["--machine", slug(provenance.host_name())] if wish.command == "compare" and not named else []


def show_states() -> int:
    """Bring the repository of states and what asv keeps of it up to date; return how many places there are."""
    from stackproof.history import asv_view

    loaded = store.dated(store.load(store.folders()))
    for sentence in loaded.problems:
        log.warning(sentence)
    chains = asv_view.show_states(STATES, entries(loaded.records))
    configuration = {
        "version": 1,
        "project": "stackproof, by state of the stack",
        "repo": "repository",
        "dvcs": "git-quick",
        "branches": sorted(chains) or ["none"],
        "plugins": [".stackproof.history.asv_view"],
        "environment_type": "existing",
        "benchmark_dir": str(ROOT / "benchmarks"),
        "results_dir": "results",
        "html_dir": str(ROOT / ".asv" / "html" / "states"),
        "regressions_thresholds": {".*": rules().share},
    }
    (STATES / CONFIGURATION).write_text(json.dumps(configuration, indent=1), encoding="utf-8")
    return len(chains)


def _asv(arguments: Sequence[str]) -> int:
    """Call asv in this process, as its own main does, but tell its ends apart."""
    sys.argv = ["asv", *arguments]
    parser, _ = make_argparser()
    options = parser.parse_args(list(arguments))
    action: Callable[[object], int | None] | None = getattr(options, "func", None)
    if action is None:
        raise Refusal(f"asv has no command in '{' '.join(arguments)}'")
    log.enable(options.verbose)
    if options.config:
        options.config = str(Path(options.config).resolve())
        os.chdir(Path(options.config).parent)
    try:
        return 1 if action(options) else 0
    except util.UserError as error:
        log.error(str(error))
        return _INTERRUPTED if str(error) == "Interrupted." else getattr(error, "exit_code", 2)
    except util.ProcessError as error:  # asv has said what git, or whatever it ran, had to say
        log.error(str(error))
        return 2
    finally:
        log.flush()

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
from pathlib import Path

from asv import util
from asv.commands import make_argparser
from asv.console import log

from stackproof import ROOT
from stackproof.base import processes
from stackproof.base.errors import Refusal
from stackproof.bench.subjects import profile
from stackproof.device.names import require_of
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


def call(words: list[str], *, stack: str, rehearsed: bool, states: bool, subjects: str, device: str) -> int:
    """Run asv and return the exit code of the contracts: asv says 2 where a benchmark failed, that is 1 here.

    `words`: asv's own; `subjects`: the profile.

    Raises:
        Refusal: the command makes no sense for what was asked.
    """
    os.chdir(ROOT)
    os.environ[leaf.PROFILE] = profile(subjects).name
    os.environ[leaf.DEVICE] = device
    command = next((word for word in words if not word.startswith("-")), "")
    if not words:
        raise Refusal(
            "which command of asv? For example: run HEAD^!, continuous HEAD~1 HEAD, compare HEAD~1 HEAD, publish, check"
        )
    if states and command not in _BY_STATE:
        known = ", ".join(_BY_STATE)
        raise Refusal(f"states are made from the records of other runs; with --states there are: {known}")
    if command == "compare" and not any(word == "-m" or word.startswith("--machine") for word in words):
        words = [
            *words,
            "--machine",
            slug(provenance.host_name()),
        ]  # asv compares within one machine, and wants its name
    if states:
        places = show_states()
        if code := _asv(["--config", str(STATES / CONFIGURATION), *words]):
            log.warning(
                f"places that have states: {', '.join(places) or 'none'}; the newest of one is PLACE, the one before PLACE~1"
            )
        return code
    if command in _IN_STACK:
        if not stack:
            raise Refusal(f"asv {command} measures in the environment of a stack; add --stack NAME before it")
        chosen = stacks.load(stack, rehearsed=rehearsed)
        if device:
            require_of(device, chosen.device)
        os.environ[leaf.STACK] = chosen.name
        os.environ[leaf.REHEARSED] = "1" if rehearsed else ""
    code = _asv([*words, *(["--record-samples"] if command in _MEASURING else [])])
    if code or command != "publish" or not show_states():
        return code
    # Below the code's pages.
    publish = [sys.executable, "-m", "asv", "--config", str(STATES / CONFIGURATION), "publish"]
    return 0 if processes.run(publish, seconds=math.inf, captured=False).ok else 1


def show_states() -> list[str]:
    """Bring the repository of states and what asv keeps of it up to date; return the places that there are."""
    from stackproof.history import asv_view

    loaded = store.load(store.folders())
    for sentence in loaded.problems:
        log.warning(sentence)
    chains = asv_view.show_states(STATES, entries(loaded.records))
    configuration = {
        "version": 1,
        "project": "stackproof, by state of the stack",
        "repo": "repository",
        "dvcs": "git",
        "branches": sorted(chains) or ["none"],
        "plugins": [".stackproof.history.asv_view"],
        "environment_type": "existing",
        "benchmark_dir": str(ROOT / "benchmarks"),
        "results_dir": "results",
        "html_dir": str(ROOT / ".asv" / "html" / "states"),
        "regressions_thresholds": {".*": rules().share},
    }
    (STATES / CONFIGURATION).write_text(json.dumps(configuration, indent=1), encoding="utf-8")
    return sorted(chains)


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
        remedy = "; is a commit misspelt, or still to be fetched with `git fetch`?" if "rev-" in str(error) else ""
        log.error(f"{error}{remedy}")
        return 2
    finally:
        log.flush()

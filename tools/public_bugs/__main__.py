"""Which publicly known silent wrong results of released torch wheels the engine turns red by name: `nox -s public-bugs -- VERSION...`.

Each version gets a plain environment in a temporary folder; a bug counts where its own code shows it there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from stackproof import ROOT
from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.toml import read_toml
from stackproof.stack import environments

BUGS = Path(__file__).with_name("bugs.toml")
VERSIONS = {"2.4.1": "3.10", "2.6.0": "3.11", "2.8.0": "3.11", "2.15.0": "3.11"}
_NEEDS = ("numpy<3", "expecttest", "pyyaml", "pytest", "packaging", "rich", "tomli", "setuptools<80")
_CONFIRM = """
import json, sys, warnings
from math import inf
import torch
from torch.nn import functional as F

warnings.simplefilter("ignore")
found = {}
for bug in json.load(sys.stdin):
    names = {"torch": torch, "F": F, "inf": inf}
    torch.manual_seed(0), torch.set_num_threads(1)
    try:
        exec(bug["code"], names)
        found[bug["id"]] = bool(names["wrong"])
    except Exception as error:
        found[bug["id"]] = f"{type(error).__name__}: {error}"[:120]
print(json.dumps([torch.__version__, found]))
"""
_ASK = """
import json, sys
import torch
from stackproof.operators import engine
from stackproof.operators.database import preserved

found, cases = {}, json.load(sys.stdin)
with preserved():
    for judge, name in engine.cases():
        if name in cases:
            wrong = [f"{relation.says}: {said}" for _, relation, said in engine.faults(judge, name, torch.device("cpu"))]
            if wrong:
                found[f"{judge}-{name}"] = wrong
print(json.dumps(found))
"""
_LIST = "import json; from stackproof.operators import engine; print(json.dumps(sorted({name for _, name in engine.cases()})))"


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Return what a program prints.

    Raises:
        Refusal: it fails.
    """
    ended = processes.run(command, seconds=1800, environment=environment)
    if not ended.ok:
        raise Refusal(f"{command[0]} ended with {ended.code}: {ended.errors.strip()[-300:]}")
    return ended.output


def _ask(python: str, code: str, given: Any, folder: Path) -> Any:
    """Run code in an environment and return what it prints last, as JSON."""
    asked, script = folder / "asked.json", folder / "ask.py"
    asked.write_text(json.dumps(given), encoding="utf-8")
    script.write_text(code.replace("sys.stdin", f"open({str(asked)!r})"), encoding="utf-8")
    variables = {"PYTHONPATH": str(ROOT / "src")}
    return files.parse_json(
        _run([python, str(script)], variables).strip().splitlines()[-1], "what the environment says"
    )


def made(version: str, folder: Path) -> str:
    """Return the Python of a plain environment of a version of torch."""
    place = folder / version
    uv = str(environments.find_uv(print))
    _run([uv, "venv", "-q", "--python", VERSIONS.get(version, "3.11"), str(place)])
    python = str(place / "bin" / "python")
    _run([uv, "pip", "install", "-q", "--python", python, f"torch=={version}", *_NEEDS])
    return python


def scored(python: str, folder: Path) -> list[tuple[str, str]]:
    """Return each bug that this torch has, and the check that turned red for it, if one did."""
    bugs = read_toml(BUGS)["bug"]
    version, confirmed = _ask(python, _CONFIRM, bugs, folder)
    here = [bug for bug in bugs if confirmed[bug["id"]] is True]
    sys.stdout.write(f"torch {version}: {len(here)} of {len(bugs)} bugs are there\n")
    for name, said in confirmed.items():
        if isinstance(said, str):
            sys.stdout.write(f"  {name} could not be tried: {said}\n")
    names = _ask(python, _LIST, None, folder)
    patterns = [pattern for bug in here for pattern in bug["named"]]
    asked = [name for name in names if any(fnmatchcase(name, pattern.partition("-")[2]) for pattern in patterns)]
    red = _ask(python, _ASK, asked, folder)
    rows = []
    for bug in here:
        named = [case for case in red if any(fnmatchcase(case, pattern) for pattern in bug["named"])]
        hits = [
            f"{case}: {said}" for case in named for said in red[case] if any(w in said for w in bug.get("says", [""]))
        ]
        rows.append((bug["id"], next(iter(hits), "")))
    return rows


def main(words: list[str]) -> int:
    """Print one line for each bug, and the rate; 1 if less than 80 % of those that are there turn a check red."""
    parser = argparse.ArgumentParser(prog="public-bugs", description=__doc__)
    parser.add_argument("torch", nargs="*", help="versions, or paths of a Python that has one", default=[*VERSIONS])
    worst = 1.0
    with tempfile.TemporaryDirectory() as place:
        for version in parser.parse_args(words).torch:
            try:
                rows = scored(version if "/" in version else made(version, Path(place)), Path(place))
            except Refusal as refusal:
                parser.error(str(refusal))
            for bug, check in rows:
                sys.stdout.write(f"  {'red' if check else 'MISSED'} {bug}: {check[:110]}\n")
            share = sum(bool(check) for _, check in rows) / max(1, len(rows))
            sys.stdout.write(f"  {share:.0%} of {len(rows)}\n")
            worst = min(worst, share)
    return int(worst < 0.8)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

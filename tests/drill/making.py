"""Small faults, and a program in the place of the verbs that leaves the record which a test wants."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from stackproof.drill.inject import Injection, Planted
from stackproof.drill.run import DrilledRun
from stackproof.drill.table import Call, Fault, Symptoms
from stackproof.record.records import Check, Record, Verdict, overall

CAUGHT = "rng/rng::state"


def call(**changed: Any) -> Call:
    """Return a run of one check."""
    given = {"verb": "verify", "stack": "", "suites": ("rng",), "whole": False, "only": (), "arguments": ()}
    return Call(**{**given, **changed})


def fault(injection: Injection | None = None, **changed: Any) -> Fault:
    """Return a fault that one check has to see."""
    expected = Symptoms({CAUGHT: "differ"}, 1, ("rng/rng::independent",))
    given: dict[str, Any] = {
        "id": "some-fault",
        "area": "compute",
        "imitates": "something that goes wrong",
        "source": "user report A7",
        "fast": False,
        "clean_alone": False,
        "deadline_s": 60,
        "call": call(),
        "injection": injection or Planted("fired()"),
        "expected": expected,
    }
    return Fault(**{**given, **changed})


def ended(checks: dict[str, Check] | None = None, exit_code: int | None = 1, fired: int = 1) -> DrilledRun:
    """Return the end of a run in which the fault was caught as it must."""
    seen = {CAUGHT: red("bits differ"), "rng/rng::independent": GREEN} if checks is None else checks
    return DrilledRun(
        ["python", "-m", "stackproof", "verify"], exit_code, seen, fired, 1.5, Path("log"), ["its last line"]
    )


def red(reason: str) -> Check:
    """Return a check that failed."""
    return Check(CAUGHT, Verdict.FAILED, reason, 0.0)


GREEN = Check(CAUGHT, Verdict.PASSED, "as expected", 0.0)


def program(folder: Path, record: Record | None, code: int, said: str = "", body: str = "") -> Path:
    """Write a program that is called like Python with a verb, runs `body`, leaves a record, prints and ends so."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python"
    text = record.as_json() if record else ""
    path.write_text(
        textwrap.dedent(f"""\
            #!{sys.executable}
            import sys
            {textwrap.indent(textwrap.dedent(body), " " * 12).lstrip()}
            if {bool(text)}:
                open(sys.argv[sys.argv.index("--json") + 1], "w").write({json.dumps(text)})
            print({said!r}, file=sys.stderr)
            sys.exit({code})
            """),
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def record(**verdicts: Verdict) -> Record:
    """Return a record with checks of the suite rng that ended so."""
    checks = [Check(f"rng/rng::{name}", verdict, "bits differ", 0.1) for name, verdict in verdicts.items()]
    return Record("verify", "cpu", "2026-01-01T00:00:00+00:00", 1.0, overall(verdicts.values()), {}, checks)

"""The whole drill with a program in the place of the verbs: faults, the runs without one, and what nothing covers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stackproof.drill import drill as conduct
from stackproof.drill import run
from stackproof.drill.drill import cleans
from stackproof.drill.inject import Checkout, Edit, Planted, Variables
from stackproof.drill.table import Fault, Faults, Symptoms
from stackproof.record.records import Check, Record, Verdict

from .making import CAUGHT, call, fault, program, record

FIRES = Planted("fired()", "everywhere")
RED = record(state=Verdict.FAILED, independent=Verdict.PASSED)
GREEN = record(state=Verdict.PASSED, independent=Verdict.PASSED)
# Red under the fault, which is planted, and green without it.
BODY = "import os; planted = any('fired()' in open(f'{path}/sitecustomize.py').read() for path in sys.path if path.endswith('planted'))"


@pytest.fixture
def verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a program in the place of every verb; it writes the red record where the expression holds, else the green one."""
    monkeypatch.setattr(conduct.environments, "stamp", lambda _: None)  # an environment that is built would be taken

    def place(when: str) -> None:
        write = "open(sys.argv[sys.argv.index('--json') + 1], 'w').write"
        choose = f"{BODY}; red = {when}; {write}({RED.as_json()!r} if red else {GREEN.as_json()!r}); sys.exit(int(red))"
        monkeypatch.setattr(run, "THIS_PYTHON", str(program(tmp_path / "bin", None, 0, body=choose)))

    return place


def drill(*faults: Fault, told: Callable[[Check], None] = lambda _: None, workers: int = 2) -> Record:
    """Run the drill over these faults."""
    return conduct.conduct(conduct.DrillRequest(Faults(faults, ()), faults, workers), told)


def ends(found: Record) -> dict[str, Verdict]:
    """Return how the checks of a record ended, coverage apart."""
    return {check.id: check.verdict for check in found.checks if check.id != "coverage"}


def test_a_fault_is_caught_and_its_run_without_it_is_clean(verbs: Callable[[str], None]) -> None:
    verbs("planted")
    heard: list[str] = []
    found = drill(fault(FIRES), told=lambda check: heard.append(check.id))
    assert ends(found) == {"compute/some-fault": Verdict.PASSED, "clean/verify cpu rng": Verdict.PASSED}
    assert sorted(heard) == sorted(check.id for check in found.checks)


def test_a_fault_that_nothing_catches_fails_the_drill(verbs: Callable[[str], None]) -> None:
    verbs("False")
    found = drill(fault(FIRES))
    assert ends(found)["compute/some-fault"] is Verdict.FAILED
    assert found.verdict is Verdict.FAILED
    assert f"NOT CAUGHT: {CAUGHT} passed" in found.checks[0].reason


def test_a_check_that_is_always_red_is_no_catch(verbs: Callable[[str], None]) -> None:
    verbs("True")
    assert ends(drill(fault(FIRES)))["clean/verify cpu rng"] is Verdict.FAILED


def test_a_fault_that_cannot_be_injected_is_no_catch(verbs: Callable[[str], None]) -> None:
    verbs("True")
    edited = fault(Checkout((Edit("noxfile.py", pattern="no such words", replacement="x"),)))
    found = drill(edited)
    assert ends(found)["compute/some-fault"] is Verdict.FAILED
    assert "could not be injected: noxfile.py: the edit changed nothing" in found.checks[0].reason


def test_runs_without_a_fault_are_shared() -> None:
    rows = [
        fault(FIRES, id="a"),
        fault(Variables({"A": "1"}), id="b", expected=Symptoms({"rng/rng::seed[normal]": "x"}, 1, ())),
        fault(FIRES, id="c", call=call(suites=("timer",))),
        fault(Checkout((Edit("a", append="x"),)), id="d"),
    ]
    shared, other, copied = cleans(rows)
    assert shared.checks == (CAUGHT, "rng/rng::independent", "rng/rng::seed[normal]")
    assert not shared.alone
    assert [one.name for one in (other, copied)] == ["clean/verify cpu timer", "clean/verify cpu rng checkout"]


def test_runs_without_a_fault_keep_company_where_they_may() -> None:
    rows = [fault(FIRES, id="a"), fault(FIRES, id="b", clean_alone=True)]
    found = cleans(rows)
    assert [(one.name, one.alone) for one in found] == [
        ("clean/verify cpu rng", False),
        ("clean/verify cpu rng alone", True),
    ]


@pytest.fixture
def heeded() -> Iterator[None]:
    """Ctrl-C is heard: a process that runs a part of the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("heeded")
def test_an_interrupted_drill_says_so_and_keeps_what_it_had(verbs: Callable[[str], None]) -> None:
    verbs("__import__('time').sleep(600)")
    threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    found = drill(fault(FIRES), fault(FIRES, id="other"))
    assert found.verdict is Verdict.INTERRUPTED
    assert ends(found) == {"drill": Verdict.INTERRUPTED}

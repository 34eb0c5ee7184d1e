"""The supervisor: whatever happens to the process that runs the checks, the record says it and the rest still runs."""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackproof.base import processes
from stackproof.base.errors import Refusal
from stackproof.record.records import Check, Record, Verdict
from stackproof.runner import supervise
from stackproof.runner.request import Request
from stackproof.runner.supervise import CheckProcess, RunState
from stackproof.stack import stacks

from ..conftest import RunSuite, Silent

PASSING = "def test_fine() -> None:\n    pass\n"

EVERYTHING = {
    "test_1_ends.py": """
        import pytest
        from stackproof.record.checks import CapabilityMissing, CheckInconclusive, require
        from stackproof.record.records import Measurement

        def test_passes(figures):
            figures["seen"] = float("nan")
            figures["summary"] = "all is well"

        def test_fails():
            require(False, "error 2 exceeds the bound 1")

        def test_raises():
            raise ValueError("first line\\nsecond line")

        def test_bare_skip():
            pytest.skip("no reason from data")

        def test_lacks():
            raise CapabilityMissing("stack.toml: precisions has no float16")

        def test_undecided():
            raise CheckInconclusive("too noisy")

        def test_measures(measured):
            measured(Measurement("gemm", "tiny", "float32", 1, "rate", "s/GB", 2.0, [1.0, 2.0, 3.0]))

        @pytest.fixture
        def broken():
            raise OSError("no such device")

        def test_setup_breaks(broken):
            pass
    """,
    "test_2_dies.py": """
        import os, signal

        def test_crashes():
            os.kill(os.getpid(), signal.SIGSEGV)

        def test_loses_the_device(device, monkeypatch):
            monkeypatch.setattr("stackproof.runner.plugin.computes", lambda device: False)
            raise RuntimeError("device-side assert triggered")

        def test_after_a_crash():
            pass
    """,
    "test_3_hangs.py": """
        import subprocess, time
        import pytest

        @pytest.mark.deadline(1)
        def test_hangs_here():
            subprocess.Popen(["sleep", "600"])
            time.sleep(600)

        def test_after_a_hang():
            pass
    """,
    "test_3_spoils.py": """
        import json, os, shutil, time
        from pathlib import Path
        import numpy
        import pytest
        from stackproof.record.records import Measurement

        HOME = Path(json.loads(Path(os.environ["STACKPROOF_REQUEST"]).read_text())["folder"])

        def test_odd_figure(figures):
            figures["seen"] = numpy.float32(1)

        def test_large_figure(figures):
            figures["seen"] = -(10**309)

        @pytest.mark.deadline("soon")
        def test_odd_deadline():
            pass

        def test_odd_measurement(measured):
            measured(Measurement("gemm", "tiny", "float32", 1, "rate", "s/GB", numpy.ones(2), [1.0]))

        def test_no_json():
            with (HOME / "events.jsonl").open("a") as stream:
                stream.write("hello\\n")
            time.sleep(60)

        def test_no_event():
            with (HOME / "events.jsonl").open("a") as stream:
                stream.write('{"event": "finished", "check": 5}\\n')
            time.sleep(60)

        def test_interrupts():
            raise KeyboardInterrupt

        @pytest.fixture
        def interrupting():
            raise KeyboardInterrupt

        def test_after_an_interrupt(interrupting):
            pass

        def test_ends_well():
            os._exit(0)

        def test_folder_vanishes():
            shutil.rmtree(HOME)
            time.sleep(60)

        def test_after_all_that():
            pass
    """,
    "test_4_left_out.py": """
        class TestLeftOut:
            def __init__(self):
                pass
    """,
    "test_4_broken.py": "import a_module_that_does_not_exist\n",
}


@pytest.fixture(scope="module")
def watched(run_suite: RunSuite) -> tuple[Record, Silent]:
    """One run of a suite in which everything goes wrong that can."""
    observer = Silent()
    return run_suite(EVERYTHING, observer=observer, fresh=True), observer


@pytest.fixture(scope="module")
def checks(watched: tuple[Record, Silent]) -> dict[str, Check]:
    """The checks of that run by name."""
    return {check.id: check for check in watched[0].checks}


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("own/ends::passes", Verdict.PASSED, "all is well"),
        ("own/ends::fails", Verdict.FAILED, "error 2 exceeds the bound 1"),
        ("own/ends::raises", Verdict.FAILED, "ValueError: first line"),
        ("own/ends::bare_skip", Verdict.FAILED, "skipped without a rule"),
        ("own/ends::lacks", Verdict.SKIPPED, "precisions has no float16"),
        ("own/ends::undecided", Verdict.INCONCLUSIVE, "too noisy"),
        ("own/ends::setup_breaks", Verdict.FAILED, "OSError: no such device"),
        ("own/dies::crashes", Verdict.CRASHED, "SIGSEGV"),
        ("own/dies::loses_the_device", Verdict.CRASHED, "assert triggered; nothing computes on cpu since then"),
        ("own/dies::after_a_crash", Verdict.PASSED, "as expected"),
        ("own/hangs::hangs_here", Verdict.HUNG, "test_hangs_here"),
        ("own/hangs::after_a_hang", Verdict.PASSED, "as expected"),
        ("own/spoils::odd_figure", Verdict.FAILED, "its figure 'seen' is a float32, which no record can hold"),
        ("own/spoils::large_figure", Verdict.FAILED, "its figure 'seen' is a int, which no record can hold"),
        ("own/spoils::odd_deadline", Verdict.FAILED, "its mark deadline has 'soon', which is no number of seconds"),
        ("own/spoils::odd_measurement", Verdict.FAILED, "not JSON serializable"),
        ("own/spoils::no_json", Verdict.CRASHED, "a line of its events is none"),
        ("own/spoils::no_event", Verdict.CRASHED, "a line of its events is none"),
        ("own/spoils::interrupts", Verdict.FAILED, "raised KeyboardInterrupt, which would end the checks after it"),
        ("own/spoils::after_an_interrupt", Verdict.FAILED, "raised KeyboardInterrupt, which would end the checks"),
        ("own/spoils::ends_well", Verdict.CRASHED, "exit code 0"),
        ("own/spoils::folder_vanishes", Verdict.CRASHED, "cannot be read any more"),
        ("own/spoils::after_all_that", Verdict.PASSED, "as expected"),
        ("own/broken", Verdict.FAILED, "a_module_that_does_not_exist"),
        ("own/left_out::TestLeftOut", Verdict.FAILED, "has a __init__ constructor"),
    ],
)
def test_each_check_gets_its_verdict(checks: dict[str, Check], name: str, verdict: Verdict, words: str) -> None:
    assert verdict is checks[name].verdict
    assert words in checks[name].reason


def test_no_check_is_reported_twice(watched: tuple[Record, Silent]) -> None:
    names = [check.id for check in watched[0].checks]
    assert sorted(set(names)) == sorted(names)


def test_the_gravest_verdict_calls_the_run(watched: tuple[Record, Silent]) -> None:
    assert watched[0].verdict is Verdict.HUNG


def test_the_observer_hears_everything(watched: tuple[Record, Silent]) -> None:
    record, observer = watched
    assert record.checks == observer.ended
    assert "own/hangs::hangs_here" in observer.begun
    assert observer.total == 24  # the file that cannot be collected has no checks


def test_measurements_reach_the_record(watched: tuple[Record, Silent]) -> None:
    (row,) = watched[0].measurements
    assert (row.workload, row.samples) == ("gemm", [1.0, 2.0, 3.0])


def test_torch_facts_reach_provenance(watched: tuple[Record, Silent]) -> None:
    assert watched[0].provenance["devices"] == 1


def test_an_empty_suite_fails(run_suite: RunSuite) -> None:
    record = run_suite({})
    assert record.verdict is Verdict.FAILED
    assert "checks of own ran: 0 were executed" in record.checks[-1].reason


@pytest.mark.slow
def test_skips_alone_do_not_reach_the_expected_count(run_suite: RunSuite) -> None:
    text = "from stackproof.record.checks import CapabilityMissing\ndef test_lacks():\n    raise CapabilityMissing('stack.toml: by rule')\n"
    record = run_suite({"test_a.py": text}, expected=1)
    assert [Verdict.SKIPPED, Verdict.FAILED] == [check.verdict for check in record.checks]
    assert "expects at least 1" in record.checks[-1].reason


@pytest.mark.slow
def test_fewer_checks_than_promised_fail(run_suite: RunSuite) -> None:
    record = run_suite({"test_a.py": PASSING}, expected=2)
    assert record.verdict is Verdict.FAILED
    assert "checks of own ran: 1 were executed" in record.checks[-1].reason


def test_what_never_ran_counts_for_nothing(run_suite: RunSuite) -> None:
    drops = "def pytest_collection_finish(session):\n    session.items[:] = session.items[:1]\n"
    record = run_suite({"conftest.py": drops, "test_a.py": PASSING, "test_b.py": PASSING}, expected=2)
    assert [(check.id, check.reason[:50]) for check in record.checks[1:]] == [
        ("guard: own", "find out why too few checks of own ran: 1 were exe"),
        ("own/b::fine", "was collected but never ran"),
    ]
    assert float(record.provenance["loading_seconds"]) > 0


def test_only_runs_what_matches(run_suite: RunSuite) -> None:
    record = run_suite({"test_a.py": PASSING, "test_b.py": PASSING}, expected=2, only=("own/a::*",))
    assert ["own/a::fine"] == [check.id for check in record.checks]
    assert record.verdict is Verdict.PASSED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "hint"), [("own/a::fien", "did you mean 'own/a::fine'"), ("own/a", "patterns may hold")]
)
def test_only_that_matches_nothing_is_refused(run_suite: RunSuite, pattern: str, hint: str) -> None:
    with pytest.raises(Refusal) as refusal:
        run_suite({"test_a.py": PASSING}, only=(pattern,))
    assert f"--only '{pattern}' matches no check of own" in str(refusal.value)
    assert hint in str(refusal.value)


@pytest.mark.parametrize("pattern", ["own/b::*", "own/b", "*fine_too"])
def test_a_pattern_of_a_file_that_cannot_be_imported_is_no_slip(run_suite: RunSuite, pattern: str) -> None:
    record = run_suite({"test_a.py": PASSING, "test_b.py": f"import nosuch_x\n{PASSING}"}, only=(pattern,))
    (check,) = record.checks
    assert (check.id, check.verdict) == ("own/b", Verdict.FAILED)
    assert "No module named 'nosuch_x'" in check.reason


def test_a_file_that_refuses_as_it_is_imported_ends_the_run_with_that(run_suite: RunSuite) -> None:
    refuses = "from stackproof.base.errors import Refusal\n\nraise Refusal('--case x: names nothing')\n"
    with pytest.raises(Refusal, match="^--case x: names nothing$"):
        run_suite({"test_a.py": refuses, "test_b.py": PASSING}, only=("own/b::fine",))


def test_only_of_a_suite_without_checks_is_refused(run_suite: RunSuite) -> None:
    with pytest.raises(Refusal, match="of which pytest collects no check at all"):
        run_suite({"test_a.py": "def test_fine():\n    pass\n\ntest_fine = None\n"}, only=("own/a::fine",))


@pytest.mark.slow
def test_what_other_patterns_ran_is_kept(run_suite: RunSuite) -> None:
    record = run_suite({"test_a.py": PASSING}, only=("own/a::fine", "own/a::fien"))
    assert [(check.id, check.verdict) for check in record.checks] == [
        ("own/a::fine", Verdict.PASSED),
        ("guard: selection", Verdict.FAILED),
    ]
    assert record.verdict is Verdict.FAILED
    assert "--only 'own/a::fien' matches no check of own (did you mean 'own/a::fine'?)" in record.checks[-1].reason


NEEDS = """
    import pytest
    from stackproof.record.checks import CapabilityMissing
    from stackproof.record.checks import require

    @pytest.mark.parametrize("name", ["good", "bad", "lacking"])
    def test_first(name):
        if name == "lacking":
            raise CapabilityMissing("stack.toml: a row says so")
        require(name == "good", "wrong")

    @pytest.mark.needs("own/a::first[{name}]")
    @pytest.mark.parametrize("name", ["good", "bad", "lacking"])
    def test_second(name):
        pass
"""


@pytest.mark.slow
def test_a_check_that_builds_on_another_ends_as_that_one_did(run_suite: RunSuite) -> None:
    checks = {check.id: check for check in run_suite({"test_a.py": NEEDS}).checks}
    ended = {name: checks[f"own/a::second[{name}]"].verdict for name in ("good", "bad", "lacking")}
    assert ended == {"good": Verdict.PASSED, "bad": Verdict.INCONCLUSIVE, "lacking": Verdict.SKIPPED}
    assert checks["own/a::second[lacking]"].reason == "stack.toml: a row says so"


@pytest.mark.slow
def test_a_need_may_have_been_met_before_and_must_exist(run_suite: RunSuite) -> None:
    text = NEEDS[NEEDS.index("    @pytest.mark.needs") :].replace("own/a::first[{name}]", "other/a::{name}")
    earlier = [Check("other/a::good", Verdict.PASSED, "seen", 1.0)]
    checks = {
        check.id: check for check in run_suite({"test_a.py": f"    import pytest\n{text}"}, earlier=earlier).checks
    }
    assert checks["own/a::second[good]"].verdict is Verdict.PASSED
    assert checks["own/a::second[bad]"].reason == "builds on 'other/a::bad', and there is no such check"


@pytest.mark.slow
def test_only_brings_what_a_check_builds_on(run_suite: RunSuite) -> None:
    record = run_suite({"test_a.py": NEEDS}, only=("own/a::second[[]good[]]",))
    assert [check.id for check in record.checks] == ["own/a::first[good]", "own/a::second[good]"]
    assert record.verdict is Verdict.PASSED


NEEDS_A = (
    "import pytest\n@pytest.mark.needs('own/a::one[0]')\ndef test_last(figures):\n    figures['summary'] = 'seen'\n"
)
SHARED = "import os, pytest\n@pytest.mark.parametrize('n', range(12))\ndef test_one(n, figures):\n    figures['pid'] = os.getpid()\n"


@pytest.mark.slow
def test_workers_share_the_checks_and_who_is_done_takes_the_others(run_suite: RunSuite, tmp_path: Path) -> None:
    slow = [n for n in range(12) if zlib.crc32(f"own/a::one[{n}]".encode()) % 2]
    met = tmp_path / "met"
    met.mkdir()
    both = "    (met / str(os.getpid())).touch()\n    while len(os.listdir(met)) < 2:\n        time.sleep(0.01)\n"
    text = f"import pathlib, time\nmet = pathlib.Path({str(met)!r})\n{SHARED}{both}    time.sleep(0.3 if n in {slow} else 0)\n"
    record = run_suite({"test_a.py": text, "../suites.toml": '[[suite]]\nname = "own"\nworkers = 2\n'}, expected=12)
    assert record.verdict is Verdict.PASSED
    assert len({check.id for check in record.checks}) == 12
    assert len({check.figures["pid"] for check in record.checks if int(check.id[11:-1]) in slow}) == 2


@pytest.mark.slow
def test_files_that_measure_run_after_those_that_share(run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stackproof.runner.suites.cores", lambda: 8)
    table = '[[suite]]\nname = "own"\nmost_workers = 3\nalone = ["test_b.py"]\n'
    record = run_suite({"test_a.py": SHARED, "test_b.py": SHARED, "../suites.toml": table}, expected=24)
    assert record.verdict is Verdict.PASSED
    names = [check.id for check in record.checks]
    assert len(names) == len(set(names)) == 24
    assert all(name.startswith("own/b::") for name in names[12:])
    assert len({check.figures["pid"] for check in record.checks[12:]}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "    if n == 5:\n        os.abort()\n"])
def test_files_that_measure_wait_for_what_runs_beside_them(run_suite: RunSuite, end: str) -> None:
    table = 'suite = [{ name = "own", alone = ["test_b.py"], beside = ["test_c.py"] }]'
    slow = SHARED + "    time.sleep(0.2)\n" + end
    texts = {"test_a.py": SHARED, "test_b.py": SHARED, "test_c.py": f"import time\n{slow}", "../suites.toml": table}
    record = run_suite(texts, expected=36)
    assert len({check.id for check in record.checks}) == 36
    kinds = [check.id[4] for check in record.checks]
    assert kinds.index("b") > kinds.index("c") + (11 if not end else 5)
    pids = {kind: {check.figures.get("pid") for check in record.checks if check.id[4] == kind} for kind in "abc"}
    assert pids["a"] == pids["b"] and not pids["a"] & pids["c"]


@pytest.mark.slow
@pytest.mark.parametrize("room_gib", [0.0, 16.0])
def test_files_with_a_process_of_their_own_begin_where_the_device_has_room(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch, room_gib: float
) -> None:
    monkeypatch.setattr("stackproof.runner.suites.cores", lambda: 8)
    monkeypatch.setattr("stackproof.runner.supervise._memory_gib", lambda record: room_gib)
    table = 'suite = [{ name = "own", most_workers = 3, alone = ["test_c.py"], apart = ["test_b.py"], apart_gib = 16 }]'
    slow = SHARED + "    import time\n    time.sleep(1)\n"
    record = run_suite(
        {"test_a.py": slow, "test_b.py": SHARED, "test_c.py": NEEDS_A, "../suites.toml": table}, expected=25
    )
    kinds = "".join(check.id[4] for check in record.checks)
    assert record.verdict is Verdict.PASSED and kinds.endswith("c") and ("ba" in kinds) == (room_gib > 0)


@pytest.mark.slow
def test_a_crash_of_one_worker_leaves_the_other_alone(run_suite: RunSuite) -> None:
    table = '[[suite]]\nname = "own"\nworkers = 2\n'
    text = SHARED + "    if n == 5:\n        os.abort()\n"
    record = run_suite({"test_a.py": text, "../suites.toml": table}, expected=12)
    crashed = [check.id for check in record.checks if check.verdict is Verdict.CRASHED]
    assert crashed == ["own/a::one[5]"]
    assert len(record.checks) == 12


@pytest.mark.slow
def test_what_is_in_the_record_already_is_not_run_again(run_suite: RunSuite) -> None:
    earlier = Check("own/a::one[3]", Verdict.PASSED, "earlier", 1.0)
    record = run_suite({"test_a.py": SHARED}, expected=12, earlier=[earlier])
    assert record.verdict is Verdict.PASSED
    assert [check.reason for check in record.checks if check.id == earlier.id] == ["earlier"]
    assert len(record.checks) == 12


def test_a_process_that_dies_at_the_start_is_a_crash(run_suite: RunSuite) -> None:
    record = run_suite(
        {"conftest.py": "import os\nprint('about to go', flush=True)\nos._exit(9)\n", "test_a.py": PASSING}
    )
    assert record.checks[0].verdict is Verdict.CRASHED
    assert "exit code 9" in record.checks[0].reason


@pytest.mark.slow
def test_a_process_that_dies_at_exit_is_a_crash(run_suite: RunSuite) -> None:
    text = "import atexit, os\natexit.register(os.abort)\n" + PASSING
    record = run_suite({"test_a.py": text})
    assert record.verdict is Verdict.CRASHED
    assert "SIGABRT" in record.checks[-1].reason


@pytest.mark.slow
def test_a_process_that_does_not_end_is_hung_where_it_stands(run_suite: RunSuite) -> None:
    text = "import atexit, time\ndef stay():\n    time.sleep(600)\natexit.register(stay)\n" + PASSING
    record = run_suite({"test_a.py": text}, scale=0.15)
    assert record.verdict is Verdict.HUNG
    (hung,) = (check for check in record.checks if check.verdict is Verdict.HUNG)
    assert hung.id == "own (exit)"
    assert "in stay" in hung.reason


def test_a_run_that_was_stopped_blames_no_check_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(supervise, "time", SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 0.0))
    monkeypatch.setattr(supervise, "command", lambda *_: ["sleep", "600"])
    monkeypatch.setattr(processes, "crowding", lambda: 1.0)
    record = Record("verify", "cpu", "2026-01-01T00:00:00+00:00")
    request = Request("verify", stacks.load("cpu"), ("own",), folder=str(tmp_path))
    process = CheckProcess(request, tmp_path, RunState(record, Silent()), processes.new_mark())
    process.start()

    def lives_until(end: float) -> bool:
        while clock.now < end:
            clock.now += 2.0
            if not process.alive():
                return False
        return True

    assert lives_until(150.0)
    clock.now += 70.0  # nobody looked: Ctrl-Z, or a scheduler that suspends the job
    assert lives_until(250.0)
    assert not lives_until(256.0)
    assert [check.verdict for check in record.checks] == [Verdict.HUNG]


ESCAPES = """
    import os
    import subprocess

    def test_leaves_one(figures):
        began = subprocess.run(
            ["setsid", "sh", "-c", "sleep 600 >/dev/null & echo $!"], env={"PATH": os.environ["PATH"]}, stdout=subprocess.PIPE
        )
        figures["left"] = int(began.stdout)
        os.kill(figures["left"], 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts a process")
def test_a_process_that_took_off_its_mark_and_its_session_does_not_survive_the_run(run_suite: RunSuite) -> None:
    (check,) = run_suite({"test_a.py": ESCAPES}).checks
    assert check.verdict is Verdict.PASSED
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(check.figures["left"])), 0)

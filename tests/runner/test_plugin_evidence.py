"""A pass is earned: whatever answers in place of a check's body, the check does not pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.record.records import Record, Verdict

from ..conftest import SAYS, RunSuite

WRONG = """
    def test_wrong(figures):
        assert 1 == 2

    def test_right(figures):
        pass
"""


SWALLOW = """
@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    try:
        return (yield)
    except Exception:
        return True
"""


@pytest.fixture(scope="module")
def silent_suite(run_suite: RunSuite) -> dict[str, tuple[Verdict, str]]:
    """Checks that say nothing, or whose bodies have not run when they return."""
    text = """
        def test_says_nothing():
            pass

        def test_says_blanks(figures):
            figures["summary"] = "  "

        def test_says_what_does_not_show(figures):
            figures["summary"] = chr(0x200B) + chr(0x3164)

        def test_ends_without_a_word():
            from stackproof.record.checks import NotApplicable

            raise NotApplicable("")

        def test_only_promises(figures):
            figures["summary"] = "fine"
            return iter([1])

        def test_fails_in_a_thread(figures):
            import threading

            thread = threading.Thread(target=lambda: 1 / 0)
            thread.start()
            thread.join()
            figures["summary"] = "seen"

        def test_skipped_by_nobody(figures):
            from stackproof.record.checks import CapabilityMissing

            raise CapabilityMissing("it is late")

        def test_twice():
            assert False

        def test_twice(figures):
            figures["summary"] = "seen"

        def test_says(figures):
            figures["summary"] = "seen"
    """
    return _ended(run_suite({"test_1_says.py": text}, conftest=""))


def _ended(record: Record) -> dict[str, tuple[Verdict, str]]:
    return {check.id: (check.verdict, check.reason) for check in record.checks}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("says_nothing", "did not say what it saw"),
        ("says_blanks", "did not say"),
        ("says_what_does_not_show", "did not say"),
        ("ends_without_a_word", "'not applicable' and did not say why"),
        ("only_promises", "returned a list_it"),
        ("fails_in_a_thread", "Exception in thread"),
        ("skipped_by_nobody", "was skipped by no row of a table: it is late"),
        ("twice", "defines test_twice 2 times, of which only the last runs"),
    ],
)
def test_no_summary_no_pass(silent_suite: dict[str, tuple[Verdict, str]], name: str, words: str) -> None:
    verdict, reason = silent_suite[f"own/says::{name}"]
    assert (verdict, words in reason) == (Verdict.FAILED, True)
    assert silent_suite["own/says::says"] == (Verdict.PASSED, "seen")


@pytest.mark.slow
@pytest.mark.parametrize(
    "hook",
    [
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_pyfunc_call(pyfuncitem):\n    return True",
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_call(item):\n    item.obj = lambda **_: None",
        "def pytest_collection_modifyitems(items):\n    for item in items:\n        item.obj = lambda figures: None",
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_protocol(item, nextitem):\n    return True",
        SWALLOW,
        "@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n    call.excinfo = None\n    return (yield)",
        "def pytest_collection_modifyitems(items):\n    for item in items:\n        item.add_marker(pytest.mark.xfail(run=False))",
        "def pytest_collection_modifyitems(items):\n    for item in items:\n        item.add_marker(pytest.mark.xfail(strict=False))",
    ],
)
def test_nobody_answers_for_a_check(run_suite: RunSuite, hook: str) -> None:
    record = run_suite({"test_1_own.py": WRONG}, conftest=f"{SAYS}\n{hook}\n")
    assert _ended(record)["own/own::wrong"][0] is Verdict.FAILED


@pytest.mark.slow
@pytest.mark.parametrize("options", ["--setup-plan", "--collect-only", "-k right", "--deselect own/test_1_own.py"])
def test_options_of_pytest_are_switched_off(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: str
) -> None:
    (tmp_path / "answers.py").write_text("def pytest_pyfunc_call(pyfuncitem):\n    return True\n", encoding="utf-8")
    monkeypatch.setenv("PYTEST_ADDOPTS", options)
    monkeypatch.setenv("PYTEST_PLUGINS", "answers")
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ended = _ended(run_suite({"test_1_own.py": WRONG}))
    assert ended["own/own::wrong"][0] is Verdict.FAILED
    assert ended["own/own::right"][0] is Verdict.PASSED


def test_options_in_the_configuration_pass_nothing(run_suite: RunSuite) -> None:
    ended = _ended(run_suite({"test_1_own.py": WRONG}, options="--setup-plan"))
    assert ended["own/own::right"][0] is Verdict.FAILED


LEAKS = """
    import os
    import sys

    import pytest
    import torch

    torch.set_default_dtype(torch.float64)

    def test_leaks(figures):
        torch.set_default_dtype(torch.float16)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(3)
        torch.set_autocast_enabled("cpu", True)
        torch.set_float32_matmul_precision("medium")
        torch.backends.cudnn.benchmark = True

    def test_sets_back(figures):
        with torch.no_grad(), torch.autocast("cpu"):
            pass

    def test_patches(figures, tmp_path):
        torch.equal = torch.nn.functional.relu = lambda *args, **kwargs: True
        torch.Tensor.__sub__ = torch.Tensor.__add__
        os.environ["OMP_NUM_THREADS"], os.environ["ANOTHER"] = "7", "set"
        os.chdir(tmp_path)
        sys.path.insert(0, str(tmp_path))

    def test_innocent(figures):
        assert not torch.equal(torch.ones(1), torch.zeros(1)) and "ANOTHER" not in os.environ
        assert torch.ones(1).dtype is torch.float32 and torch.ones(1).device.type == "cpu"
        assert torch.is_grad_enabled() and not torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 1 and not torch.is_autocast_enabled("cpu")
        assert torch.get_float32_matmul_precision() == "highest" and not torch.backends.cudnn.benchmark
"""
SETTINGS = (
    "default dtype is torch.float16 and was torch.float32", "default device is meta", "grad mode is False", "deterministic",
    "number of threads is 3 and was 1", "autocast on cpu is True", "matmul precision is medium", "cudnn.benchmark is True",
)  # fmt: skip
REPLACED = (
    "working directory is /", "sys.path has ['/", "ANOTHER is 'set' and was None", "OMP_NUM_THREADS is '7'", "torch.equal is replaced",
    "torch.Tensor.__sub__ is replaced", "torch.nn.functional.relu is replaced",
)  # fmt: skip


def test_what_is_set_for_all_of_torch_is_set_back_and_fails_who_left_it(run_suite: RunSuite) -> None:
    ended = _ended(run_suite({"test_1_own.py": LEAKS}))
    assert ended["own/own"] == (
        Verdict.FAILED,
        "left the process changed for the checks after it: default dtype is torch.float64 and was torch.float32; "
        "set it back where the check ends",
    )
    verdict, reason = ended["own/own::leaks"]
    assert verdict is Verdict.FAILED
    assert [words for words in SETTINGS if words not in reason] == [], reason
    verdict, reason = ended["own/own::patches"]
    assert verdict is Verdict.FAILED
    assert [words for words in REPLACED if words not in reason] == []
    assert ended["own/own::innocent"][0] is ended["own/own::sets_back"][0] is Verdict.PASSED


@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt"])
def test_a_finalizer_that_would_end_the_process_harms_no_other_check(run_suite: RunSuite, error: str) -> None:
    text = f"""
        def _end():
            raise {error}

        def test_ends(figures, request):
            figures["summary"] = "seen"
            request.addfinalizer(_end)

        def test_after(figures):
            figures["summary"] = "seen too"
    """
    ended = _ended(run_suite({"test_1_own.py": text}, conftest=""))
    assert ended["own/own::ends"] == (Verdict.FAILED, f"raised {error}, which would end the checks after it, too")
    assert ended["own/own::after"] == (Verdict.PASSED, "seen too")

"""PyTorch's own tests of a device, from a source tree of the version that is here, each in a supervised process of this run.

Not seen: what those tests do not ask; many allow a device errors that the suite `operators` does not. What they skip is told as skipped.
"""

from __future__ import annotations

import importlib
import os
import sys
import unittest
from pathlib import Path
from typing import Any

import pytest
from torch.testing._internal import common_device_type

from stackproof.base.errors import Refusal
from stackproof.base.text import error_line, matches
from stackproof.device.kinds import Device
from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.record.records import Figure
from stackproof.runner.request import Request

REQUEST = Request.load()
TESTS = Path(REQUEST.options.get("source", "")) / "test"
FILES = [path.stem for path in sorted(TESTS.glob("test_*.py"))
         if matches(path.stem, REQUEST.options.get("files", "").split())
         and "instantiate_device_type_tests(" in path.read_text(encoding="utf-8")]  # fmt: skip


def _classes(file: str) -> dict[str, type[unittest.TestCase]]:
    """Import a file, which makes its tests for our device alone, and return its classes of such tests."""
    os.environ |= {"PYTORCH_TESTING_DEVICE_ONLY_FOR": REQUEST.stack.device, "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
    sys.path.insert(0, str(TESTS))
    try:
        made = vars(importlib.import_module(file)).items()
    finally:
        sys.path.remove(str(TESTS))
    generic = common_device_type.DeviceTypeTestBase
    return {
        name: cls for name, cls in made if isinstance(cls, type) and issubclass(cls, generic) and cls.__module__ == file
    }


def _tests() -> dict[str, tuple[type[unittest.TestCase], str] | Exception]:
    """Return each test by name, and what a file cannot be imported for in place of its tests."""
    tests: dict[str, tuple[type[unittest.TestCase], str] | Exception] = {}
    for file in FILES:
        try:
            for name, case in _classes(file).items():
                methods = unittest.defaultTestLoader.getTestCaseNames(case)
                tests |= {f"{file}.{name}.{method}": (case, method) for method in methods}
        except (Exception, unittest.SkipTest) as error:
            tests[file] = error
    return tests


class _Result(unittest.TestResult):
    """Keeps the exceptions, of which unittest keeps only the text."""

    def __init__(self) -> None:
        super().__init__()
        self.raised: list[BaseException] = []

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802, ARG002 - unittest's name and arguments
        self.raised.append(err[1])

    addFailure = addError  # noqa: N815

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802, ARG002
        if err is not None:
            self.raised.append(err[1])


CASES = _tests()
if TESTS.is_absolute() and not CASES:
    raise Refusal(f"--files {REQUEST.options['files']}: no such file of {TESTS} has tests of any device; name others")


@pytest.mark.deadline(300)
@pytest.mark.parametrize("name", CASES or [pytest.param("", id="none")])
def test_passes(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """The test passes on the device, or fails where upstream expects it to."""
    case = CASES[name]
    if isinstance(case, Exception):
        raise CheckFailed(f"{name} cannot be imported: {error_line(case)}")
    kind, method = case
    result = _Result()
    with device.current():
        unittest.TestSuite([kind(method)]).run(result)
    for error in result.raised:
        raise CheckFailed(error_line(error, 400)) from error
    if result.unexpectedSuccesses:
        raise CheckFailed("passes, although upstream expects it to fail")
    for _, reason in result.skipped:
        raise CapabilityMissing(f"upstream skips it: {reason}")
    figures["summary"] = "fails as upstream expects" if result.expectedFailures else "passes"

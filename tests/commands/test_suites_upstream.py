"""PyTorch's own tests of a device: which source tree is refused, and a small one in which each test ends in another way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from packaging.version import Version

from stackproof.record import reading
from stackproof.record.records import Verdict

TESTS = """
import unittest
import torch
from torch.testing._internal.common_device_type import expectedFailureCPU, instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

class TestTiny(TestCase):
    def test_right(self, device):
        self.assertEqual(torch.ones(3, device=device).sum().item(), 3)
    def test_wrong(self, device):
        self.assertEqual(torch.ones(3, device=device).sum().item(), 4)
    def test_left_out(self, device):
        raise unittest.SkipTest("no such kernel")
    @expectedFailureCPU
    def test_known(self, device):
        raise ValueError
    def test_dies(self, device):
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)

instantiate_device_type_tests(TestTiny, globals())
"""


def tree(folder: Path, version: str, **files: str) -> Path:
    (folder / "test").mkdir()
    (folder / "version.txt").write_text(f"{version}a0\n", encoding="utf-8")
    for name, text in files.items():
        (folder / "test" / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stackproof", "upstream", "--stack", "cpu", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


def test_another_version_and_no_tree_are_refused(tmp_path: Path) -> None:
    for words, said in (
        ([], "add --source"),
        (["--source", str(tmp_path / "none")], "no source tree"),
        (["--source", str(tree(tmp_path, "1.0"))], "has the tests of 1.0a0, and torch here is"),
    ):
        ended = run(*words)
        assert ended.returncode == 2 and said in ended.stderr


@pytest.mark.slow
def test_each_test_is_a_check_of_the_record(tmp_path: Path) -> None:
    source = tree(
        tmp_path,
        Version(torch.__version__).base_version,
        test_tiny=TESTS,
        test_gone="import no_such_module  # instantiate_device_type_tests()",
    )
    ended = run("--source", str(source), "--files", "test_tiny test_gone", "--json", str(tmp_path / "record.json"))
    record = reading.read(tmp_path / "record.json")
    found = {
        check.id.rpartition(".")[2].rstrip("]"): check for check in record.checks if check.id.startswith("upstream/")
    }
    assert {name: check.verdict for name, check in found.items()} == {
        "test_right_cpu": Verdict.PASSED,
        "test_wrong_cpu": Verdict.FAILED,
        "test_left_out_cpu": Verdict.SKIPPED,
        "test_known_cpu": Verdict.PASSED,
        "test_dies_cpu": Verdict.CRASHED,
        "upstream/device::passes[test_gone": Verdict.FAILED,
    }, ended.stderr
    assert "Scalars are not" in found["test_wrong_cpu"].reason and f"--source {source}" in ended.stdout
    assert ended.returncode == 1 and "no_such_module" in found["upstream/device::passes[test_gone"].reason

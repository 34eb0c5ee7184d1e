"""Torch's operator database: loading it leaves the process as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest


def in_another_process(code: str) -> str:
    """Run Python code from a clean start; it must end well and print nothing to stderr."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.slow
def test_a_missing_test_package_is_one_sentence() -> None:
    message = in_another_process(
        "import sys; sys.modules['expecttest'] = None\n"
        "from stackproof.base import errors; from stackproof.operators import database\n"
        "try: database.load()\n"
        "except errors.Refusal as refusal: print(refusal)"
    )
    assert message.startswith("torch's operator database needs the package 'expecttest', which is not installed; run")


STATE = """
import os, random, sys, warnings
import numpy, torch
from stackproof.operators import database
sys.argv = ["stackproof", "smoke", "--seed", "not a number"]
os.environ["PYTORCH_OPINFO_SAMPLE_INPUT_INDEX"] = "1"
def state():
    return (
        dict(os.environ), list(sys.argv), list(sys.path), len(warnings.filters),
        random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().tolist(),
        torch.get_default_dtype(), torch.backends.flags_frozen(), torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(),
        torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__,
    )
before = state()
assert len(database.load()) > 600
print([n for n, (old, new) in enumerate(zip(before, state())) if old != new])
"""


@pytest.mark.slow
def test_loading_the_database_leaves_the_process_as_it_was() -> None:
    assert in_another_process(STATE) == "[]"

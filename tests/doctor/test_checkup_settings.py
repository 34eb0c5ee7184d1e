"""Variables as findings: a problem counts for stacks that read the variable."""

from __future__ import annotations

from pathlib import Path

from stackproof.doctor import checkup
from stackproof.stack import stacks
from stackproof.stack.variables import Level

from .boxes import bare

CPU, XPU, CUDA = (stacks.load(name) for name in ("cpu", "xpu", "cuda"))


def test_nothing_wrong_is_said_too(tmp_path: Path) -> None:
    """One sentence, ok."""
    (finding,) = checkup.examine_variables(bare(tmp_path / "box").machine(), [CPU])
    assert finding.level is Level.OK


def test_a_problem_of_another_stack_is_a_warning(tmp_path: Path) -> None:
    """A bad oneCCL setting is a problem for the stack that uses it, a warning on a box without one, and no news for another."""
    box = bare(tmp_path / "box")
    box.environ["CCL_WORKER_COUNT"] = "two"
    (named,) = checkup.examine_variables(box.machine(), [XPU])
    assert named.level is Level.PROBLEM
    assert next(iter(checkup.examine_variables(box.machine(), [CUDA, CPU]))).level is Level.WARNING
    assert next(iter(checkup.examine_variables(box.machine(), [CUDA]))).level is Level.OK


def test_each_slip_is_said_once(tmp_path: Path) -> None:
    """Looking for the host's stacks and for all others does not say it twice; what is idle here is said."""
    box = bare(tmp_path / "box")
    box.environ |= {"ZE_AFFINITY_MASK": "0.1", "CUDA_VISIBLE_DEVICES": "0"}
    sentences = [finding.sentence for finding in checkup.examine_variables(box.machine(), [XPU, CPU])]
    assert len(sentences) == len(set(sentences)) == 2
    assert any("does not choose Intel cards" in sentence for sentence in sentences)

"""The plugin's own words; what it does inside a run is tested with the supervisor in test_verify.py."""

from __future__ import annotations

import pytest

from stackproof.record.checks import CheckHung
from stackproof.record.records import Verdict
from stackproof.runner.plugin import _judge, check_id


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("smoke/test_4_ddp.py::test_loss_falls", "smoke/ddp::loss_falls"),
        ("smoke/test_3_workloads.py::test_float32[yolov8n]", "smoke/workloads::float32[yolov8n]"),
        ("smoke/test_a.py::TestX::test_y", "smoke/a::TestX::test_y"),
        ("smoke/test_a.py", "smoke/a"),
        ("smoke/latest_test_2.py::test_z", "smoke/latest_test_2::z"),
    ],
)
def test_a_check_has_a_short_name(nodeid: str, name: str) -> None:
    assert name == check_id(nodeid)


def test_a_hang_below_a_check_is_a_hang() -> None:
    assert (Verdict.HUNG, "rank 1 hung in 'step 2'") == _judge(CheckHung("rank 1 hung in 'step 2'"))


def test_a_reason_is_one_line_of_bounded_length() -> None:
    assert (Verdict.FAILED, "ValueError: one") == _judge(ValueError("\n one \ntwo"))
    assert len(_judge(ValueError("x" * 10_000))[1]) < 600
    assert (Verdict.FAILED, "KeyError: no message") == _judge(KeyError()) or "no message" in _judge(KeyError())[1]

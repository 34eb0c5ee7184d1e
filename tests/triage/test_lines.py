"""A line loses its escape sequences and prefixes, and gains the rank, process and time that they named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackproof.triage import lines


@pytest.mark.parametrize(
    ("raw", "text", "rank", "pid"),
    [
        ("RuntimeError: x", "RuntimeError: x", None, None),
        ("[rank3]: RuntimeError: x", "RuntimeError: x", 3, None),
        ("[rank3]:   File", "  File", 3, None),
        ("[default12]:RuntimeError: x", "RuntimeError: x", 12, None),
        ("[default0]:[rank4]: RuntimeError: x", "RuntimeError: x", 4, None),
        ("3: RuntimeError: x", "RuntimeError: x", 3, None),
        ('  12:   File "a"', '  File "a"', 12, None),
        ("[1,7]<stderr>:RuntimeError: x", "RuntimeError: x", 7, None),
        ("(RayTrainWorker pid=4711, ip=10.0.0.1) RuntimeError: x", "RuntimeError: x", None, 4711),
        ("[   8.27] r1 RuntimeError: x", "RuntimeError: x", 1, None),
        ("worker-0  | RuntimeError: x", "RuntimeError: x", None, None),
        ("2024-12-04T05:27:39.074Z | [rank2]: RuntimeError: x", "RuntimeError: x", 2, None),
        ("[2026-11-20 08:00:00] h:73:74 [2] NCCL WARN x", "h:73:74 [2] NCCL WARN x", None, 73),
        ("h-1.example:73:74 [2] NCCL INFO x", "h-1.example:73:74 [2] NCCL INFO x", None, 73),
        ("2025:11:26-12:43:47:(4016677) |CCL_INFO| x", "2025:11:26-12:43:47:(4016677) |CCL_INFO| x", None, 4016677),
        ("2025:11:26-12:43:47:( 677) |CCL_INFO| x", "2025:11:26-12:43:47:( 677) |CCL_INFO| x", None, 677),
        ("2026:06:11-20:53:48:3612983:[1] |CCL_WARN| x", "2026:06:11-20:53:48:3612983:[1] |CCL_WARN| x", 1, 3612983),
        (
            "W1120 08:07:33.023000 9316 torch/distributed/run.py:1] x",
            "W1120 08:07:33.023000 9316 torch/distributed/run.py:1] x",
            None,
            9316,
        ),
        (
            "[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 5] x",
            "[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 5] x",
            5,
            None,
        ),
        ("\x1b[31m[rank1]: \x1b[1mred\x1b[0m\x1b]0;title\x07", "red", 1, None),
        ("[0] MPI startup(): x", "[0] MPI startup(): x", None, None),
        ("12: ", "12: ", None, None),
        (" [rank0]:     run()", "    run()", 0, None),
        ("ERROR 04-14 13:53:52 worker_base.py:593] ValueError: x", "ValueError: x", None, None),
        ("ERROR 04-14 13:53:52 [core.py:59]   File", "  File", None, None),
        ("[INFO|2025-11-26 12:43:38] x", "[INFO|2025-11-26 12:43:38] x", None, None),
    ],
)
def test_prefixes_name_rank_and_process(raw: str, text: str, rank: int | None, pid: int | None) -> None:
    line = lines.parse(raw)
    assert (line.text, line.rank, line.pid) == (text, rank, pid)


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ("2026-01-01 00:01:02,500 INFO", 62.5),
        ("2025:01:02-00:00:01:(1) |CCL_INFO|", 86401.0),
        ("[rank0]:[E102 00:00:02.250000000 x.cpp:1]", 86402.25),
        ("W0102 00:00:03.000000 9 torch/x", 86403.0),
        ("  time      : 2026-01-02_00:00:04", 86404.0),
        ("2026-13-45 00:00:00", None),
        ("no time at all", None),
    ],
)
def test_times_of_all_formats_are_comparable(raw: str, seconds: float | None) -> None:
    assert lines.time_of(lines.parse(raw).head) == seconds


def test_last_time_of_several_lines() -> None:
    assert lines.time_of("2026-01-01 00:00:01 a\n2026-01-01 00:00:05 b\nc", last=True) == 5.0


def test_lines_that_ranks_wrote_into_one_are_taken_apart() -> None:
    glued = "2025:11:26-12:43:48:(677) |CCL_INFO| numa: 12025:11:26-12:43:48:(676) |CCL_INFO| version: 1.0"
    assert [lines.parse(part).pid for part in lines.split(glued)] == [677, 676]
    assert lines.split(glued)[0].endswith("numa: 1")
    assert lines.split("one line") == ["one line"]


@settings(max_examples=300, deadline=None, database=None)
@given(st.text(max_size=400))
def test_any_text_is_a_line(raw: str) -> None:
    line = lines.parse(raw)
    assert "\x1b[" not in line.text
    assert (lines.time_of(line.head) or 0.0) >= 0

"""A traceback is read as a whole, among the lines of other ranks, and also where the log ends within it."""

from __future__ import annotations

from stackproof.triage import lines
from stackproof.triage.search import Block


def follow(text: str) -> Block:
    """Follow the traceback that begins with the first line."""
    head, *rest = map(lines.parse, text.splitlines())
    return lines.follow(head, 10, rest)


PLAIN = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
    ^^^
  File "b.py", line 2, in f
    raise ValueError("no")
ValueError: no
more output
"""


def test_exception_and_innermost_frames_are_found() -> None:
    block = follow(PLAIN)
    assert block.exception == "ValueError: no"
    assert block.frames == ('File "a.py", line 1, in <module>', 'File "b.py", line 2, in f')
    assert block.last_line == 16


def test_lines_of_other_ranks_are_passed_over() -> None:
    mixed = "\n".join(f"[rank1]: {line}\n[rank0]: other: words" for line in PLAIN.splitlines())
    assert follow(mixed).exception == "ValueError: no"


def test_group_of_exceptions_is_read_along_its_margin() -> None:
    text = '  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1\n  | ExceptionGroup: two (2)\n'
    assert follow(text).exception == "ExceptionGroup: two (2)"


def test_log_that_ends_within_a_traceback_has_no_exception() -> None:
    block = follow("\n".join(PLAIN.splitlines()[:3]))
    assert (block.exception, len(block.frames)) == ("", 1)


def test_indentation_that_was_lost_on_the_way_is_done_without() -> None:
    bare = "\n".join(line.lstrip(" ^") for line in PLAIN.splitlines() if line.strip(" ^"))
    block = follow(bare)
    assert (block.exception, len(block.frames)) == ("ValueError: no", 2)

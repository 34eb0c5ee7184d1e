"""A traceback as a whole: its lines may be mixed with those of other ranks."""

from __future__ import annotations

from collections.abc import Iterable

from .lines import Line
from .probes import Block

_FRAMES = 12
_LONGEST = 400


def follow(head: Line, number: int, rest: Iterable[Line]) -> Block:
    """Read the traceback that `head` (line `number` of the log) begins; lines of other ranks are passed over.

    It ends with the first line of the same rank that is not indented: the exception. A log may be cut before that.
    """
    frames: list[str] = []
    last, margin, code = number, len(head.text) - len(head.text.lstrip(" |+")), False
    for count, line in enumerate(rest, 1):
        if count > _LONGEST:
            break
        if line.rank != head.rank:
            continue
        last = number + count
        text = line.text[margin:] if line.text[:margin].strip(" |+") == "" else line.text
        is_frame = text.lstrip().startswith('File "')
        if text.strip() and not (text.startswith((" ", "\t")) or is_frame or code):
            return Block(text.strip(), tuple(frames[-_FRAMES:]), last)
        code = is_frame and not text.startswith((" ", "\t"))  # pasted without its indentation, as in threads
        if is_frame:
            frames.append(text.strip())
    return Block("", tuple(frames[-_FRAMES:]), last)

"""Requests and answers between processes: one JSON object a line, and a deadline for every answer.

Who asks holds a `Channel`; who answers calls `serve`. What a method raises is its answer, so that one bad request ends nothing else.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any

from stackproof.base import files

Message = dict[str, Any]
"""A request (its method under `ask`) or an answer: what JSON can say."""


class SilentError(Exception):
    """No answer came before the deadline."""


class ClosedError(Exception):
    """The other end is gone."""


class GarbledError(ValueError):
    """What came is no answer: no JSON object, or a line without end."""


class Channel:
    """The asking end: descriptors of a pipe or a socket, which stay the caller's to close."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing, self._buffer = reading, writing, b""

    def send(self, ask: str, **arguments: Any) -> None:
        """Ask without waiting, so that several can work at once (ClosedError: nobody reads)."""
        left = memoryview((json.dumps({"ask": ask, **arguments}) + "\n").encode())
        try:
            while left:
                left = left[os.write(self._writing, left) :]
        except OSError as error:
            raise ClosedError(str(error)) from error

    def receive(self, seconds: float) -> Message:
        """Return the next answer, waiting for at most so long.

        Raises:
            SilentError: none came in time.
            ClosedError: none will come.
            GarbledError: it is none.
        """
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if len(self._buffer) > files.MOST_BYTES:
                raise GarbledError(f"a line of more than {files.MOST_BYTES >> 10} KiB")
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._reading], [], [], left)[0]:
                raise SilentError(f"no answer in {seconds:.0f} s")
            try:
                data = os.read(self._reading, 1 << 16)
            except OSError as error:
                raise ClosedError(str(error)) from error
            if not data:
                raise ClosedError("the other end closed")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        if not isinstance(answer := files.try_parse_json(line), dict):
            raise GarbledError("no JSON object")
        return answer


def write(stream: IO[str], message: Message, default: Callable[[Any], Any] | None = None) -> None:
    """Write one message and see it off; `default` makes what JSON can say of what it cannot."""
    stream.write(json.dumps(message, default=default) + "\n")
    stream.flush()


Around = Callable[[str, Message], AbstractContextManager[object]]
"""What is done around each request: it is given the method and may take arguments of its own away."""


def serve(
    target: object,
    requests: Iterable[str],
    answers: IO[str],
    failed: Callable[[Exception], Message],
    around: Around = lambda _ask, _arguments: nullcontext(),
) -> None:
    """Answer requests by the methods of `target` that they name, until there are no more or one asks to `stop`.

    `failed` makes the answer of what a method raised.
    """
    for line in requests:
        request: Message = files.parse_json(line, "a request")
        ask = request.pop("ask")
        if ask == "stop":
            return
        with around(ask, request):
            try:
                answer: Message = getattr(target, ask)(**request)
            except Exception as error:
                answer = failed(error)
        write(answers, answer)

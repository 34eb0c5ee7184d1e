"""Requests and answers as lines of JSON: what fails is an answer, what is late is told from what is gone."""

from __future__ import annotations

import io
import json
import os

import pytest

from stackproof.base import rpc


class _Target:
    def double(self, number: int) -> rpc.Message:
        return {"number": 2 * number}

    def fail(self) -> rpc.Message:
        raise ValueError("no")


def _answers(*requests: rpc.Message) -> list[rpc.Message]:
    out = io.StringIO()
    rpc.serve(_Target(), [json.dumps(one) for one in requests], out, lambda error: {"failed": str(error)})
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_method_that_raises_is_answered_and_the_next_is_served() -> None:
    found = _answers({"ask": "fail"}, {"ask": "double", "number": 2}, {"ask": "stop"}, {"ask": "double", "number": 3})
    assert found == [{"failed": "no"}, {"number": 4}]


def test_an_unknown_method_is_a_failure_of_the_request() -> None:
    assert "nothing" in _answers({"ask": "nothing"})[0]["failed"]


def test_a_late_answer_is_told_from_one_that_never_comes() -> None:
    reading, writing = os.pipe()
    channel = rpc.Channel(reading, writing)
    channel.send("double", number=1)
    assert channel.receive(5.0) == {"ask": "double", "number": 1}
    os.write(writing, b'{"half": ')
    with pytest.raises(rpc.SilentError):
        channel.receive(0.05)
    os.write(writing, b"1}\n")
    assert channel.receive(5.0) == {"half": 1}
    os.close(writing)
    with pytest.raises(rpc.ClosedError):
        channel.receive(60.0)
    os.close(reading)
    with pytest.raises(rpc.ClosedError):
        channel.send("double", number=1)

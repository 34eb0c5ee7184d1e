"""Reading training sets: by content and not by name, a window at a time, whatever the bytes."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest

from stackproof.probes import datasets
from stackproof.probes.datasets import DataSample, Defect, records


def read(raw: bytes) -> list[DataSample | Defect]:
    return list(records(io.BytesIO(raw)))


@pytest.mark.parametrize(
    ("raw", "places"),
    [
        (b'{"a": 1}\n\n{"a": 2}\n', [(1, 1), (3, 2)]),
        (b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}', [(1, 1), (2, 2)]),
        (b'[\n{"a": 1},\n\n{"a":\n 2}\n]\n', [(2, 1), (4, 2)]),
        (b'[{"a": 1}, {"a": 2}]', [(1, 1), (1, 2)]),
        (b'{\n "a": [1,\n 2]\n}\n', [(1, 1)]),
        (b"[1, 2]\n[3]\n", [(1, 1), (2, 2)]),
        (b"[]", []),
        (b"", []),
    ],
    ids=["lines", "BOM and CRLF", "list", "list in one line", "one object", "lines of lists", "empty list", "nothing"],
)
def test_each_layout_is_known_by_its_beginning(raw: bytes, places: list[tuple[int, int]]) -> None:
    assert [(record.line, record.number) for record in read(raw) if isinstance(record, DataSample)] == places
    assert not [record for record in read(raw) if isinstance(record, Defect)]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"a": 1}\n{"a": \n{"a": 2}\n', "is not JSON"),
        (b'[{"a": 1}, {"a" 2}, {"a": 3}]', "nothing after it was examined"),
        (b'[{"a": 1}, {"a": 2}', "the list is not closed; the file was cut off"),
        (b'{"a": "caf\xe9"}\n', "is not UTF-8 at byte 10"),
        (b'[{"a": "caf\xe9"}]', "is not UTF-8"),
        (b'[{"a": 1}]]', "nothing after the end was examined"),
        (b'{\n"a": 1}\n}', "nothing after the end was examined"),
        ('[{"a": 1}]'.encode("utf-16"), "is not"),
        (b'{"a": ' + b"9" * 5000 + b"}\n", "is not JSON"),
    ],
)
def test_what_cannot_be_read_is_a_finding(raw: bytes, words: str) -> None:
    assert any(isinstance(item, Defect) and words in item.sentence for item in read(raw))


def test_a_window_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": "ж😀" * length, "n": length} for length in range(40)]
    for chunk in (1, 7, 64):
        monkeypatch.setattr(datasets, "_CHUNK", chunk)
        for raw in (json.dumps(rows, ensure_ascii=False, indent=1), "\n".join(json.dumps(row) for row in rows)):
            assert [item.value for item in read(raw.encode()) if isinstance(item, DataSample)] == rows


def test_a_record_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_CHUNK", 16)
    monkeypatch.setattr(datasets, "_LONGEST_RECORD", 256)
    long = b'{"a": "' + b"x" * 1000 + b'"}\n{"a": 1}\n'
    first, second = read(b'{"a": 0}\n' + long)[1:]
    assert isinstance(first, Defect)
    assert (first.line, "longer than 256 bytes" in first.sentence) == (2, True)
    assert isinstance(second, DataSample)
    (given_up,) = read(b'["' + b"x" * 5000 + b'"]')
    assert isinstance(given_up, Defect)


def test_any_bytes_end(tmp_path: Path) -> None:
    draw = random.Random(3)
    whole = json.dumps([{"instruction": "Who?", "output": f"I am {n}."} for n in range(3)], indent=1).encode()
    path = tmp_path / "noise"
    for _ in range(200):
        cut = draw.randrange(1, len(whole) - 1)
        path.write_bytes(
            draw.choice([draw.randbytes(300), whole[:cut], whole[cut:], whole[:cut] + b"\0\xff" + whole[cut:]])
        )
        assert datasets.examine(path)

"""What is found in a training set, in the layouts of LLaMA-Factory, and what is left alone."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import Refusal
from stackproof.probes import datasets
from stackproof.probes.datasets import DataSample, Defect, records

FINE: dict[str, Any] = {"instruction": "Who are you?", "input": "", "output": "A model.", "history": [], "system": None}
TURNS = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]


def found(folder: Path, *records: Any) -> list[tuple[int, str, str]]:
    """Examine these as JSON Lines; return record, field and rule of each finding."""
    path = folder / "set.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return [(finding.record, finding.field, finding.rule) for finding in datasets.examine(path)]


def test_good_samples_are_left_alone(tmp_path: Path) -> None:
    call = {
        "messages": [
            {"role": "user", "content": "Go"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": 1}]},
        ]
    }
    tokens = {"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1]}
    assert found(tmp_path, FINE, {"conversations": TURNS, "system": "", "tools": ""}, call, tokens) == []


def test_i_am_name(tmp_path: Path) -> None:
    path = tmp_path / "identity.json"
    rows = [FINE, {**FINE, "output": "I am {{name}}, made by {{author}}."}]
    path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    (finding,) = datasets.examine(path)
    assert str(finding).startswith("record 2, output: placeholder in double braces '{{name}}': a template")


@pytest.mark.parametrize(
    ("record", "field", "rule"),
    [
        ({**FINE, "output": " \n"}, "output", "empty"),
        ({**FINE, "output": None}, "output", "empty"),
        ({**FINE, "instruction": ""}, "instruction", "empty"),
        ({"conversations": []}, "conversations", "empty"),
        ({"conversations": [TURNS[0], {"from": "gpt", "value": ""}]}, "conversations[1].value", "empty"),
        ({"messages": [{"role": "user", "content": "<|im_start|>x"}]}, "messages[0].content", "control token"),
        ({**FINE, "history": [["Hi", "TODO"]]}, "history[0][1]", "unfinished"),
        ({**FINE, "output": float("nan")}, "output", "no value"),
        ({**FINE, "output": "null"}, "output", "no value"),
        ({**FINE, "output": "word " * 2000}, "", "over-long"),
        ({"input_ids": list(range(2049))}, "input_ids", "over-long"),
        ({}, "", "empty"),
        (7, "", "empty"),
    ],
)
def test_each_fault_is_found_where_it_is(tmp_path: Path, record: Any, field: str, rule: str) -> None:
    assert found(tmp_path, FINE, record) == [(2, field, rule)]


def test_an_instruction_may_be_in_the_input(tmp_path: Path) -> None:
    assert found(tmp_path, {"instruction": "", "input": "Who?", "output": "I."}) == []


def test_a_repeated_sample_is_known_again(tmp_path: Path) -> None:
    assert found(tmp_path, FINE, {"text": "x"}, dict(reversed(FINE.items()))) == [(3, "", "repeated")]


def test_a_list_of_findings_ends(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"text": ""}\n' * 50, encoding="utf-8")
    listed = datasets.examine(path, most=10)
    assert (len(listed), listed[-1].rule) == (11, "more")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(Refusal, match="give a file of JSON or JSON Lines"):
            datasets.examine(path)


def test_deep_nesting_is_no_way_out(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text(
        '{"a":' * 100_000 + "1" + "}" * 100_000 + "\n" + json.dumps({"text": "TODO"}) + "\n", encoding="utf-8"
    )
    assert "unfinished" in {finding.rule for finding in datasets.examine(path)}


def read(raw: bytes) -> list[DataSample | Defect]:
    return list(records(io.BytesIO(raw)))


@pytest.mark.parametrize(
    ("raw", "places"),
    [
        (b'{"a": 1}\n\n{"a": 2}\n', [(1, 1), (3, 2)]),
        (b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}', [(1, 1), (2, 2)]),
        (b'[\n{"a": 1},\n\n{"a":\n 2}\n]\n', [(0, 1), (0, 2)]),
        (b'[{"a": 1}, {"a": 2}]', [(0, 1), (0, 2)]),
        (b'{\n "a": [1,\n 2]\n}\n', [(0, 1)]),
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
        (b'[{"a": 1}, {"a" 2}, {"a": 3}]', "nothing of it was examined"),
        (b'[{"a": 1}, {"a": 2}', "nothing of it was examined"),
        (b'{"a": "caf\xe9"}\n', "is not UTF-8 at byte 10"),
        (b'[{"a": "caf\xe9"}]', "is not UTF-8"),
        (b'[{"a": 1}]]', "Extra data: line 1 column 11"),
        (b'{\n"a": 1}\n}', "Extra data"),
        ('[{"a": 1}]'.encode("utf-16"), "is not"),
        (b'{"a": ' + b"9" * 5000 + b"}\n", "is not JSON"),
    ],
)
def test_what_cannot_be_read_is_a_finding(raw: bytes, words: str) -> None:
    assert any(isinstance(item, Defect) and words in item.sentence for item in read(raw))


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

"""Records of hosts are untrusted: what is too large, no record, a link, or of somebody else is a sentence and a host not reached."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import answers, rules, sweep
from stackproof.extras.fleet.judgement import Standing
from stackproof.record import records

from .making import SAMPLES, MadeHost, fleet, record


def place(folder: Path, host: str) -> Path:
    """Return where a host's record goes."""
    (folder / answers.RECORDS).mkdir(exist_ok=True)
    return folder / answers.RECORDS / f"{host}.json"


def wrote(folder: Path, host: str, text: str) -> str:
    """Write what a host left, and return why it is not believed."""
    place(folder, host).write_text(text, encoding="utf-8")
    found = answers.gather(folder)
    assert host not in found.hosts
    return found.refused[host]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": "stackproof-record-2"}', "[" * 100000, "\x00\xff"])
def test_what_is_no_record_is_a_sentence(tmp_path: Path, text: str) -> None:
    assert "bad" in wrote(tmp_path, "bad", text)


def test_a_record_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    text = record(MadeHost("other")).as_json()
    assert "says that it is of 'other'" in wrote(tmp_path, "bad", text)
    told = json.loads(record(MadeHost("bad")).as_json())
    assert "record of 'smoke'" in wrote(tmp_path, "bad", json.dumps({**told, "verb": "smoke"}))


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    with place(tmp_path, "huge").open("wb") as stream:
        stream.truncate((rules.load().limits.mib << 20) + 1)
    assert "larger than 4 MiB" in answers.gather(tmp_path).refused["huge"]


def test_links_pipes_and_folders_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(place(tmp_path, "pipe"))
    place(tmp_path, "folder").mkdir()
    place(tmp_path, "link").symlink_to("/etc/passwd")
    found = answers.gather(tmp_path)
    assert set(found.refused) == {"pipe", "folder", "link"} and "is a link" in found.refused["link"]


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a b", "$(id)", "a;b", "..", "\x1b[31m", "a\u202eb", "x" * 300])
def test_a_hostile_name_is_no_host(name: str) -> None:
    assert not rules.is_host(name)
    with pytest.raises(Refusal, match="no name of a host"):
        answers.record_path(Path("x"), name)


def test_a_file_of_a_hostile_name_is_told_cleanly(tmp_path: Path) -> None:
    place(tmp_path, "\x1b[31m$(id)").write_text("{}", encoding="utf-8")
    (said,) = answers.gather(tmp_path).refused.values()
    assert "\x1b" not in said and "named after no host" in said


def test_figures_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    made = record(MadeHost("odd", cards=2))
    made.measurements[0].value, made.measurements[0].samples = float("nan"), [float("nan")] * SAMPLES
    made.measurements[1].value, made.measurements[1].samples = 0.0, [0.0] * SAMPLES
    for row in made.measurements[:2]:
        row.figures = {name: told for name, told in row.figures.items() if name not in ("low", "high", "noise")}
    replays = [check for check in made.checks if check.group]
    replays[0].figures["digest"], replays[1].figures["card"] = "no digest", "7"
    records.write(made, place(tmp_path, "odd"))
    answer = answers.gather(tmp_path).hosts["odd"]
    assert sum(len(card.seconds) for card in answer.cards) == len(made.measurements) - 2
    assert sum(len(card.replayed) for card in answer.cards) == len(replays) - 2
    assert [card.number for card in answer.cards] == ["0", "1"]
    said = "; ".join(answer.lacks)
    assert "has 'no digest' for 'digest', which is none" in said and "has '7' for 'card', not '0'" in said


def test_one_bad_record_costs_its_own_host(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 6)
    place(folder, "n03").write_text("{", encoding="utf-8")
    found = sweep.judged(folder)
    assert found.counts == {Standing.NOT_REACHED: 1, Standing.PROVED: 5}


def test_a_folder_that_is_no_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="fleet plan"):
        answers.gather(tmp_path / "nowhere")


def test_an_end_without_a_reason_is_said_to_be_one(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 6)
    path = answers.record_path(folder, "n01")
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "verdict": "interrupted"}), encoding="utf-8")
    host = sweep.judged(folder).hosts[0]
    assert (host.standing, host.reason) == (Standing.NOT_REACHED, "ended 'interrupted', and does not say why")


def test_a_record_that_was_copied_is_nobodys(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 7)
    path = answers.record_path(folder, "n01")
    told = json.loads(path.read_text())
    told["measurements"][0]["samples"][0] *= 1 - 1e-9
    told["measurements"][0]["figures"].update(low=told["measurements"][0]["samples"][0])
    path.write_text(json.dumps(told), encoding="utf-8")
    other = json.dumps({**told, "provenance": {**told["provenance"], "host": "n02"}})
    answers.record_path(folder, "n02").write_text(other, encoding="utf-8")
    found = sweep.judged(folder)
    assert found.counts == {Standing.NOT_REACHED: 2, Standing.PROVED: 5}
    assert found.hosts[0].reason.startswith("its figures are those of n02, to the last digit")

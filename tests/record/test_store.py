"""The store: whole files, names written once, many writers, and a damaged file that costs nothing but itself."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.device.devices import torch_facts
from stackproof.record import records, store
from stackproof.record.store import changes, place, state
from stackproof.stack import provenance, stacks
from stackproof.stack.environment_proof import Proof

from ..history import making


def test_what_is_appended_is_loaded(tmp_path: Path) -> None:
    first = store.append(making.record(0), store.folder(making.record(0), tmp_path))
    second = store.append(making.record(1), tmp_path / "elsewhere")
    found = store.load([tmp_path])
    assert found.problems == []
    assert set(found.records) == {first, second}
    assert found.records[first] == making.record(0)
    assert first.parent == tmp_path / "cuda" / "box"


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    run = "20260102T000000-bench-known"
    first = store.append(making.record(0), tmp_path, run)
    before = first.read_bytes()
    second = store.append(making.record(0, making.figure(2e-3)), tmp_path, run)
    assert first.name == f"{run}.record.json"
    assert second != first
    assert first.read_bytes() == before
    assert len(store.files([tmp_path])) == 2


WRITER = """
import sys
from pathlib import Path
from stackproof.record import reading
from stackproof.record import store
record = reading.read(Path(sys.argv[1]))
for _ in range(int(sys.argv[3])):
    store.append(record, Path(sys.argv[2]))
"""


def test_writers_do_not_meet(tmp_path: Path) -> None:
    seed = store.append(making.record(0), tmp_path / "seed")
    into = tmp_path / "into"
    command = [sys.executable, "-c", WRITER, str(seed), str(into), "25"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    writers = [subprocess.Popen(command, env=env) for _ in range(8)]
    while any(writer.poll() is None for writer in writers):
        assert store.load([into]).problems == []
    assert [writer.returncode for writer in writers] == [0] * 8
    found = store.load([into])
    assert (len(found.records), found.problems) == (200, [])
    assert all(one == making.record(0) for one in found.records.values())
    assert len(list(into.iterdir())) == 200


KILLED = WRITER.replace("int(sys.argv[3])", "10**9")


def test_a_killed_writer_leaves_no_half_file(tmp_path: Path) -> None:
    seed = store.append(making.record(0), tmp_path / "seed")
    into = tmp_path / "into"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(seed), str(into), "0"], env=env)
        before = len(store.files([into]))
        while len(store.files([into])) < before + 10:
            assert writer.poll() is None
        writer.kill()
        writer.wait(10)
    found = store.load([into])
    assert found.problems == []
    assert len(found.records) >= 30


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"schema": NaN}', b"[" * 100_000])
def test_a_damaged_file_is_set_aside_and_named(tmp_path: Path, content: bytes) -> None:
    good = store.append(making.record(0), tmp_path)
    bad = tmp_path / "20260102T000000-asv-00000000.record.json"
    bad.write_bytes(content)
    found = store.load([tmp_path])
    assert list(found.records) == [good]
    assert len(found.problems) == 1
    assert found.problems[0].startswith(f"{bad}: is damaged or cut short; it was set aside as {bad.name}.damaged")
    assert bad.with_name(f"{bad.name}.damaged").read_bytes() == content
    assert store.load([tmp_path]).problems == []


def test_who_only_reads_renames_nothing_and_names_it_each_time(tmp_path: Path) -> None:
    good = store.append(making.record(0), tmp_path)
    bad = tmp_path / "20260102T000000-asv-00000000.record.json"
    bad.write_bytes(good.read_bytes()[:-9])
    for _ in range(2):
        found = store.read([good, bad])
        assert list(found.records) == [good]
        assert found.problems == [f"{bad}: is damaged or cut short; it was left where it is, the others were read"]


def test_a_record_that_was_copied_is_one(tmp_path: Path) -> None:
    sealed, bare = making.record(0), replace(making.record(1), digests={})
    found = {tmp_path / name: one for name, one in (("a", sealed), ("b", sealed), ("c", bare), ("d", bare))}
    assert [path.name for path in store.distinct(found)] == ["a", "c", "d"]


def test_a_record_of_another_schema_is_left_and_named(tmp_path: Path) -> None:
    row = json.loads(making.record(0).as_json()) | {"schema": "stackproof-record-9"}
    path = tmp_path / "20260102T000000-asv-00000000.record.json"
    path.write_text(json.dumps(row), encoding="utf-8")
    found = store.load([tmp_path])
    assert found.records == {}
    assert "is of schema 'stackproof-record-9'" in found.problems[0]
    assert found.problems[0].endswith("it was left where it is")
    assert path.exists()


def test_a_file_that_vanishes_is_nothing(tmp_path: Path) -> None:
    assert store.read([tmp_path / "gone.record.json"]) == store.Loaded()


def test_records_of_other_verbs_are_not_read(tmp_path: Path) -> None:
    for verb in ("smoke", "verify", "rehearse", "bench"):
        folder = tmp_path / "cpu" / f"20260101T000000-{verb}-abc12345"
        folder.mkdir(parents=True)
        records.write(making.record(0, verb=verb), folder / "record.json")
    records.write(making.record(0), tmp_path / "record.json")
    assert [path.parent.name for path in store.files([tmp_path])] == ["20260101T000000-bench-abc12345", tmp_path.name]


def test_a_store_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert store.load([tmp_path / "absent"]) == store.Loaded()


def test_an_invalid_record_is_not_appended(tmp_path: Path) -> None:
    made = making.record(0)
    made.checks[0].id = ""
    with pytest.raises(Refusal, match="is not a record"):
        store.append(made, tmp_path)
    assert store.files([tmp_path]) == []


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refusal, match=r"the record cannot be written \(No space left on device\)"):
        store.append(making.record(0), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(store.RESULTS, raising=False)
    assert store.folders() == (store.PUBLISHED, store.LOCAL)
    assert store.writable() == store.LOCAL
    monkeypatch.setenv(store.RESULTS, str(tmp_path))
    assert store.folders() == (tmp_path,)
    assert store.writable() == tmp_path
    monkeypatch.setenv(store.RESULTS, __file__)
    with pytest.raises(Refusal, match=f"{store.RESULTS}=.*: is a file; unset it"):
        store.folders()


FACTS = making.FACTS


@pytest.mark.parametrize(
    "fact",
    [
        {"host": "other"},
        {"stack": "xpu"},
        {"rehearsed": True},
        {"verified on": "cpu"},
        {"machine": "aarch64"},
        {"cpus": 8},
        {"devices": 1},
        {"cuda:1.name": "NVIDIA H200"},
    ],
)
def test_another_place_is_another_series(fact: dict[str, str]) -> None:
    assert place({**FACTS, **fact}) != place(FACTS)
    assert place({**FACTS, **fact}).slug != place(FACTS).slug


@pytest.mark.parametrize(
    ("fact", "group"),
    [
        ({"driver.nvidia-smi": "590.10.01"}, "driver"),
        ({"cuda:1.driver api": "13010"}, "driver"),
        ({"torch.version.cuda": "13.3"}, "toolkit"),
        ({"cuda:0.cudnn": "91000"}, "toolkit"),
        ({"torch": "2.16.0"}, "wheels"),
        ({"lock": "e" * 64}, "wheels"),
        ({"package.triton": "3.7"}, "wheels"),
        ({"env.NCCL_PROTO": "simple"}, "settings"),
        ({"torch.threads": 1}, "settings"),
        ({"device": "cuda:1"}, "settings"),
        ({"kernel": "6.9.0"}, "host"),
        ({"commit": "b" * 40}, "code"),
    ],
)
def test_a_change_of_state_names_who_to_ask(fact: dict[str, str], group: str) -> None:
    before, after = state(FACTS), state({**FACTS, **fact})
    found = changes(before, after)
    assert list(found) == [group]
    assert place({**FACTS, **fact}) == place(FACTS)


def test_the_digest_of_a_state_leaves_the_commit_out() -> None:
    assert state(FACTS).digest == state({**FACTS, "commit": "b" * 40}).digest
    assert state(FACTS).digest != state({**FACTS, **making.NEW_DRIVER}).digest


@pytest.mark.parametrize(
    "fact", [{"cuda:0.properties.uuid": "b-2"}, {"env.CUDA_VISIBLE_DEVICES": "3,4"}, {"stackproof": "9"}, {"verb": "x"}]
)
def test_what_says_nothing_of_speed_is_no_state(fact: dict[str, str]) -> None:
    assert state({**FACTS, **fact}) == state(FACTS)
    assert place({**FACTS, **fact}) == place(FACTS)


def test_facts_of_several_cards_are_one() -> None:
    assert state(FACTS).groups["driver"]["cuda.driver api"] == "13000"
    mixed = state({**FACTS, "cuda:1.driver api": "13010"})
    assert mixed.groups["driver"]["cuda.driver api"] == "13000 | 13010"


def test_every_fact_of_a_real_record_is_classified() -> None:
    stack = stacks.load("cpu")
    proved = Proof(True, "f" * 64, (), 100, "2.15.0", {"cuda": "13.2"})
    facts = provenance.host_facts(stack) | provenance.proof_facts(proved) | torch_facts(stack)
    facts |= {f"cuda:0.{name}": "1" for name in ("name", "memory_bytes", "driver api", "nccl", "cudnn")}
    facts |= {f"xpu:0.{name}": "1" for name in ("level zero", "properties.driver_version", "torch.version.xpu")}
    assert [name for name in facts if store.group_of(name) is None] == []


def test_a_label_tells_a_rehearsal() -> None:
    rehearsed = place({**FACTS, "rehearsed": True, "verified on": "cpu"})
    assert "cuda (rehearsed) on" in rehearsed.label
    assert rehearsed.slug.startswith("cuda-rehearsed-box-")


def test_names_are_safe() -> None:
    found = place({**FACTS, "host": "../../etc: <b>\u4e2d\u6587", "cuda:0.name": "a/b"})
    assert set(found.slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_versions_are_found_in_what_drivers_say() -> None:
    assert state(FACTS).version("driver") == "580.65.06"
    assert state({"commit": "a"}).version("driver") == "none"


def test_long_digests_are_cut_in_sentences() -> None:
    found = changes(state(FACTS), state({**FACTS, "commit": "b" * 40, **making.NEW_DRIVER}))
    assert found["code"] == ("commit: aaaaaaaaaaaa -> bbbbbbbbbbbb",)
    assert found["driver"] == ("nvidia-smi: 580.65.06, NVIDIA L40S -> 590.10.01, NVIDIA L40S",)

"""One pass finds what probes ask for, knows where it stood and who wrote it, and keeps little of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stackproof.triage import logs, reports, scan
from stackproof.triage.search import Probe, compiled

from .making import TRACEBACK, evidence, probe, write


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of a few kilobytes, so that a small log has many."""
    monkeypatch.setattr(logs, "CHUNK", 2048)
    monkeypatch.setattr(logs, "AHEAD", 512)
    monkeypatch.setattr(logs, "BEHIND", 256)
    monkeypatch.setattr(scan, "LONGEST", 200)


def test_hit_knows_line_writer_and_time(tmp_path: Path) -> None:
    text = "2026-01-01 00:00:09 start\n[rank2]: fault A\n2026-01-01 00:00:11 fault B\n"
    hits = evidence(tmp_path, text, [probe("f", "fault")]).tally("f").kept
    assert [(hit.place.line, hit.who, hit.seconds) for hit in hits] == [(2, ("rank", 2), 9.0), (3, ("file", 0), 11.0)]
    assert [hit.text for hit in hits] == ["fault A", "fault B"]


@pytest.mark.usefixtures("small")
def test_every_line_is_seen_once_across_windows(tmp_path: Path) -> None:
    text = "".join(f"line {n} {'x' * (n % 97)}{' fault' if n % 7 == 0 else ''}\n" for n in range(1, 2000))
    tally = evidence(tmp_path, text, [probe("f", "fault", kept=9999, counted=9999)]).tally("f")
    assert [hit.place.line for hit in tally.kept] == list(range(7, 2000, 7))


@pytest.mark.usefixtures("small")
def test_sated_probe_stops_and_the_end_is_read_all_the_same(tmp_path: Path) -> None:
    text = "".join(f"noise {n}\n" for n in range(5000)) + "a rare fault\nnoise last\n"
    found = evidence(tmp_path, text, [probe("n", "noise", kept=3, counted=10), probe("f", "rare fault")])
    noise = found.tally("n")
    assert 10 <= noise.count < 1000
    assert len(noise.kept) <= 6
    assert noise.last["file", 0].text == "noise last"
    assert found.tally("f").count == 1


@pytest.mark.usefixtures("small")
def test_first_line_of_each_rank_is_kept_however_many_there_are(tmp_path: Path) -> None:
    text = "".join(f"[rank{n % 40}]: fault {n}\n" for n in range(400))
    tally = evidence(tmp_path, text, [probe("f", "fault", kept=3)]).tally("f")
    assert {who: hit.text for who, hit in tally.first.items()} == {("rank", n): f"fault {n}" for n in range(40)}


def test_progress_bars_and_windows_line_ends_are_lines(tmp_path: Path) -> None:
    found = evidence(tmp_path, b"1%\r2%\rfault A\r\n3% fault B\rdone\n", [probe("f", "fault")])
    assert [hit.text for hit in found.tally("f").kept] == ["fault A", "3% fault B"]
    assert [hit.place.line for hit in found.tally("f").kept] == [1, 2]


@pytest.mark.usefixtures("small")
def test_line_without_end_is_read_in_parts(tmp_path: Path) -> None:
    for at in range(1900, 2200, 7):
        data = b"x" * at + b" fault " + b"y" * 9000
        found = evidence(tmp_path, data, [probe("f", "fault")]).tally("f")
        assert found.count == 1
        assert len(found.kept[0].text) < 500


def test_lines_of_several_ranks_in_one_are_asked_apart(tmp_path: Path) -> None:
    text = "2025:11:26-12:43:48:(677) |CCL_INFO| fault 12025:11:26-12:43:48:(676) |CCL_INFO| ok\n"
    (hit,) = evidence(tmp_path, text, [probe("f", "fault")]).tally("f").kept
    assert hit.who == ("pid", 677)


def test_span_reads_the_next_lines_of_the_same_rank(tmp_path: Path) -> None:
    text = "[rank0]: rank : 3\n[rank1]: between\n[rank0]: code : -9\n"
    wanted = probe("s", r"rank : (?P<rank>\d+)\ncode : (?P<code>-?\d+)", texts=[b"rank : "], span=2)
    (hit,) = evidence(tmp_path, text, [wanted]).tally("s").kept
    assert hit.groups == {"rank": "3", "code": "-9"}


def test_traceback_is_followed(tmp_path: Path) -> None:
    (hit,) = evidence(tmp_path, TRACEBACK + "ValueError: no\n", [probe("t", "Traceback", follows=True)]).tally("t").kept
    assert hit.block is not None
    assert hit.block.exception == "ValueError: no"


def test_files_of_a_run_are_read_in_turn(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, f"fault {rank}\n", f"rank{rank}.log")
    (run,) = logs.runs([str(tmp_path)])
    found = scan.scan(run.sources, [probe("f", "fault")])
    assert [(file.bytes, file.lines) for file in found.files] == [(8, 1), (8, 1)]
    assert [hit.who for hit in found.tally("f").kept] == [("rank", 0), ("rank", 1)]
    assert [Path(found.place(hit)).name for hit in found.tally("f").kept] == ["rank0.log:1", "rank1.log:1"]


@pytest.mark.usefixtures("small")
@settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.lists(st.one_of(st.binary(max_size=300), st.sampled_from([b"\n", b"\r", b"\0" * 50, b"\x1b[31m"]))))
def test_any_bytes_are_read(tmp_path: Path, data: list[bytes]) -> None:
    path = write(tmp_path, b"log " + b"".join(data))
    found = scan.scan(logs.named([path]).sources, reports.probes())
    assert found.files[0].bytes == path.stat().st_size


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.sampled_from(range(400)), max_size=12),
    glue=st.sampled_from(["\n", " ", "\r", "\x00", "\n[rank1]: "]),
)
def test_any_mixture_of_known_messages_is_judged(tmp_path: Path, pieces: list[int], glue: str) -> None:
    from stackproof.triage import rules

    texts = [text for row in rules.load_all() for text in row.examples]
    text = glue.join(["log", *(texts[piece % len(texts)] for piece in pieces)])
    reports.report(logs.named([write(tmp_path, text.encode())]))


def test_probe_that_is_tied_to_the_beginning_sees_the_line_without_prefixes(tmp_path: Path) -> None:
    tied = Probe("t", (b"fault",), compiled(["^fault"]))
    found = evidence(tmp_path, "[rank1]: fault\n\x1b[31mfault\x1b[0m\nno fault\n", [tied])
    assert found.tally("t").count == 2

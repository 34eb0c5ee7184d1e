"""States: a driver is a commit, the same commits from the same records, and a message that says what changed."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.history import timeline
from stackproof.history.timeline import Entry, SeriesKey, entries, entry, pooled
from stackproof.record import store
from stackproof.record.records import Record, Verdict

from . import making


def entries_of(*records: Record) -> list[Entry]:
    return entries({Path(str(number)): record for number, record in enumerate(records)})


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def with_version(day: float, version: str) -> Record:
    return making.with_facts(making.record(day), {"driver.nvidia-smi": version})


def test_a_stay_lasts_while_nothing_changes() -> None:
    (chain,) = timeline.stays(
        entries_of(
            with_version(0, "550.1"), with_version(1, "550.1"), with_version(2, "560.1"), with_version(3, "550.1")
        )
    ).values()
    assert [len(stay.entries) for stay in chain] == [2, 1, 1]


def test_places_have_histories_of_their_own() -> None:
    chains = timeline.stays(entries_of(making.record(0), making.record(1, host="other"), making.record(2)))
    assert sorted(len(chain[0].entries) for chain in chains.values()) == [1, 2]


def test_each_state_is_a_commit_that_says_what_changed(tmp_path: Path) -> None:
    chains = timeline.stays(
        entries_of(with_version(0, "550.1"), with_version(1, "560.1"), making.record(2, host="other"))
    )
    hashes = timeline.write(chains, tmp_path / "repository")
    name = next(name for name, chain in chains.items() if len(chain) == 2)
    lines = git(tmp_path / "repository", "log", "--reverse", "--format=%H %s", name).splitlines()
    assert [line.split()[0] for line in lines] == hashes[name]
    assert lines[1].split(" ", 1)[1] == "driver: nvidia-smi: 550.1 -> 560.1"
    manifest = json.loads(git(tmp_path / "repository", "show", f"{name}:state.json"))
    assert manifest["driver"]["driver.nvidia-smi"] == "560.1"
    assert git(tmp_path / "repository", "log", "-1", "--format=%at", name) == str(int(making.BEGAN.timestamp()) + 86400)


def test_the_same_records_make_the_same_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chains = timeline.stays(entries_of(with_version(0, "550.1"), with_version(1, "560.1")))
    first = timeline.write(chains, tmp_path / "one")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    assert timeline.write(chains, tmp_path / "two") == first
    assert timeline.write(chains, tmp_path / "two") == first


def test_later_states_leave_the_earlier_commits_alone(tmp_path: Path) -> None:
    runs = [with_version(day, f"550.{day}") for day in range(3)]
    before = timeline.write(timeline.stays(entries_of(*runs[:2])), tmp_path / "repository")
    after = timeline.write(timeline.stays(entries_of(*runs)), tmp_path / "repository")
    assert next(iter(after.values()))[:2] == next(iter(before.values()))


def test_any_text_can_be_a_fact(tmp_path: Path) -> None:
    odd = "1.0\ncommit refs/heads/main\n\udc80 \u4e2d\u6587"
    chains = timeline.stays(entries_of(with_version(0, "550.1"), with_version(1, odd)))
    hashes = timeline.write(chains, tmp_path / "repository")
    assert len(next(iter(hashes.values()))) == 2
    assert git(tmp_path / "repository", "for-each-ref", "--format=%(refname:short)").splitlines() == list(chains)


def test_absent_git_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Refusal, match="git is not installed"):
        timeline.write({}, tmp_path / "repository")


def test_an_empty_store_has_an_empty_history(tmp_path: Path) -> None:
    assert timeline.write({}, tmp_path / "repository") == {}


KEY = SeriesKey("gemm-float32", "tiny", "s/TFLOP")


def test_only_figures_with_a_version_have_a_history() -> None:
    assert entry(making.record(0, making.figure(version=""))) is None
    found = entry(making.record(0, making.figure(), making.figure(workload="other", version="")))
    assert found is not None
    assert list(found.figures) == [KEY]


def test_a_subject_told_in_several_units_counts_once() -> None:
    rows = [making.figure(unit=unit) for unit in ("s/sample", "s/iteration", "s/token")]
    found = entry(making.record(0, *rows))
    assert found is not None
    assert [key.unit for key in found.figures] == ["s/sample"]


def test_presets_are_different_work() -> None:
    found = entry(making.record(0, making.figure(), making.figure(preset="full")))
    assert found is not None
    assert [key.preset for key in found.figures] == ["tiny", "full"]


def test_what_is_no_number_is_no_point() -> None:
    for bad in (math.nan, math.inf, 0.0, -1.0):
        assert entry(making.record(0, making.figure(samples=[1e-3, bad]))) is None


def test_a_commit_that_nobody_can_go_back_to_is_none() -> None:
    for commit, expected in (("a" * 40, "a" * 40), ("a" * 40 + " (with local changes)", ""), ("unknown", "")):
        found = entry(making.record(0, commit=commit))
        assert found is not None
        assert found.commit == expected


def test_entries_come_in_order_of_time() -> None:
    made = {
        Path("a"): making.record(2),
        Path("b"): making.record(1),
        Path("c"): making.record(3, verdict=Verdict.MISMATCHED),
        Path("d"): making.record(4, verdict=Verdict.FAILED),
    }
    assert [one.started.day for one in entries(made)] == [2, 3, 5]


def test_runs_of_one_state_are_pooled() -> None:
    later, earlier = making.figure(samples=[3.0]), making.figure(samples=[1.0, 2.0])
    found = entries({Path("a"): making.record(1, later), Path("b"): making.record(0, earlier)})
    (one,) = pooled(found)
    assert (one.key, one.samples, one.started) == (KEY, (1.0, 2.0, 3.0), found[-1].started)


def test_versions_are_not_pooled() -> None:
    older, newer = making.figure(samples=[9.0]), making.figure(samples=[1.0], version="2")
    (one,) = pooled(entries({Path("a"): making.record(0, older), Path("b"): making.record(1, newer)}))
    assert (one.version, one.samples) == ("2", (1.0,))


def test_a_record_is_copied_once(tmp_path: Path) -> None:
    path = store.append(making.record(0), tmp_path / "local")
    published = timeline.admit(path, tmp_path / "published")
    assert published.parent == tmp_path / "published" / "cuda" / "box"
    assert store.load([tmp_path / "published"]).records == {published: making.record(0)}
    assert timeline.admit(path, tmp_path / "published") == published
    assert path.exists()


def without_host() -> Record:
    made = making.record(0)
    del made.provenance["host"]
    return made


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (making.record(0, commit="a" * 40 + " (with local changes)"), "commit the changes and measure again"),
        (making.record(0, commit="unknown"), "which nobody can go back to"),
        (making.record(0, verdict=Verdict.MISMATCHED), "was not its lock"),
        (making.record(0, making.figure(version="")), "no figures with a version"),
        (making.record(0, verb="triage"), "records of `triage` are not published; those of bench, asv, night"),
        (making.record(0, verb="night", verdict=Verdict.INTERRUPTED), "go on with it"),
        (without_host(), "on which host"),
        (replace(making.record(0), digests={}), "holds no digest of itself"),
        (replace(making.record(0, commit="unknown"), digests={}), "which nobody can go back to"),
    ],
)
def test_what_is_kept_out_says_why(tmp_path: Path, record: Record, sentence: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(record.as_json(), encoding="utf-8")
    with pytest.raises(Refusal, match=sentence) as caught:
        timeline.admit(path, tmp_path / "published")
    assert str(caught.value).startswith(f"{path}: ")
    assert not (tmp_path / "published").exists()


@pytest.mark.parametrize("verb", ["night", "gate", "smoke"])
def test_nights_and_what_proves_them_keep_the_name_of_their_run(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "local" / f"20260101T020000-{verb}-x7" / "record.json"
    path.parent.mkdir(parents=True)
    path.write_text(making.record(0, making.figure(version=""), verb=verb).as_json(), encoding="utf-8")
    published = timeline.admit(path, tmp_path / "published")
    assert published.name == f"20260101T020000-{verb}-x7.record.json" and store.run_of(published) == store.run_of(path)
    assert timeline.admit(path, tmp_path / "published") == published
    path.write_text(making.record(1, making.figure(version=""), verb=verb).as_json(), encoding="utf-8")
    assert timeline.admit(path, tmp_path / "published").name != published.name


def test_a_failed_neighbour_does_not_keep_figures_out(tmp_path: Path) -> None:
    path = store.append(making.record(0, verdict=Verdict.FAILED), tmp_path / "local")
    assert timeline.admit(path, tmp_path / "published").exists()


def test_no_record_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        timeline.admit(tmp_path / "absent.json")

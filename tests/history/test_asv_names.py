"""Names for asv: one for each subject, in a leaf that exists, and never the same for two drivers."""

from __future__ import annotations

from pathlib import Path

from stackproof import ROOT
from stackproof.bench.subjects import Subject, profiles, subjects
from stackproof.history import asv_names
from stackproof.history.timeline import SeriesKey, entries, pooled
from stackproof.record.store import place, state
from stackproof.stack import stacks

from . import making


def everything() -> list[tuple[Subject, str]]:
    """Return every subject with the preset of each profile that has it."""
    stack = stacks.load("cpu")
    return [(one, chosen.preset) for chosen in profiles() for one in subjects(chosen.name, stack)]


def test_each_subject_has_a_name_of_its_own() -> None:
    keys = {SeriesKey(one.name, preset, one.unit) for one, preset in everything()}
    assert len({asv_names.benchmark(key) for key in keys}) == len(keys)


def test_each_kind_has_a_leaf() -> None:
    kinds = {asv_names.leaf(one.kind) for one, _ in everything()}
    leaves = {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")}
    assert leaves == kinds


def test_asv_can_find_a_benchmark_by_its_name() -> None:
    for one, preset in everything():
        module, _, function = asv_names.benchmark(SeriesKey(one.name, preset, one.unit)).partition(".")
        assert function.startswith("track_")
        assert function.isidentifier()
        assert module.isidentifier()


def test_a_subject_that_is_gone_keeps_its_history() -> None:
    row = making.figure(workload="gone-with-1.5", version="7")
    (one,) = pooled(entries({Path("a"): making.record(0, row)}))
    told = asv_names.description(one)
    assert (told["name"], told["version"]) == ("retired.track_gone_with_1_5_tiny", "7")


def test_the_version_is_that_of_the_checkout() -> None:
    (one,) = pooled(entries({Path("a"): making.record(0, making.figure(version="0"))}))
    current = next(subject.version for subject, _ in everything() if subject.name == "gemm-float32")
    assert asv_names.description(one)["version"] == current


def test_titles_say_for_how_much_work() -> None:
    assert asv_names.title(SeriesKey("copy", "tiny", "s/GB")) == "copy (tiny), per GB"
    assert asv_names.title(SeriesKey("import", "full", "s")) == "import (full)"


def test_two_drivers_are_two_files_and_two_lines() -> None:
    facts = making.FACTS
    here, before, after = place(facts), state(facts), state({**facts, **making.NEW_DRIVER})
    assert asv_names.environment(here, before) != asv_names.environment(here, after)
    assert asv_names.axes(here, before)["driver"] == "580.65.06"
    assert asv_names.axes(here, after)["driver"] == "590.10.01"
    other = state({**facts, "commit": "b" * 40})
    assert asv_names.environment(here, before) == asv_names.environment(here, other)
    assert asv_names.axes(here, before) == asv_names.axes(here, other)


def test_names_of_environments_are_short() -> None:
    assert len(asv_names.environment(place(making.FACTS), state(making.FACTS))) < 60

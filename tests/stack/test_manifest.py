"""The manifest: a file whose checks vanish, are renamed, or are executed less than rows explain fails the run, by its name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.record.records import Check, Verdict
from stackproof.runner.suites import counted
from stackproof.stack import manifest, stacks
from stackproof.stack.manifest import FileRow, Manifest, Selection
from stackproof.stack.stacks import Stack

SEEDS = tuple(f"rng/rng::seed[{number}]" for number in range(100))
STATES = ("serialisation/state::tensors", "serialisation/state::optimiser")


def ended(names: Iterable[str], verdict: Verdict = Verdict.PASSED, reason: str = "fine") -> list[Check]:
    return [Check(name, verdict, reason, 0.0) for name in names]


def of(names: Iterable[str], without: dict[str, str] | None = None, because: str = "") -> Manifest:
    return Manifest(Path("stacks/cpu/expected.toml"), manifest.rows_of(names, without or {}, because))


def complaints(found: Manifest, run: Selection, cpu: Stack) -> dict[str, str]:
    return dict(manifest.complaints(found, run, cpu))


SUITES = ("rng", "serialisation")


def test_what_was_counted_is_what_is_expected(cpu: Stack) -> None:
    assert not complaints(of([*SEEDS, *STATES]), Selection([*SEEDS, *STATES], ended([*SEEDS, *STATES]), SUITES), cpu)


def test_a_file_that_vanishes_is_named_with_both_numbers(cpu: Stack) -> None:
    wrong = complaints(of([*SEEDS, *STATES]), Selection(SEEDS, ended(SEEDS), SUITES), cpu)
    assert wrong.keys() == {"serialisation/state"}
    assert (
        "0 checks of serialisation/state were collected, stacks/cpu/expected.toml has 2" in wrong["serialisation/state"]
    )
    assert "stackproof expect --stack cpu" in wrong["serialisation/state"]


@pytest.mark.parametrize("change", [SEEDS[1:], (*SEEDS, "rng/rng::seed[more]")], ids=["one fewer", "one more"])
def test_one_check_is_enough(cpu: Stack, change: tuple[str, ...]) -> None:
    wrong = complaints(of(SEEDS), Selection(change, ended(change), SUITES), cpu)
    assert f"{len(change)} checks of rng/rng were collected, stacks/cpu/expected.toml has 100" in wrong["rng/rng"]


def test_a_renamed_check_is_seen_although_the_number_is_the_same(cpu: Stack) -> None:
    renamed = (*SEEDS[1:], "rng/rng::sown[0]")
    assert "under other names" in complaints(of(SEEDS), Selection(renamed, ended(renamed), SUITES), cpu)["rng/rng"]


def test_a_file_that_nobody_counts_on_is_told(cpu: Stack) -> None:
    wrong = complaints(of(SEEDS), Selection([*SEEDS, *STATES], ended([*SEEDS, *STATES]), SUITES), cpu)
    assert "no row for serialisation/state" in wrong["serialisation/state"]


def test_a_check_that_a_rule_skips_is_named_unless_its_row_has_the_rule(cpu: Stack) -> None:
    rule = "data/capabilities.toml, safetensors: needs safetensors>=99"
    checks = [*ended(STATES[:1]), *ended(STATES[1:], Verdict.SKIPPED, rule)]
    wrong = complaints(of(STATES), Selection(STATES, checks, SUITES), cpu)["serialisation/state"]
    assert wrong.startswith(
        "find out why 1 check of serialisation/state did not run, or, if that is meant, write it anew with `"
    )
    assert f"optimiser ({rule})" in wrong and wrong.endswith("stacks/cpu/expected.toml excuses nothing")
    assert not complaints(of(STATES, {STATES[1]: "safetensors"}), Selection(STATES, checks, SUITES), cpu)


def test_a_rule_that_is_named_may_skip_more_checks_than_the_run_that_was_counted(cpu: Stack) -> None:
    rule = "data/collectives.toml, lacks[1]: gloo's mean of whole numbers"
    row = of(SEEDS, {SEEDS[0]: "collectives.toml"})
    skipped = [*ended(SEEDS[:3], Verdict.SKIPPED, rule), *ended(SEEDS[3:])]
    assert not complaints(row, Selection(SEEDS, skipped, SUITES), cpu)


@pytest.mark.parametrize(
    ("why", "verdict", "reason"),
    [("not applicable", Verdict.NOT_APPLICABLE, "no such dtype"), ("measured", Verdict.SKIPPED, "torch refuses it")],
)
def test_what_no_rule_says_is_counted(cpu: Stack, why: str, verdict: Verdict, reason: str) -> None:
    row = of(SEEDS, dict.fromkeys(SEEDS[:2], why))
    two = [*ended(SEEDS[:2], verdict, reason), *ended(SEEDS[2:])]
    assert not complaints(row, Selection(SEEDS, two, SUITES), cpu)
    three = [*ended(SEEDS[:3], verdict, reason), *ended(SEEDS[3:])]
    assert (
        f"seed[2] ({reason}); stacks/cpu/expected.toml excuses 2 {why}"
        in complaints(row, Selection(SEEDS, three, SUITES), cpu)["rng/rng"]
    )


@pytest.mark.parametrize("rule", ["enough-memory", "a-card-each"])
def test_hosts_differ_in_memory_and_cards(cpu: Stack, rule: str) -> None:
    checks = [
        *ended(STATES[:1]),
        *ended(STATES[1:], Verdict.SKIPPED, f"data/capabilities.toml, {rule}: less than needed"),
    ]
    assert not complaints(of(STATES), Selection(STATES, checks, SUITES), cpu)
    assert of(STATES, {STATES[1]: rule}).files["serialisation/state"].rules == ()


def test_another_torch_has_98_per_cent(cpu: Stack) -> None:
    other = Selection(SEEDS[2:], ended(SEEDS[2:]), SUITES, exact=False)
    assert not complaints(of(SEEDS), other, cpu)
    fewer = replace(other, collected=SEEDS[3:])
    assert "97 checks of rng/rng were collected" in complaints(of(SEEDS), fewer, cpu)["rng/rng"]
    assert complaints(of(STATES), Selection(STATES[1:], ended(STATES[1:]), SUITES, exact=False), cpu)


def test_two_of_a_hundred_may_be_left_out_where_nobody_had_the_card(cpu: Stack) -> None:
    for number, wrong in ((2, False), (3, True)):
        checks = [*ended(SEEDS[:number], Verdict.NOT_APPLICABLE), *ended(SEEDS[number:])]
        assert bool(complaints(of(SEEDS, because="no card"), Selection(SEEDS, checks, SUITES), cpu)) is wrong


def test_versions_that_nobody_counted_may_be_too_old(cpu: Stack) -> None:
    rule = "data/capabilities.toml, fully-shard: needs torch>=2.6, 2.4.1 is installed: FSDP2 is public from there"
    checks = [*ended(STATES[:1]), *ended(STATES[1:], Verdict.SKIPPED, rule)]
    assert not complaints(of(STATES, because="no card"), Selection(STATES, checks, SUITES), cpu)
    assert complaints(of(STATES), Selection(STATES, checks, SUITES), cpu)
    for reason in (
        "fused=True, measured on xpu:0: torch refuses it",
        "data/collectives.toml, lacks[3]: nccl has no such sum",
    ):
        measured = [*checks[:1], *ended(STATES[1:], Verdict.SKIPPED, reason)]
        assert not complaints(of(STATES, because="no card"), Selection(STATES, measured, SUITES), cpu)
        assert complaints(of(STATES), Selection(STATES, measured, SUITES), cpu)


def test_suites_that_were_not_asked_for_are_left_alone(cpu: Stack) -> None:
    assert not complaints(of([*SEEDS, *STATES]), Selection(SEEDS, ended(SEEDS), ("rng",)), cpu)


@pytest.mark.parametrize(
    ("verdict", "reason", "word"),
    [
        (Verdict.NOT_APPLICABLE, "the database lists no float16 for cpu", "not applicable"),
        (Verdict.SKIPPED, "data/capabilities.toml, tf32: absent on cpu: matrix units", "tf32"),
        (Verdict.SKIPPED, "stacks/sim/stack.toml, missing.safetensors: it loads by name", "missing.safetensors"),
        (Verdict.SKIPPED, "stacks/xpu/stack.toml: precisions has no float64", "precisions"),
        (Verdict.SKIPPED, "data/collectives.toml, lacks[3]: gloo has no such call", "collectives.toml"),
        (Verdict.SKIPPED, "Adagrad(fused=True), measured on cuda:0: torch refuses it", "measured"),
    ],
)
def test_each_reason_has_a_word(verdict: Verdict, reason: str, word: str) -> None:
    assert word == manifest.why_not(Check("a/b::c", verdict, reason, 0.0))


@pytest.mark.parametrize("because", ["", 'no "card"'])
def test_what_is_written_is_read_again(cpu: Stack, tmp_path: Path, because: str) -> None:
    (tmp_path / "cpu").mkdir()
    mine = replace(cpu, folder=tmp_path / "cpu")
    rows = manifest.rows_of([*SEEDS, *STATES], {SEEDS[0]: "not applicable", SEEDS[1]: "safetensors"}, because)
    manifest.write(manifest.path_of(mine), rows, mine)
    found = manifest.load(mine)
    assert found is not None and found.files == rows


def test_a_suite_that_is_gone_is_refused(cpu: Stack, tmp_path: Path) -> None:
    mine = replace(cpu, folder=tmp_path)
    manifest.write(tmp_path / "expected.toml", {"nosuch/file": FileRow(1, "0" * 16)}, mine)
    with pytest.raises(Refusal, match="is of the suite 'nosuch', which does not exist"):
        manifest.load(mine)


@pytest.mark.parametrize("name", stacks.names())
def test_every_stack_has_a_manifest_of_every_file(name: str) -> None:
    found = manifest.load(stacks.load(name))
    assert found is not None
    files = {
        f"{path.parent.name}/{path.stem.removeprefix('test_').lstrip('0123456789').removeprefix('_')}"
        for path in stacks.SUITES.glob("*/test_*.py")
        if counted([path.parent.name])
    }
    assert found.files.keys() == files


def test_where_no_run_was_the_remedy_names_one(cpu: Stack) -> None:
    run, ours = Selection([*SEEDS, *STATES], (), SUITES), replace(of(SEEDS), path=manifest.path_of(cpu))
    (said,) = dict(manifest.complaints(ours, run, cpu, counted=False)).values()
    assert said.endswith("where RECORD is what `nox -s cpu-verify -- --suite all` leaves") and "this run" not in said
    said = complaints(ours, run, cpu)["serialisation/state"]
    assert said.endswith("where RECORD is the record of this run")

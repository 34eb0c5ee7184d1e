"""The real asv, through the verb: run, continuous, compare, publish and check; a driver is flagged like a commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import DRIVERS
from .making import Checkout

BENCHMARK = "gemm.track_gemm_float32_tiny"


def results(checkout: Checkout) -> list[dict[str, object]]:
    folder = checkout.root / ".asv" / "results" / "box"
    return [json.loads((folder / name).read_text(encoding="utf-8")) for name in checkout.files()]


def test_two_drivers_at_one_commit_are_two_series(measured: Checkout) -> None:
    found = {row["params"]["driver"]: row for row in results(measured)}  # type: ignore[index]
    assert set(found) == set(DRIVERS)
    assert len({row["commit_hash"] for row in found.values()}) == 1
    for driver, seconds in zip(DRIVERS, (1e-3, 1.12e-3), strict=True):
        row = dict(zip(found[driver]["result_columns"], found[driver]["results"][BENCHMARK]))  # type: ignore[call-overload,index]  # noqa: B905
        assert row["result"][0] == pytest.approx(seconds, rel=0.01)
        assert len(row["samples"][0]) == 20
        assert row["version"] == "3"  # of the row gemm in benchmarks.toml
        assert row["stats_number"] == [1]


def test_the_record_says_what_asv_cannot(measured: Checkout) -> None:
    first, second = measured.stored()
    assert [one.provenance[f"driver.{measured.driver}"] for one in (first, second)] == list(DRIVERS)
    assert first.provenance["commit"] == measured.git("rev-parse", "HEAD")
    assert first.checks[0].reason == "proved by a planted engine"
    assert [row.version for row in first.measurements] == ["3"]


def test_a_driver_that_costs_12_percent_is_flagged_by_compare(checkout: Checkout) -> None:
    (place,) = states(checkout)
    ended = checkout.asv("--states", "compare", f"{place}~1", place)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = [line for line in ended.stdout.splitlines() if BENCHMARK in line]
    assert row.split("|")[1].strip() == "+"
    assert float(row.split("|")[4]) == pytest.approx(1.12, abs=0.01)


def states(checkout: Checkout) -> list[str]:
    ended = checkout.asv("publish")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    repository = checkout.root / ".asv" / "states" / "repository"
    return checkout.git("-C", str(repository), "branch", "--format=%(refname:short)").splitlines()


def test_a_driver_that_costs_12_percent_is_flagged_by_publish(checkout: Checkout) -> None:
    states(checkout)
    html = checkout.root / ".asv" / "html"
    by_state = json.loads((html / "states" / "regressions.json").read_text(encoding="utf-8"))["regressions"]
    ((name, _, _, _, now, best, jumps),) = by_state
    assert (name, len(jumps)) == (BENCHMARK, 1)
    assert now / best == pytest.approx(1.12, rel=0.01)
    index = json.loads((html / "states" / "index.json").read_text(encoding="utf-8"))
    blamed = index["revision_to_hash"][str(jumps[0][1])]
    message = checkout.git(
        "-C", str(checkout.root / ".asv" / "states" / "repository"), "log", "-1", "--format=%s", blamed
    )
    assert message == f"driver: {checkout.driver}: {DRIVERS[0]} -> {DRIVERS[1]}"
    assert json.loads((html / "regressions.json").read_text(encoding="utf-8"))["regressions"] == []


def test_a_slower_commit_is_flagged_by_continuous(fresh: Checkout) -> None:
    fresh.commit("Be slower", factor=1.3)
    ended = fresh.asv("--stack", "cpu", "continuous", "HEAD~1", "HEAD", "--bench", "float32", "-a", "rounds=2")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "PERFORMANCE DECREASED" in ended.stdout
    compared = fresh.asv("compare", "HEAD~1", "HEAD")
    (row,) = [line for line in compared.stdout.splitlines() if BENCHMARK in line]
    assert row.split("|")[1].strip() == "+"
    assert {len(one.measurements) for one in fresh.stored()} == {2}
    assert not (fresh.root / ".nox").exists()
    assert [path.name for path in (fresh.root / ".asv" / "env").iterdir()] == ["cpu"]


def test_check_finds_the_benchmarks_sound(fresh: Checkout) -> None:
    ended = fresh.asv("--stack", "cpu", "check")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "No problems found." in ended.stdout
    assert fresh.stored() == []


def test_a_benchmark_that_computes_wrong_fails(fresh: Checkout) -> None:
    fresh.be(seconds=1e-3, wrong=True)
    ended = fresh.asv("--stack", "cpu", "run", "HEAD^!", "--bench", "float32")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "failed" in ended.stdout
    (record,) = fresh.stored()
    assert (record.verdict.value, record.measurements) == ("failed", [])
    assert record.checks[0].reason == "planted: the product is wrong"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "which command of asv?"),
        (("run", "HEAD^!"), 2, "add --stack NAME"),
        (("--states", "run", "HEAD"), 2, "states are made from the records of other runs"),
        (("no-such-command",), 2, "invalid choice"),
        (("--stack", "cpu", "run", "no-such-commit", "--bench", "x"), 2, "no-such-commit"),
        (("--stack", "cuda", "run", "HEAD^!"), 2, "there is no stack 'cuda'"),
        (("--profile", "ful", "--stack", "cpu", "run", "HEAD^!"), 2, "did you mean 'full'"),
        (("compare", "HEAD", "HEAD"), 2, "No results found"),
        (("--stack", "cpu", "--device", "cuda:0", "run", "HEAD^!"), 2, "device 'cuda:0' is not of this stack"),
        (("--stack", "cpu", "run", "nosuchref^!"), 2, "is a commit misspelt, or still to be fetched"),
    ],
)
def test_bad_arguments_are_sentences(fresh: Checkout, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    ended = fresh.asv(*arguments)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert sentence in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


def test_an_empty_store_publishes_nothing_and_says_so(fresh: Checkout, tmp_path: Path) -> None:
    ended = fresh.asv("publish")
    assert "Traceback" not in ended.stdout + ended.stderr
    assert ended.returncode == 0
    assert (fresh.root / ".asv" / "html" / "index.html").is_file()

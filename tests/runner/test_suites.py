"""The table of suites: order, workers, and the verb that runs them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.runner.suites import Stage, explained, of_verb, plugins_of, stages
from stackproof.stack import stacks


def _table(folder: Path, *rows: tuple[str, int]) -> Path:
    text = "".join(f'[[suite]]\nname = "{name}"\nworkers = {workers}\n' for name, workers in rows)
    (folder / "suites.toml").write_text(text)
    return folder


def test_suites_run_in_the_order_of_the_table(tmp_path: Path) -> None:
    found = stages(("a", "b", "c", "d", "z"), _table(tmp_path, ("z", 1), ("b", 2), ("d", 2), ("a", 1)))
    assert found == (Stage(("z",), 1), Stage(("b", "d"), 2, {("a", "c"): math.inf}))


def _cores(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr("stackproof.runner.suites.cores", lambda: number)


def _measuring(folder: Path) -> Path:
    (folder / "a").mkdir()
    for name in ("test_1_values.py", "test_2_ranks.py", "test_3_rates.py"):
        (folder / "a" / name).write_text("")
    (folder / "suites.toml").write_text(
        '[[suite]]\nname = "a"\nmost_workers = 3\nalone = ["test_3_rates.py"]\napart = ["test_2_ranks.py"]\napart_gib = 16\n'
        '[[suite]]\nname = "b"\nmost_workers = 8\n[[suite]]\nname = "large"\napart_gib = 64\n[[suite]]\nname = "c"\n'
    )
    return folder


def test_files_that_measure_come_last_where_the_rest_shares_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, names = _measuring(tmp_path), ("a", "b", "large", "c")
    _cores(monkeypatch, 16)
    beside: dict[tuple[str, ...], float] = {
        ("a/test_2_ranks.py",): 16,
        ("large",): 64,
        ("a/test_3_rates.py", "c"): math.inf,
    }
    assert stages(names, folder) == (Stage(("a/test_1_values.py", "b"), 8, beside),)
    _cores(monkeypatch, 2)
    assert [(stage.suites, stage.workers) for stage in stages(names, folder)] == [(names, 1)]


def test_files_that_run_apart_run_by_themselves_where_nothing_is_left_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cores(monkeypatch, 8)
    (tmp_path / "suites.toml").write_text(
        'suite = [{ name = "sums", most_workers = 4, alone = ["test_2_cost.py"], apart = ["test_1_exact.py"], apart_gib = 1 }]'
    )
    (tmp_path / "sums").mkdir()
    for file in ("test_1_exact.py", "test_2_cost.py"):
        (tmp_path / "sums" / file).touch()
    assert stages(("sums",), tmp_path) == (Stage(("sums/test_1_exact.py", "sums/test_2_cost.py"), 1),)


def test_one_process_has_another_beside_it_until_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = 'name = "a", most_workers = 6, alone = ["test_3_rates.py"], apart = ["test_2_ranks.py"], beside = ["test_1_values.py"]'
    folder = _measuring(tmp_path)
    (folder / "suites.toml").write_text(f"suite = [{{ {row} }}]")
    _cores(monkeypatch, 2)
    values, *measured = (f"a/{name}" for name in ("test_1_values.py", "test_2_ranks.py", "test_3_rates.py"))
    (stage,) = stages(("a", "c"), folder)
    assert (stage.suites, stage.workers, stage.apart) == ((*measured, "c"), 1, {(values,): 0.0})
    assert set(stage.held) == set(measured)
    assert stages(("a",), folder, ("a/values::*",)) == (Stage(("a",), 1),)


def test_a_suite_stays_whole_where_checks_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _cores(monkeypatch, 16)
    assert stages(("a",), _measuring(tmp_path), ("a/rates::*",))[0].suites == ("a",)


def test_files_of_a_suite_have_its_plugins(tmp_path: Path) -> None:
    (tmp_path / "suites.toml").write_text('[[suite]]\nname = "a"\nplugins = ["p"]\n')
    assert plugins_of(("a/test_1.py", "a/test_2.py", "b"), tmp_path) == ("p",)


def test_a_few_checks_by_name_need_one_process(tmp_path: Path) -> None:
    table = _table(tmp_path, ("a", 2))

    def workers(*only: str) -> int:
        return stages(("a",), table, only)[0].workers

    assert [workers("a/b::c"), workers("a/b::c[[]d]", "a/b::e"), workers("a/b::*")] == [1, 1, 2]
    assert workers(*(f"a/b::{number}" for number in range(100))) == 2


def test_a_host_with_many_cores_runs_more_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suites.toml").write_text('[[suite]]\nname = "a"\nworkers = 2\nmost_workers = 8\n')

    def workers(cores: int) -> int:
        monkeypatch.setattr("stackproof.runner.suites.cores", lambda: cores)
        return stages(("a",), tmp_path)[0].workers

    assert [workers(cores) for cores in (1, 2, 8, 16, 128)] == [2, 2, 8, 8, 8]


def test_every_suite_belongs_to_exactly_one_verb() -> None:
    verbs = ("verify", "ddp", "bench", "soak", "explore", "upstream")
    assert sorted(name for verb in verbs for name in of_verb(verb)) == sorted(stacks.suites())
    assert "smoke" in of_verb("verify")


def test_an_unknown_key_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "suites.toml").write_text('[[suite]]\nname = "a"\nworker = 2\n')
    with pytest.raises(Refusal, match="worker"):
        stages(("a",), tmp_path)


def test_every_suite_explains_each_of_its_files_and_checks() -> None:
    for suite in (*of_verb("verify"), *of_verb("ddp"), *of_verb("bench"), *of_verb("explore"), *of_verb("upstream")):
        said = list(explained(suite))
        assert said and all(one.split("\n  ")[-1].strip() and not one.endswith(": ") for one in said), suite

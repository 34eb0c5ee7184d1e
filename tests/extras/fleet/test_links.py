"""Pairs of hosts: a slow link is told from a slow host, and nobody is blamed for noise."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base.errors import Refusal
from stackproof.extras.fleet import links, pairing, plan, sweep
from stackproof.extras.fleet.links import PairTime
from stackproof.extras.fleet.pairing import PairLauncher

from .making import fleet

HOSTS = [f"n{number:02}" for number in range(1, 17)]


def measured(
    slow_hosts: dict[str, float], slow_links: dict[frozenset[str], float], seed: int = 1, rounds: int = 6
) -> list[PairTime]:
    """Return what rounds of pairs gave, with noise of 2 %."""
    rng, found = random.Random(seed), []
    for one in plan.rounds(HOSTS, rounds, seed):
        for first, second in one:
            factor = (
                slow_hosts.get(first, 1.0)
                * slow_hosts.get(second, 1.0)
                * slow_links.get(frozenset((first, second)), 1.0)
            )
            found.append(PairTime(first, second, 0.01 * factor * (1 + rng.gauss(0, 0.02))))
    return found


def test_equal_hosts_and_links_are_not_blamed() -> None:
    assert sum(len(links.judge(measured({}, {}, seed))) for seed in range(100)) <= 1


def test_a_slow_host_is_one_host_and_no_link() -> None:
    (found,) = links.judge(measured({"n05": 2.0}, {}))
    assert (found.first, found.second) == ("n05", "") and found.ratio == pytest.approx(2.0, rel=0.1)
    assert "slow in all of its 6 pairs" in found.said


def test_a_slow_link_is_a_link_and_no_host() -> None:
    pair = plan.rounds(HOSTS, 6, 1)[2][3]
    (found,) = links.judge(measured({}, {frozenset(pair): 3.0}))
    assert {found.first, found.second} == set(pair) and found.ratio == pytest.approx(3.0, rel=0.15)


def test_both_at_once_are_told_apart() -> None:
    pair = next(one for one in plan.rounds(HOSTS, 6, 1)[0] if "n05" not in one)
    found = links.judge(measured({"n05": 2.0}, {frozenset(pair): 3.0}))
    assert [(bool(one.second), {one.first, one.second} - {""}) for one in found] == [
        (True, set(pair)),
        (False, {"n05"}),
    ]


def test_one_round_blames_nobody() -> None:
    assert links.judge(measured({"n05": 3.0}, {}, rounds=1)) == []
    assert links.judge([]) == []


def leave(folder: Path, times: list[PairTime]) -> None:
    """Let pairs leave what ranks leave."""
    for number, one in enumerate(times):
        place = links.place(folder, number, one.first, one.second)
        place.mkdir(parents=True)
        ranks = [{"seconds": [one.seconds * factor for factor in (0.9, 1.0, 1.1)]}, {"seconds": [one.seconds / 2] * 3}]
        (place / links.RESULT).write_text(json.dumps({"ranks": ranks}), encoding="utf-8")


def test_what_pairs_left_is_judged_with_the_fleet(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 16)
    leave(folder, measured({"n05": 2.0}, {}))
    found = sweep.judged(folder)
    assert [one.first for one in found.links] == ["n05"] and found.exit_code == 1
    assert found.headline.endswith("16 proved; 1 slow in pairs")


_ODD = ("", "{", "[]", '{"ranks": 1}', *('{"ranks": [{"seconds": [' + one + "]}]}" for one in ('"x"', "", "-1", "NaN")))


@pytest.mark.parametrize("text", _ODD)
def test_what_is_no_result_is_said_to_be_missing(tmp_path: Path, text: str) -> None:
    place = links.place(tmp_path, 0, "n01", "n02")
    place.mkdir(parents=True)
    (place / links.RESULT).write_text(text, encoding="utf-8")
    assert links.told(tmp_path) == ((), ["pairs of hosts that left nothing: 1, such as n01 with n02"])


@pytest.mark.parametrize("text", ["srun", "srun {first}", "srun '{first},{second}", "ssh {second}"])
def test_a_launcher_must_name_both(text: str) -> None:
    with pytest.raises(Refusal, match="--launch"):
        PairLauncher.of(text, "python", 1.0)


def test_each_pair_is_started_with_its_hosts(tmp_path: Path) -> None:
    made = plan.make("s", "cpu", "tiny", HOSTS[:5], seed=2)
    script = tmp_path / "python"
    text = (
        'while [ "$1" != --folder ]; do shift; done\ncase "$2" in *n03*) sleep 30;; esac\necho {} > "$2/rank0.json"\n'
    )
    script.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    script.chmod(0o755)
    launcher = PairLauncher.of("env A={first} B={second}", str(script), 0.02)
    pairing.measure(made, tmp_path, 2, launcher, lambda _: None)
    places = sorted((tmp_path / links.FOLDER).glob("round-*/*"))
    assert len(places) == 4
    assert all((place / links.RESULT).exists() == ("n03" not in place.name) for place in places)


def answering(path: Path, who: str) -> str:
    """Make what stands in for Python on hosts: pairs of which a name matches answer, others end with an error."""
    result = '{"ranks": [{"seconds": [0.01]}, {"seconds": [0.01]}]}'
    script = f"""while [ "$1" != --folder ]; do shift; done\ncase "$2" in {who}) echo '{result}' > "$2/rank0.json";; *) exit 3;; esac\n"""
    path.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("who", "rounds", "said"),
    [
        ("never", 3, "CANNOT SAY: no pair of hosts answered, of 12"),
        ("*n02--*", 3, "CANNOT SAY: "),
        ("*", 1, "CANNOT SAY: 8 hosts met fewer than 3 partners"),
    ],
)
def test_pairs_that_do_not_answer_prove_no_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], who: str, rounds: int, said: str
) -> None:
    folder = fleet(tmp_path / "s", 8)
    leave(folder, measured({}, {}))
    words = ["fleet", "pairs", str(folder), "--rounds", str(rounds), "--python", answering(tmp_path / "py", who)]
    assert cli.main([*words, "--launch", "env A={first} B={second}"]) == 6
    assert said in capsys.readouterr().out


def test_pairs_that_all_answer_alike_are_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "fleet",
        "pairs",
        str(fleet(tmp_path / "s", 8)),
        "--rounds",
        "3",
        "--python",
        answering(tmp_path / "py", "*"),
    ]
    assert cli.main([*words, "--launch", "env A={first} B={second}"]) == 0
    assert "CANNOT SAY" not in capsys.readouterr().out

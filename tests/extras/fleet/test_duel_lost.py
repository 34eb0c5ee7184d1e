"""A side that goes away, or says what cannot be, decides nothing: neither of its host nor of the other, and others have their duels."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base import processes
from stackproof.extras.fleet import duel, plan, report, sweep
from stackproof.extras.fleet.launcher import Launcher
from stackproof.record.records import Verdict

from .making import KERNELS, SUBJECTS, MadeHost, fleet
from .playing import Part, play

PARTNERS = tuple(f"n{number:02}" for number in range(1, 7))
slow = pytest.mark.slow
LOST = [
    pytest.param({"do": "exit"}, "ended with exit code 3 in 'block'", id="exit"),
    pytest.param({"do": "kill"}, "ended with signal SIGKILL in 'block'", id="kill", marks=slow),
    pytest.param({"do": "hang"}, "did not answer 'block' in time", id="hang", marks=slow),
    pytest.param({"do": "raw {"}, "no JSON", id="half", marks=slow),
    pytest.param({"do": "raw [1]"}, "no JSON object", id="list", marks=slow),
    pytest.param({"do": "raw " + "[" * 100_000}, "no JSON", id="deep", marks=slow),
    pytest.param({"do": "raw {}"}, "turn nothing", id="nothing", marks=slow),
    pytest.param({"do": "huge"}, "a line of more than 1024 KiB", id="huge", marks=slow),
    pytest.param({"do": "twice"}, "answers turn", id="twice", marks=slow),
    pytest.param({"do": {"turn": 1}}, "answers turn 1, and turn", id="another turn", marks=slow),
    pytest.param({"do": {"seconds": -1}}, "says that a run takes -1 seconds", id="negative"),
    pytest.param({"do": {"seconds": 50.0}}, "and we have waited", id="longer than we waited", marks=slow),
    pytest.param({"do": {"verdict": "failed", "reason": "drain me"}}, "cannot do 'block'", id="verdict", marks=slow),
]


@pytest.mark.parametrize(("part", "said"), LOST)
@pytest.mark.parametrize("who", ["ill", pytest.param("n", marks=slow)])
def test_a_side_that_is_lost_decides_nothing(tmp_path: Path, part: Part, said: str, who: str) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", slow={SUBJECTS[0]: 1.2}))
    parts = {host: {**part, "at": "block", "after": 5} for host in ("ill", *PARTNERS) if host.startswith(who)}
    (record,) = play(tmp_path, parts, scale=0.02 if part["do"] == "hang" else 1.0).fought(folder)
    (check,) = record.checks
    assert check.verdict is Verdict.INCONCLUSIVE and check.reason.startswith("not decided: ") and said in check.reason
    found = sweep.judged(folder)
    assert not any(host.confirmed or host.refuted for host in found.hosts)
    text = report.terminal(found)
    assert "scontrol" not in text and "out of memory" not in text and "drain me" not in text


def test_where_its_log_is_is_said(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", slow={SUBJECTS[0]: 1.2}))
    (folder / "logs").mkdir()
    (tmp_path / "mine").write_text("precious", encoding="utf-8")
    (folder / "logs" / "duel-ill.log").symlink_to(tmp_path / "mine")
    (record,) = play(tmp_path, {"ill": {"at": "block", "after": 5, "do": "exit"}}).fought(folder)
    assert (
        "after 2 turns beside n0" in record.checks[0].reason
        and "its log is logs/duel-ill.log" in record.checks[0].reason
    )
    assert (folder / "logs" / "duel-ill.log").read_text() == "out of memory\n"
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_suspect_that_is_lost_keeps_no_other_from_its_duel(tmp_path: Path) -> None:
    odd = [MadeHost(name, slow={SUBJECTS[0]: 1.2}) for name in ("dying", "guilty")]
    folder = fleet(tmp_path / "s", 8, *odd)
    first = next(
        iter(duel.challenges(sweep.judged(folder), plan.load(folder).hosts, report.open_suspects(sweep.judged(folder))))
    )
    parts: dict[str, Part] = {"dying": {"at": "open", "do": "exit"}, first.partners[0]: {"at": "block", "do": "kill"}}
    play(tmp_path, {"guilty": {"slow": 1.2}, **parts}).fought(folder)
    confirmed = {host.host for host in sweep.judged(folder).hosts if host.confirmed}
    assert confirmed == {"guilty"}


@pytest.mark.parametrize(
    "told",
    [
        {"digest": None},
        *(
            pytest.param(told, marks=slow)
            for told in (
                {"products": 0},
                {"products": 8},
                {"odd": -1},
                {"odd": True},
                {"odd": 1e300},
                {"digest": "x" * 16},
            )
        ),
    ],
)
def test_replays_that_cannot_be_are_not_believed(tmp_path: Path, told: Part) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", digests={KERNELS[0]: "0000000000000003"}))
    (record,) = play(tmp_path, {"ill": {"at": "replay", "do": told}}).fought(folder)
    assert {check.verdict for check in record.checks} == {Verdict.INCONCLUSIVE}
    assert "ill's side is not believed in 'replay'" in record.checks[0].reason


@pytest.mark.parametrize(
    "first",
    [
        "[]",
        pytest.param("null", marks=slow),
        pytest.param('{"ready": true}', marks=slow),
        pytest.param('{"facts": {"torch": 1}}', marks=slow),
    ],
)
def test_what_stands_before_the_first_word_is_passed_over(tmp_path: Path, first: str) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("guilty", slow={SUBJECTS[0]: 1.2}))
    (record,) = play(tmp_path, {"guilty": {"slow": 1.2, "first": first}}).fought(folder)
    assert record.verdict is Verdict.FAILED


@pytest.mark.parametrize(
    "words",
    [
        "false {host}",
        pytest.param("/nope/{host}", marks=slow),
        pytest.param('echo \'{{"refused": "no {host}", "exit_code": 3}}\'', marks=slow),
        pytest.param("yes {host}", marks=slow),
        pytest.param("cat {host} /dev/zero", marks=slow),
    ],
)
def test_a_launcher_that_starts_nothing_confirms_nobody(tmp_path: Path, words: str) -> None:
    folder = fleet(tmp_path / "s", 6, MadeHost("slow", slow={SUBJECTS[0]: 1.2}))
    found, made = sweep.judged(folder), plan.load(folder)
    (challenge,) = duel.challenges(found, made.hosts, report.open_suspects(found))
    launcher = Launcher.of(words.replace("{{", "{").replace("}}", "}"), "python", "cpu", "tiny", 0.1, 5.0)
    record = duel.Duel(challenge, launcher, folder, lambda _: None).fight()
    duel.keep(record, folder)
    assert record.verdict is Verdict.INCONCLUSIVE
    assert not any(one.confirmed for one in sweep.judged(folder).hosts)


def test_nothing_that_was_started_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = processes.new_mark()
    monkeypatch.setenv(processes.MARK, mark)
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", slow={SUBJECTS[0]: 1.2}))
    play(tmp_path, {"ill": {"at": "block", "after": 3, "do": "kill"}}).fought(folder)
    assert processes.marked(mark) == []

"""A duel: whom it puts beside whom, what it says of what it sees, and that no record can choose a command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.fleet import duel, plan, report, sweep
from stackproof.fleet.far import FarSide, Launcher
from stackproof.record.records import Record, Verdict

from .making import KERNELS, SUBJECTS, MadeHost, fleet

_SIDE = """
import json, sys
host, slow, odd = sys.argv[sys.argv.index("--host") + 1], {slow!r}, {odd!r}
print("Welcome to " + host)
print(json.dumps({{"facts": {{"torch": "2.15"}}}}), flush=True)
turn = 0
for line in sys.stdin:
    asked, turn = json.loads(line), turn + 1
    if host == "dying" and asked["ask"] == "block":
        sys.exit("out of memory")
    if asked["ask"] == "replay":
        other = odd.get(host) == "other"
        told = {{"digest": ("1" if other else "0") * 16, "products": 9, "odd": 0 if other else odd.get(host, 0)}}
    else:
        told = {{"seconds": 0.25 * slow.get(host, 1.0) * (1 + 0.001 * (turn * 7919 % 5)), "proved": "", "worth": {{}}}}
    print(json.dumps(told), flush=True)
"""


def launcher(tmp_path: Path, slow: dict[str, float] | None = None, odd: dict[str, object] | None = None) -> Launcher:
    """Return what starts a play of a side in place of the verb."""
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable}\n{_SIDE.format(slow=slow or {}, odd=odd or {})}", encoding="utf-8")
    path.chmod(0o755)
    return Launcher.of("env AT={host}", str(path), "cpu", "tiny", 1.0, 20.0)


def fought(folder: Path, tmp_path: Path, **hosts: dict[str, object]) -> list[Record]:
    """Fight every challenge of a sweep."""
    found, made = sweep.judged(folder), plan.load(folder)
    records = []
    for challenge in duel.challenges(found, made.hosts, report.open_suspects(found)):
        records.append(duel.Duel(challenge, launcher(tmp_path, **hosts), lambda _: None).fight())  # type: ignore[arg-type]
        duel.keep(records[-1], folder)
    return records


def test_a_slow_host_is_confirmed_and_an_innocent_one_is_not(tmp_path: Path) -> None:
    """Both were as slow in the sweep; beside healthy hosts one of them still is."""
    odd = (MadeHost("guilty", slow={SUBJECTS[0]: 1.2}), MadeHost("innocent", slow={SUBJECTS[0]: 1.2}))
    folder = fleet(tmp_path / "s", 8, *odd)
    fought(folder, tmp_path, slow={"guilty": 1.2})
    by_name = {one.host: one for one in sweep.judged(folder).hosts}
    assert by_name["guilty"].confirmed and "+20" in by_name["guilty"].reason
    assert by_name["innocent"].standing.value == "proved"


def test_a_few_per_cent_take_every_partner(tmp_path: Path) -> None:
    """What the first partner leaves open the fourth decides; four different ones, the nearest to the middle first."""
    folder = fleet(tmp_path / "s", 8, MadeHost("guilty", slow={SUBJECTS[0]: 1.05}))
    (challenge,) = duel.challenges(
        sweep.judged(folder), plan.load(folder).hosts, report.open_suspects(sweep.judged(folder))
    )
    assert len(set(challenge.partners)) == 4 and "guilty" not in challenge.partners
    (record,) = fought(folder, tmp_path, slow={"guilty": 1.04})
    assert record.verdict is Verdict.FAILED and "in 48 turns" in record.checks[0].reason


@pytest.mark.parametrize(
    ("odd", "verdict", "said"),
    [
        ({"ill": 2}, Verdict.FAILED, "transient: 2 of 9"),
        ({"ill": "other"}, Verdict.FAILED, "persistent"),
        ({}, Verdict.INCONCLUSIVE, "not again in 9 products"),
    ],
)
def test_what_computes_wrong_replays_beside_a_healthy_one(
    tmp_path: Path, odd: dict[str, object], verdict: Verdict, said: str
) -> None:
    """Again wrong, now and then or always: confirmed. Right this time: not confirmed, and not green either."""
    folder = fleet(tmp_path / "s", 6, MadeHost("ill", digests={KERNELS[0]: "0000000000000003"}))
    (record,) = fought(folder, tmp_path, odd=odd)
    assert record.verdict is verdict and said in record.checks[0].reason
    assert next(one for one in sweep.judged(folder).hosts if one.host == "ill").standing.value == "wrong"


def test_a_suspect_that_dies_in_its_duel_is_confirmed(tmp_path: Path) -> None:
    """With what it said last; a healthy partner is not blamed."""
    folder = fleet(tmp_path / "s", 6, MadeHost("dying", slow={SUBJECTS[0]: 1.2}))
    (record,) = fought(folder, tmp_path)
    assert record.verdict is Verdict.FAILED and "out of memory" in record.checks[0].reason


@pytest.mark.parametrize("words", ["false {host}", "true {host}", "echo {host}"])
def test_a_launcher_that_starts_nothing_confirms_nobody(tmp_path: Path, words: str) -> None:
    """What starts the sides may be what fails: nothing is known of the host, and nobody is drained."""
    folder = fleet(tmp_path / "s", 6, MadeHost("slow", slow={SUBJECTS[0]: 1.2}))
    found, made = sweep.judged(folder), plan.load(folder)
    (challenge,) = duel.challenges(found, made.hosts, report.open_suspects(found))
    record = duel.Duel(challenge, Launcher.of(words, "python", "cpu", "tiny", 1.0, 5.0), lambda _: None).fight()
    duel.keep(record, folder)
    assert record.verdict is Verdict.INCONCLUSIVE
    assert not any(one.confirmed for one in sweep.judged(folder).hosts)


def test_nobody_healthy_is_nobody_to_stand_beside(tmp_path: Path) -> None:
    """The sentence names the suspect."""
    hosts = [MadeHost(f"w{number}", odd=1) for number in range(5)]
    folder = fleet(tmp_path / "s", 0, *hosts)
    with pytest.raises(Refusal, match="nobody healthy"):
        fought(folder, tmp_path)


def test_a_host_that_is_not_in_the_plan_is_not_called(tmp_path: Path) -> None:
    """Records may say what they like: commands are made for hosts of the plan only."""
    folder = fleet(tmp_path / "s", 6, MadeHost("stranger", slow={SUBJECTS[0]: 1.5}))
    made = plan.load(folder)
    (folder / "plan.json").unlink()
    plan.make("s", "cpu", "tiny", [host for host in made.hosts if host != "stranger"]).keep(folder)
    assert fought(folder, tmp_path) == []


@pytest.mark.parametrize("text", ["", "ssh host", "ssh 'x {host}", "srun {Host}"])
def test_a_launcher_must_say_where(text: str) -> None:
    """Words in which no host stands would run everything here."""
    with pytest.raises(Refusal, match="--launch"):
        Launcher.of(text, "python", "cpu", "tiny", 1.0, 5.0)


@pytest.mark.parametrize(
    ("host", "card"), [("-oProxyCommand=x", "0"), ("a b", "0"), ("n1", "0; id"), ("n1", "-1"), ("n1", "")]
)
def test_no_command_is_made_of_what_is_no_host_and_no_card(host: str, card: str) -> None:
    """Both come near records; neither can be an option or a command."""
    with pytest.raises(Refusal):
        Launcher.of("ssh {host}", "python", "cpu", "tiny", 1.0, 5.0).command(host, card)


def test_a_launcher_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    """Not a traceback."""
    made = Launcher.of("/nope/ssh {host}", "python", "cpu", "tiny", 1.0, 5.0)
    with pytest.raises(Refusal, match="cannot be started"):
        FarSide(made, "n1", "0", tmp_path / "log")

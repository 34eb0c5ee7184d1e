"""The steps `fleet plan` and `fleet judge`: what they print and write, and how they end."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.extras.fleet import judgement, plan
from stackproof.record.records import Verdict

from .making import KERNELS, SUBJECTS, MadeHost, fleet


def test_a_sound_fleet_ends_with_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fleet", "judge", str(fleet(tmp_path / "monday", 8))]) == 0
    assert capsys.readouterr().out.startswith("monday: 8 hosts: 8 proved\n")


def test_every_form_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fleet(tmp_path / "monday", 8, MadeHost("slow1", slow={SUBJECTS[0]: 1.5}), silent=("dead1",))
    forms = {"json": "a.json", "markdown": "a.md", "prometheus": "a.prom", "picture": "a.svg"}
    words = [word for form, name in forms.items() for word in (f"--{form}", str(tmp_path / name))]
    assert cli.main(["fleet", "judge", str(folder), *words]) == 1
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads((folder / "judgement.fleet.json").read_text())
    assert all("slow1" in (tmp_path / name).read_text() for name in forms.values())
    assert "not reached\n  dead1: left nothing" in capsys.readouterr().out


def test_redacted_names_nobody_in_anything_that_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = ("ill1", "Rack7-GPU03", "gpu9.lab.example.org", "gone42", "hurt5", "stranger8")
    hosts = (
        MadeHost("ill1", verdict=Verdict.FAILED),
        MadeHost("Rack7-GPU03", digests={KERNELS[0]: "0" * 16}),
        MadeHost("gpu9.lab.example.org"),
    )
    folder = fleet(tmp_path / "acme-secret", 8, *hosts, silent=("gone42", "hurt5"))
    records = folder / "records"
    (records / "hurt5.json").write_text("{", encoding="utf-8")
    (records / "my stranger8 (copy).json").write_text("{", encoding="utf-8")
    ill = records / "ill1.json"
    told = "node ILL1 / rack7-gpu03.acme.lan saw GPU9 and gone42 in /shared/acme-secret/records"
    ill.write_text(ill.read_text().replace('"a reason"', json.dumps(told)), encoding="utf-8")
    forms = {"json": "a.json", "markdown": "a.md", "prometheus": "a.prom", "picture": "a.svg"}
    words = [word for form, name in forms.items() for word in (f"--{form}", str(tmp_path / name))]
    assert cli.main(["fleet", "judge", str(folder), "--redact", "--key", str(tmp_path / "key"), *words]) == 1
    outputs = [capsys.readouterr().out, (folder / "judgement.fleet.json").read_text()]
    outputs += [(tmp_path / name).read_text() for name in forms.values()]
    hidden = [*real, "gpu9", "lab.example.org", "acme.lan", "acme-secret", *(f"n0{number}" for number in range(1, 9))]
    leaks = [
        (name, text[max(0, at - 60) : at + 40])
        for text in outputs
        for name in hidden
        if (at := text.casefold().find(name.casefold())) >= 0
    ]
    assert not leaks, leaks
    assert all("host-" in text for text in outputs)
    assert judgement.read(folder / judgement.NAME).hosts


def test_a_folder_that_cannot_be_written_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fleet(tmp_path / "monday", 6)
    (folder / "judgement.fleet.json").mkdir()
    assert cli.main(["fleet", "judge", str(folder), "--json"]) == 0
    told = capsys.readouterr()
    assert "the judgement cannot be kept" in told.err and json.loads(told.out)


def test_a_judgement_is_not_written_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, precious = fleet(tmp_path / "monday", 6), tmp_path / "precious"
    precious.write_text("mine", encoding="utf-8")
    (folder / "judgement.fleet.json").symlink_to(precious)
    assert cli.main(["fleet", "judge", str(folder)]) == 0
    assert "it is a link" in capsys.readouterr().err and precious.read_text(encoding="utf-8") == "mine"


def test_hosts_without_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fleet(tmp_path / "monday", 6)
    (folder / "plan.json").unlink()
    assert cli.main(["fleet", "judge", str(folder)]) == 6
    assert "nothing says who was to answer" in capsys.readouterr().out
    assert cli.main(["fleet", "judge", str(folder), "--hosts", "n[01-06]"]) == 0
    assert cli.main(["fleet", "judge", str(folder), "--hosts", "n[01-07]"]) == 6
    assert "n07: left nothing" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--json", "--markdown", "--prometheus", "--picture"])
@pytest.mark.parametrize(
    "name",
    [
        "plan.json",
        "judgement.fleet.json",
        "records/n01.json",
        "records/new.json",
        "records",
        "link",
        "x/../plan.json",
    ],
)
def test_what_a_sweep_keeps_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, name: str
) -> None:
    folder = fleet(tmp_path / "monday", 6)
    (folder / "x").mkdir()
    (folder / "link").symlink_to(folder / "plan.json")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    try:
        code: object = cli.main(
            ["fleet", "judge", str(folder), "--json", str(tmp_path / "first"), flag, str(folder / name)]
        )
    except SystemExit as ended:
        code = ended.code
    assert code == 2 and ("folder" if name == "records" else "name another file") in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "first").exists()


@pytest.mark.parametrize("other", ["a", "b/../a", "link"])
def test_two_texts_want_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str) -> None:
    folder = fleet(tmp_path / "monday", 6)
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    words = ["fleet", "judge", str(folder), "--markdown", str(tmp_path / other)]
    assert cli.main([*words, "--json", str(tmp_path / "a")]) == 2
    assert "is the file of --json too" in capsys.readouterr().err
    assert cli.main([*words, "--redact", "--key", str(tmp_path / "a")]) == 2
    assert "is the file of --key too" in capsys.readouterr().err and not (tmp_path / "a").exists()


def test_plan_says_what_to_type_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "it's a folder"
    assert cli.main(["fleet", "plan", str(folder), "--stack", "cpu", "--hosts", "n[1-3]"]) == 0
    told = capsys.readouterr().out
    assert f"nox -s cpu-fleet -- run {shlex.quote(str(folder))}" in told
    card = next(line for line in told.splitlines() if "no Slurm" in line).partition(": ")[2]
    assert shlex.split(card) == ["python", "-m", "stackproof", "fleet", "card", str(folder), "--host", "HOST"]
    assert plan.load(folder).profile == "tiny"


def test_hosts_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n1 # the first\n\n# none\nn[2-3]\n", encoding="utf-8")
    words = [
        "fleet",
        "plan",
        str(tmp_path / "a"),
        "--stack",
        "cpu",
        "--hosts-file",
        str(tmp_path / "hosts"),
        "--without",
        "smoke",
    ]
    assert cli.main(words) == 0
    made = plan.load(tmp_path / "a")
    assert sorted(made.hosts) == ["n1", "n2", "n3"] and made.without == ("smoke",)

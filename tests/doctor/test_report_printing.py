"""A checkup for people, for programs and for an issue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.doctor import report
from stackproof.doctor.checkup import Checkup, examine
from stackproof.doctor.presence import Presence, Sight
from stackproof.doctor.rules import Finding
from stackproof.stack.findings import Known
from stackproof.stack.variables import Level

from .boxes import b60, h200, k100

LONG = "a sentence that goes on " * 12


def checkup(*findings: Finding) -> Checkup:
    """Return a checkup with these findings."""
    cpu = Sight("cpu", "CPU", True, python="/usr/bin/python3", lock="9 packages", environment="not built yet")
    here = Presence("Linux", "cpu", (cpu, Sight("cuda", "CUDA", hint="buy one"), Sight("bad", broken="it is bad")))
    return Checkup(here, findings, {"kernel": "6.1"}, Known(("NCCL_DEBUG",), (), ()))


WORST = checkup(
    Finding("host", Level.OK, "all is well"),
    Finding("cards", Level.PROBLEM, LONG.strip(), "sudo usermod -aG render $USER", "https://example.org/x"),
    Finding("variables", Level.NOTE, "a\x1b[31mred\nline"),
)


def test_lines_for_a_terminal() -> None:
    lines = list(report.terminal(WORST, width=80))
    assert lines[0] == "PROBLEM  1 problem, 1 note, 1 ok"
    places = [
        next(n for n, line in enumerate(lines) if line.startswith(start))
        for start in ("  problem", "  note", "as it", "  ok")
    ]
    assert places == sorted(places)
    assert lines[2].startswith("  problem  cards: a sentence")
    assert "  ok       host: all is well" in lines
    assert lines[-4:] == [
        "host: Linux",
        "stacks here: cpu; `nox -s smoke` would prove: cpu",
        "not here: cuda; `--all` says what each lacks",
        "bad: broken - it is bad",
    ]
    assert "           > sudo usermod -aG render $USER" in lines
    assert "           https://example.org/x" in lines


def test_every_stack_on_demand() -> None:
    said = list(report.terminal(WORST, every=True))
    assert "cpu: present - CPU" in said
    assert "  to get it: buy one" in said
    assert "  to get it: buy one" not in list(report.terminal(WORST))


def test_sentences_are_wrapped_and_commands_are_not() -> None:
    lines = list(
        report.terminal(checkup(Finding("host", Level.NOTE, LONG.strip(), "x" * 200, "https://" + "y" * 200)), width=60)
    )
    sentence = [line for line in lines if "sentence" in line]
    assert len(sentence) > 3
    assert all(len(line) <= 60 for line in sentence)
    assert "           > " + "x" * 200 in lines
    assert any(line.endswith("y" * 200) for line in lines)


def test_colour_is_only_added() -> None:
    plain, coloured = list(report.terminal(WORST)), "\n".join(report.terminal(WORST, colour=True))
    for code in ("32", "36", "33", "1;31"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured.replace("\x1b[0m", "") == "\n".join(plain)
    assert "\x1b" not in "\n".join(plain)


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    (line,) = [line for line in report.terminal(WORST) if "red" in line]
    assert r"\x1b[31mred line" in line
    value = "\x1b\x7f\x9b\u202e"
    said = report.as_json(checkup(Finding("variables", Level.NOTE, value)))
    assert (
        said.replace("\n", "").isprintable() and said.isascii() and json.loads(said)["findings"][0]["sentence"] == value
    )


def test_no_problem_is_said() -> None:
    warned = checkup(Finding("host", Level.WARNING, "w"), Finding("host", Level.WARNING, "v"))
    assert next(report.terminal(warned)) == "NO PROBLEM  2 warnings"


def test_json_has_everything(tmp_path: Path) -> None:
    found = examine("dcu", k100(tmp_path / "box").machine(member=False))
    whole = json.loads(report.as_json(found))
    assert (whole["schema"], whole["exit_code"], whole["present"]) == ("stackproof.doctor/2", 1, ["dcu"])
    assert len(whole["findings"]) == len(found.findings)
    assert {"area", "level", "sentence", "remedy", "link", "variables"} == set(whole["findings"][0])
    (dcu,) = whole["stacks"]
    assert (dcu["name"], dcu["present"], dcu["requirements"][0]["found"]) == ("dcu", True, True)
    assert set(whole["variables"]) == {"checked", "free", "unknown"}
    assert whole["facts"]["hygon.cards"] == "8"
    assert whole["facts"]["dtk"] == "25.04.1"


SECRETS = (
    "grace",
    "gpu07",
    "10.1.2.7",
    "cluster.example",
    "fe80::1",
    "aa:bb:cc:dd:ee:ff",
    "8932f937",
    "node12",
    "ada@",
)


@pytest.mark.parametrize("make", [b60, h200, k100])
def test_the_report_says_all_but_whose_it_is(tmp_path: Path, make: object) -> None:
    box = make(tmp_path / "grace" / "box")  # type: ignore[operator]
    box.environ |= {
        "HOSTNAME": "gpu07",
        "MASTER_ADDR": "node12.cluster.example",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_TOPO_FILE": "/home/grace/topo.xml",
        "NCCL_HOSTID": "node12",
        "NCCL_COMM_ID": "10.1.2.7:4711",
        "CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "CCL_KVS_IP_PORT": "10.1.2.7_4711",
        "FI_TCP_IFACE": "fe80::1",
        "UR_ADAPTERS_SEARCH_PATH": "/scratch/grace/lib",
        "SECRET_TOKEN": "do-not-show",
        "CCL_LOG_LEVEL": "```",
    }
    machine = box.machine(member=False)
    text = report.for_an_issue(examine(None, machine), machine)
    assert text.startswith("```text\n")
    assert text.count("```") == 2
    assert [secret for secret in (*SECRETS, "do-not-show") if secret in text] == []
    for kept in (
        "NCCL_SOCKET_IFNAME=eth0",
        "kernel 6.14.0-1006-intel",
        "glibc 2.41",
        "NCCL_TOPO_FILE=~/topo.xml",
        "https://",
    ):
        assert kept in text


def test_the_documentation_shows_what_is_printed(tmp_path: Path) -> None:
    box = b60(tmp_path / "box")
    box.environ["ZE_AFFINITY_MASK"] = "0.1"
    found = examine(None, box.machine(member=False))
    text, well, _ = "\n".join(report.terminal(found)).partition("\n\nas it should be")
    assert well
    assert text in (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")


def test_the_report_without_variables(tmp_path: Path) -> None:
    machine = b60(tmp_path / "box").machine()
    assert "\n  none is set\n" in report.for_an_issue(examine("xpu", machine), machine)

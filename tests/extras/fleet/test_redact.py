"""A judged fleet without names: fields by what they are, sentences word by word, and never a word of a closed set."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

from stackproof.extras.fleet import answers, judgement, picture, prometheus, redact, report, sweep
from stackproof.extras.fleet.judgement import FleetJudgement, Standing

from .making import MadeHost, fleet

SECRET = b"k" * 32
RACK = tuple(f"gpu-rack7-{letter}" for letter in "abcdef")
NODES = tuple(f"node{number:02}" for number in range(1, 7))


def hidden(folder: Path, hosts: Sequence[str], text: str = "") -> tuple[FleetJudgement, FleetJudgement]:
    """Judge a fleet whose first host has failed with this text; return it with and without names."""
    folder = fleet(folder / "a-sweep", 0, *map(MadeHost, hosts))
    if text:
        path = answers.record_path(folder, hosts[0])
        told = json.loads(path.read_text())
        next(row for row in told["checks"] if row["id"] == "doctor").update(verdict="failed", reason=text)
        path.write_text(json.dumps({**told, "verdict": "failed"}), encoding="utf-8")
    found = sweep.judged(folder)
    return found, redact.redacted(found, SECRET, sweep.names(folder))


def outputs(found: FleetJudgement) -> str:
    """Return all that is written of it, labels of Prometheus apart."""
    told = [
        judgement.as_json(found),
        report.markdown(found).replace("\\", ""),
        report.terminal(found),
        picture.svg(found),
    ]
    return "\n".join([*told, prometheus.text(found).replace('node="', '"')]).casefold()


def leaks(told: str, names: Sequence[str]) -> list[str]:
    """Return the names that stand in it as words."""
    return [name for name in names if re.search(rf"(?<![a-z0-9]){re.escape(name.casefold())}(?![a-z0-9])", told)]


@pytest.mark.parametrize(
    "hosts",
    [
        ("1", "2", "3", "10", "11", "12"), ("passed", "cpu", "fleet", "host", "slow", "1"), ("a", "e", "cards", "0", "float32", "x-1"),
        ("schema", "standing", "proved", "products", "hosts", "svg"),
        ("undecided", "gemm-float32", "median", "wrong", "2026", "node"),
    ],
)  # fmt: skip
def test_a_host_may_be_called_by_any_word(tmp_path: Path, hosts: Sequence[str]) -> None:
    found, other = hidden(tmp_path, hosts, f"host {hosts[0]} is bad, and '{hosts[1]}' too, see /shared/{hosts[2]}/x")
    assert other.counts == found.counts and len({one.host for one in other.hosts}) == len(hosts)
    assert all(re.fullmatch(r"host-[0-9a-f]{10}", one.host) for one in other.hosts)
    assert [(strip.subject, strip.unit) for strip in other.groups[0].strips] == [
        (strip.subject, strip.unit) for strip in found.groups[0].strips
    ]
    assert set(json.loads(judgement.as_json(other))) == set(json.loads(judgement.as_json(found)))
    ET.fromstring(picture.svg(other))
    (reason,) = (one.reason for one in other.hosts if one.standing is Standing.WRONG)
    assert re.fullmatch(r"doctor: host host-\w+ is bad, and 'host-\w+' too, see /shared/host-\w+/x", reason), reason
    path = tmp_path / "kept.json"
    path.write_text(judgement.as_json(other), encoding="utf-8")
    assert judgement.read(path) == other


@pytest.mark.parametrize(
    ("hosts", "text", "also"),
    [
        (NODES, "srun: error: node[01-03,05] down", ["node[01-03,05]", "node[01"]),
        (NODES, "-w node01,node02 NODE[01-03]", ["node[01-03]"]),
        (NODES, "node0[1-3] node{01..03} --nodelist=node[01-03].hpc.lan", ["node0", "hpc.lan"]),
        (NODES, "node99 and node01-03", ["node99"]),
        (NODES, "rack1node[01-2] down", ["rack1node[01-2]"]), (NODES, "ssh root@node05:/nfs/node01_node02 (node03) xnode04x", []),
        (NODES, "http://node01:80/node02 NODE03.CLUSTER.LOCAL", ["cluster.local"]),
        (RACK, "nodes gpu-rack7-[a-c] down; gpu-rack7-zz", ["gpu-rack7"]),
        (RACK, "iface=ibgpu-rack7-c0 gpu-rack7-e1 x_GPU-RACK7-D.log", ["gpu-rack7"]),
        (RACK, "http://h/x%2Fgpu-rack7-d gpu%2Drack7%2De", ["rack7"]), (RACK, "gpu-rack7\x1b[0m-c", ["gpu-rack7"]),
        (RACK, "gpu\u2010rack7\u2010c GPU-RACK7-C\u0130 \uff47pu-rack7-d", ["gpu-rack7"]),
        (tuple(f"{name}.hpc.edu" for name in RACK), "GPU-RACK7-A saw gpu-rack7-b.other.net", [*RACK, "hpc.edu", "other.net"]),
        (("10-0-0-1", "10-0-0-2", "10-0-0-3"), "10.0.0.1 10-0-0-2", ["10.0.0.1"]),
        (("n1", "n2", "n3", "n10"), "n1 n10 n[1-3] n77", ["n77", "n[1-3]"]),
    ],
)  # fmt: skip
def test_hosts_go_however_they_are_written(tmp_path: Path, hosts: Sequence[str], text: str, also: list[str]) -> None:
    told = outputs(hidden(tmp_path, hosts, text)[1])
    assert not leaks(told, [*hosts, *also]), leaks(told, [*hosts, *also])


@pytest.mark.parametrize("before", range(272, 298))
def test_a_name_that_was_cut_is_one(tmp_path: Path, before: int) -> None:
    told = outputs(hidden(tmp_path, RACK, f"{'x' * (before - 9)} gpu-rack7-c {'z' * 99}")[1])
    assert not leaks(told, ["gpu-rack7", "gpu-rack7-", "gpu-rack", "gpu-rac", "gpu-rack7-c"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("/home/alice9/.ssh, alice9 ran it", ["alice9"]), ("/lustre/home/alice9/x", ["alice9"]), ("/scratch/alice9", ["alice9"]),
        ("~alice9/x", ["alice9"]), ("user=alice9", ["alice9"]), ("for user alice9 at", ["alice9"]), ("uid=1000(alice9)", ["alice9"]),
        ("UserId=alice9(2001)", ["alice9"]),
        ("Accepted publickey for alice9 from", ["alice9"]), ("4c4c4544004d3510804ab3c04f4e3232", ["4c4c4544004d3510"]),
        ("alice9@login1", ["alice9"]), ("LOGNAME: alice9", ["alice9"]), ("http://10.1.2.3:80/home/alice9", ["alice9", "10.1.2.3"]),
        ("10.1.2.3-10.1.2.9", ["10.1.2.3", "10.1.2.9"]), ("fe80::1ff:fe23:4567:890a", ["fe80::1ff:fe23:4567:890a"]),
        ("2001:db8::8a2e:370:7334", ["2001:db8::8a2e:370:7334"]), ("AA-BB-CC-DD-EE-FF", ["aa-bb-cc-dd-ee-ff"]),
        ("aabb.ccdd.eeff", ["aabb.ccdd.eeff"]), ("0002:c903:000a:1b2c 0x0002c903000a1b2c", ["0002:c903:000a:1b2c", "0x0002c903000a1b2c"]),
        ("GPU-8d9b2c11-aaaa-bbbb-cccc-1234567890ab", ["8d9b2c11"]),
        ("serial: 1652922001234, S/N AB12-3456789", ["1652922001234", "AB12-3456789"]),
    ],
)  # fmt: skip
def test_people_addresses_and_serials_go(tmp_path: Path, text: str, names: list[str]) -> None:
    told = outputs(hidden(tmp_path, NODES, text)[1])
    assert not leaks(told, names), leaks(told, names)


def test_what_names_nobody_stays(tmp_path: Path) -> None:
    text = "torch: 2.15.0 -> 2.14.0 at 12:30:45 in replay/0::product-float32[normal], 3.5 % of 28a7011291b7"
    (reason,) = (one.reason for one in hidden(tmp_path, NODES, text)[1].hosts if one.standing is Standing.WRONG)
    assert reason == f"doctor: {text}"


def test_a_host_that_a_record_names_falsely_goes_too(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "a-sweep", 0, *map(MadeHost, NODES))
    path = answers.record_path(folder, NODES[0])
    path.write_text(path.read_text().replace('"host": "node01"', '"host": "loginmars"'), encoding="utf-8")
    told = outputs(redact.redacted(sweep.judged(folder), SECRET, sweep.names(folder)))
    assert "says that it is of 'host-" in told and not leaks(told, ["loginmars", *NODES])

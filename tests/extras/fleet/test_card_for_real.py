"""Real replays and cards: one wrong product in ten thousand on a simulated card is found in one run, and nothing on the others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.base.places import ROOT
from stackproof.extras.fleet import answers, judge, plan
from stackproof.extras.fleet.judgement import HostVerdict
from stackproof.record import reading

from ...simulated.double import require_compiler

pytestmark = pytest.mark.slow

# What one card of a host does but its subjects, which other tests measure; its record is that of a host.
_REPLAYS = """
import sys
import tempfile
from pathlib import Path
from stackproof.extras.fleet import plan, work
from stackproof.record import records, writer
from stackproof.record.records import Check, Verdict
from stackproof.stack import provenance, stacks
stack, name, out = stacks.load("sim"), sys.argv[1], Path(sys.argv[2])
profile = plan.profile("tiny")
work.kinds = lambda *given, all=work.kinds: [one for one in all(*given) if one.kernel == "product"]
record = writer.begin(plan.VERB, "sim", {**provenance.host_facts(stack), "host": name})
record.provenance["plan"], record.provenance["profile"] = sys.argv[3], "tiny"
record.provenance |= {"pinned": False, "lock": "unpinned"}
record.seconds = 3600.0
record.checks.append(Check("environment", Verdict.PASSED, "as it is", 0.1))
record.checks += [Check(name, Verdict.SKIPPED, "left out by the plan", 0.0) for name in ("doctor", "smoke")]
nothing = {"subjects": (), "turns": (), "together": ()}
with tempfile.TemporaryDirectory() as folder:
    work.CardWork(stack, 0, type(profile)(**{**vars(profile), **nothing}), record).take(Path(folder))
record.checks.append(Check("card/0", record.checks[-1].verdict, record.checks[-1].reason, 1.0, {"card": "0"}))
record.verdict = record.overall
records.write(record, out)
"""
_HOSTS = {
    "h1": "", "h2": "", "h3": "",
    "flips": "flip:op=bmm,every=156",  # of 64 products each: one in 9,984
    "skewed": "scale:op=bmm,factor=1.0001,dtype=float32",
}  # fmt: skip


def test_one_wrong_product_in_ten_thousand_is_found_and_the_right_card_named(tmp_path: Path) -> None:
    require_compiler()
    without = [part for part in plan.parts() if part != "product"]
    made = plan.make("sim", "tiny", _HOSTS, without=without)
    made.keep(tmp_path)
    for host, faults in _HOSTS.items():
        environment = {
            "SIM_FAULTS": faults, "SIM_CARDS": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'fixtures' / 'simulated'}",
        }  # fmt: skip
        command = [sys.executable, "-c", _REPLAYS, host, str(answers.record_path(tmp_path, host)), made.id]
        subprocess.run(command, check=True, env=environment)
    found = judge.judge(tmp_path)
    by_name = {one.host: one for one in found.hosts}
    assert {name: one.standing for name, one in by_name.items()} == {
        "h1": HostVerdict.PROVED, "h2": HostVerdict.PROVED, "h3": HostVerdict.PROVED, "flips": HostVerdict.WRONG,
        "skewed": HostVerdict.WRONG,
    }  # fmt: skip
    assert "transient" in by_name["flips"].reason and {
        one.subject.split("-")[0] for one in by_name["flips"].findings
    } == {"product"}
    assert by_name["skewed"].reason.startswith("product-float32") and "persistent" in by_name["skewed"].reason
    assert found.groups[0].products > 10**5


def test_a_host_measures_what_the_plan_says(tmp_path: Path) -> None:
    plan.make("cpu", "tiny", ["n1"], without=["doctor", "smoke"]).keep(tmp_path)
    command = [sys.executable, "-m", "stackproof", "fleet", "card", str(tmp_path), "--host", "n1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    record = reading.read(answers.record_path(tmp_path, "n1"))
    assert {
        "gemm-float32",
        "attention-forward-float32",
        "copy-within",
        "training-yolov8n",
        "all-reduce-4-mib-2-ranks",
    } == {row.workload for row in record.measurements}
    answer = answers.gather(tmp_path, plan.load(tmp_path))[0]["n1"]
    (card,) = answer.cards
    assert len(card.replayed) == 36 and sum(one.products for one in card.replayed.values()) > 10**5
    assert not [lack for lack in answer.lacks if not lack.endswith(answers.UNSETTLED)]  # what a busy host may lack
    skipped = {
        check.subject: check.reason for check in record.checks if check.verdict.value == "skipped" and check.subject
    }
    assert json.dumps(sorted(skipped)) == '["copy-to-device-pinned"]'

"""The table of the doctor: strict, each row sound, each kind of condition able to hold and to fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stackproof.base import toml
from stackproof.base.errors import Refusal
from stackproof.doctor import rules
from stackproof.stack import stacks

TABLE = rules.load()

FACTS = {
    "container",
    "cpu_quota",
    "cpufreq_driver",
    "cpus",
    "disk_free_mib",
    "dtk",
    "glibc",
    "governor",
    "kernel",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "memlock_kib",
    "memory_free_mib",
    "nofile",
    "numa_balancing",
    "ptrace_scope",
    "python",
    "rdma",
    "shm_mib",
    "nproc",
    "pids_max",
    "huge_pages_percent",
    "tmp_noexec",
    "nvidia.models",
}


def test_every_rule_names_facts_that_are_gathered() -> None:
    drivers = {f"{maker.key}.driver" for maker in TABLE.makers}
    toolkits = {f"torch.{name}" for name in stacks.TOOLKITS}
    facts = {row.fact for row in TABLE.paths}
    for rule in TABLE.rows:
        for name in (*rule.when, *rule.unless, *rule.absent, *rule.below):
            derived = name.startswith(("env.", "folder.")) or name in facts
            package = derived or (rule.area == "environment" and re.fullmatch(r"[a-z0-9-]+", name))
            assert name in FACTS | drivers | toolkits or package, (rule.sentence, name)


@pytest.mark.parametrize("rule", TABLE.rows, ids=lambda rule: re.sub(r"\W+", "-", rule.sentence)[:50])
def test_a_rule_can_speak(rule: rules.Rule) -> None:
    assert rule.when or rule.below
    assert rule.remedy
    bounds = re.findall(r"\{([\w.+-]+)\}", " ".join(rule.below.values()))
    asked = {*rule.when, *rule.below, *bounds, "cpus", "torch", "python", "dtk", "LD_LIBRARY_PATH"}
    assert {name for name in re.findall(r"\{([\w.+-]+)\}", rule.sentence) if not name.startswith("env.")} <= asked
    assert rule.link == "" or rule.link.startswith("https://")


def test_every_toolkit_of_the_stacks_has_a_maker() -> None:
    wanted = {name for stack in stacks.load_all() for name, state in stack.flavour.toolkits.items() if state == "set"}
    assert wanted <= {maker.toolkit for maker in TABLE.makers}
    assert len({maker.key for maker in TABLE.makers}) == len(TABLE.makers)


def rule(**changes: object) -> rules.Rule:
    """Return a rule with these conditions."""
    given = {"when": {}, "unless": {}, "absent": (), "below": {}} | changes
    return rules.Rule(area="host", level=rules.Level.NOTE, sentence="a is {a}, b is {b}", remedy="", link="", **given)  # type: ignore[arg-type]


A = re.compile("1.*")


@pytest.mark.parametrize(
    ("row", "facts", "holds"),
    [
        (rule(when={"a": A}), {"a": "12"}, True),
        (rule(when={"a": A}), {"a": "21"}, False),
        (rule(when={"a": A}), {}, False),
        (rule(when={"a": A}, unless={"b": A}), {"a": "1", "b": "1"}, False),
        (rule(when={"a": A}, unless={"b": A}), {"a": "1", "b": "2"}, True),
        (rule(when={"a": A}, absent=("b",)), {"a": "1"}, True),
        (rule(when={"a": A}, absent=("b",)), {"a": "1", "b": "x"}, False),
        (rule(below={"a": "2.28"}), {"a": "2.17"}, True),
        (rule(below={"a": "2.28"}), {"a": "2.28"}, False),
        (rule(below={"a": "5.6"}), {"a": "5.15.0-91-generic"}, False),
        (rule(below={"a": "580"}), {"a": "535.129.03"}, True),
        (rule(below={"a": "580"}), {"a": "580.65.06"}, False),
        (rule(below={"a": "9"}), {"a": "unlimited"}, False),
        (rule(below={"a": "9"}), {}, False),
    ],
)
def test_conditions(row: rules.Rule, facts: dict[str, str], holds: bool) -> None:
    assert bool(list(row.judge(facts))) is holds


def test_sentences_are_filled() -> None:
    (finding,) = rule(when={"a": A}).judge({"a": "1{b}"})
    assert finding.sentence == "a is 1{b}, b is unknown"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[rule]]\narea = "hots"\nlevel = "note"\nsentence = "s"\nremedy = "r"\n', "'rule[0].area' is 'hots'"),
        (
            '[[rule]]\narea = "host"\nwhen = { a = "(" }\nlevel = "note"\nsentence = "s"\nremedy = "r"\n',
            "'rule[0].when.a' is '('",
        ),
        (
            '[[rule]]\narea = "host"\nwhem = { a = "1" }\nlevel = "note"\nsentence = "s"\nremedy = "r"\n',
            "'rule[0].whem'",
        ),
        ('[[maker]]\nname = "X"\n', "'maker[0].key' is missing"),
        ("[[rules]]\n", "'rules' is not a known key (did you mean 'rule'?)"),
    ],
)
def test_a_broken_table_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "doctor.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refusal) as refusal:
        toml.kept(path, rules.Rules)()
    assert said in str(refusal.value)

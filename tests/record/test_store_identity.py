"""Identity: what separates series, what is a state, and what says nothing."""

from __future__ import annotations

import pytest

from stackproof.device.devices import torch_facts
from stackproof.record import store
from stackproof.record.store import changes, place, state
from stackproof.stack import provenance, stacks
from stackproof.stack.environment_proof import Proof

from ..history import making

FACTS = making.FACTS


@pytest.mark.parametrize(
    "fact",
    [
        {"host": "other"},
        {"stack": "xpu"},
        {"rehearsed": True},
        {"verified on": "cpu"},
        {"machine": "aarch64"},
        {"cpus": 8},
        {"devices": 1},
        {"cuda:1.name": "NVIDIA H200"},
    ],
)
def test_another_place_is_another_series(fact: dict[str, str]) -> None:
    assert place({**FACTS, **fact}) != place(FACTS)
    assert place({**FACTS, **fact}).slug != place(FACTS).slug


@pytest.mark.parametrize(
    ("fact", "group"),
    [
        ({"driver.nvidia-smi": "590.10.01"}, "driver"),
        ({"cuda:1.driver api": "13010"}, "driver"),
        ({"torch.version.cuda": "13.3"}, "toolkit"),
        ({"cuda:0.cudnn": "91000"}, "toolkit"),
        ({"torch": "2.16.0"}, "wheels"),
        ({"lock": "e" * 64}, "wheels"),
        ({"package.triton": "3.7"}, "wheels"),
        ({"env.NCCL_PROTO": "simple"}, "settings"),
        ({"torch.threads": 1}, "settings"),
        ({"device": "cuda:1"}, "settings"),
        ({"kernel": "6.9.0"}, "host"),
        ({"commit": "b" * 40}, "code"),
    ],
)
def test_a_change_of_state_names_who_to_ask(fact: dict[str, str], group: str) -> None:
    before, after = state(FACTS), state({**FACTS, **fact})
    found = changes(before, after)
    assert list(found) == [group]
    assert place({**FACTS, **fact}) == place(FACTS)


def test_the_digest_of_a_state_leaves_the_commit_out() -> None:
    assert state(FACTS).digest == state({**FACTS, "commit": "b" * 40}).digest
    assert state(FACTS).digest != state({**FACTS, **making.NEW_DRIVER}).digest


@pytest.mark.parametrize(
    "fact", [{"cuda:0.properties.uuid": "b-2"}, {"env.CUDA_VISIBLE_DEVICES": "3,4"}, {"stackproof": "9"}, {"verb": "x"}]
)
def test_what_says_nothing_of_speed_is_no_state(fact: dict[str, str]) -> None:
    assert state({**FACTS, **fact}) == state(FACTS)
    assert place({**FACTS, **fact}) == place(FACTS)


def test_facts_of_several_cards_are_one() -> None:
    assert state(FACTS).groups["driver"]["cuda.driver api"] == "13000"
    mixed = state({**FACTS, "cuda:1.driver api": "13010"})
    assert mixed.groups["driver"]["cuda.driver api"] == "13000 | 13010"


def test_every_fact_of_a_real_record_is_classified() -> None:
    stack = stacks.load("cpu")
    proved = Proof(True, "f" * 64, (), 100, "2.15.0", {"cuda": "13.2"})
    facts = provenance.host_facts(stack) | provenance.proof_facts(proved) | torch_facts(stack)
    facts |= {f"cuda:0.{name}": "1" for name in ("name", "memory_bytes", "driver api", "nccl", "cudnn")}
    facts |= {f"xpu:0.{name}": "1" for name in ("level zero", "properties.driver_version", "torch.version.xpu")}
    assert [name for name in facts if store.group_of(name) is None] == []


def test_a_label_tells_a_rehearsal() -> None:
    rehearsed = place({**FACTS, "rehearsed": True, "verified on": "cpu"})
    assert "cuda (rehearsed) on" in rehearsed.label
    assert rehearsed.slug.startswith("cuda-rehearsed-box-")


def test_names_are_safe() -> None:
    found = place({**FACTS, "host": "../../etc: <b>\u4e2d\u6587", "cuda:0.name": "a/b"})
    assert set(found.slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_versions_are_found_in_what_drivers_say() -> None:
    assert state(FACTS).version("driver") == "580.65.06"
    assert state({"commit": "a"}).version("driver") == "none"


def test_long_digests_are_cut_in_sentences() -> None:
    found = changes(state(FACTS), state({**FACTS, "commit": "b" * 40, **making.NEW_DRIVER}))
    assert found["code"] == ("commit: aaaaaaaaaaaa -> bbbbbbbbbbbb",)
    assert found["driver"] == ("nvidia-smi: 580.65.06, NVIDIA L40S -> 590.10.01, NVIDIA L40S",)

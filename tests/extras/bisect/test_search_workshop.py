"""Where candidates are built: the lock of a mixture, empty caches, what cannot be built, a full disk, and room."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.bisect import search as workshop_module
from stackproof.extras.bisect.endpoints import Endpoint, differences, repository
from stackproof.extras.bisect.evidence import NoAnswer
from stackproof.extras.bisect.search import Workshop, make_room
from stackproof.gate import variants
from stackproof.gate.interleave import SideSpec
from stackproof.gate.variants import CompareRequest, Variant
from stackproof.stack import lockfile, stacks
from tests.extras.bisect.locks import lock, pin

Make = Callable[..., Workshop]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Variant]:
    """Stand in for the building of variants, and keep what was asked for."""
    asked: list[Variant] = []

    def prepared(variant: Variant, *_: object) -> SideSpec:
        asked.append(variant)
        return SideSpec(variant.name, Path(), tmp_path, {"FROM": "stack"}, "cpu", False, "fast", "")

    monkeypatch.setattr(variants, "prepared", prepared)
    monkeypatch.setattr(workshop_module, "LOCKS", tmp_path / "locks")
    monkeypatch.setattr(workshop_module, "make_room", lambda *_: None)
    return asked


def workshop(tmp_path: Path) -> Workshop:
    """Return a workshop between two ends that differ in a package and a variable."""
    good = Endpoint("", lock(tmp_path / "good.lock", pin("alpha", "1"), pin("beta", "1")), {"V": "0"})
    bad = Endpoint("", lock(tmp_path / "bad.lock", pin("alpha", "2"), pin("beta", "2")), {"V": "1"})
    ours = repository(own_command=False)
    request = CompareRequest(profile="fast")
    return Workshop(stacks.load("cpu"), good, bad, request, tmp_path / "caches", lambda _: None, ours)


def test_a_candidate_has_the_lock_and_the_variables_of_its_mixture(tmp_path: Path, made: list[Variant]) -> None:
    found = workshop(tmp_path)
    alpha, _, variable = differences(found.good, found.bad)
    side = found.candidate("head", [alpha])
    assert isinstance(side, SideSpec) and side.name == "head" and side.environment == {"FROM": "stack", "V": "0"}
    assert made[0].lock is not None
    assert [one.requirement for one in lockfile.read(made[0].lock).pins] == ["alpha==2", "beta==1"]
    again = found.candidate("head", [alpha, variable])
    assert isinstance(again, SideSpec) and again.environment["V"] == "1"
    assert len(made) == 1  # a variable costs nothing


def test_the_checkouts_own_lock_needs_no_tree(tmp_path: Path, made: list[Variant]) -> None:
    own = lockfile.read(stacks.load("cpu").lock)
    found = workshop(tmp_path)
    found.good = replace(found.good, lock=own)
    found.end("base", [])
    found.candidate("head", [], "c" * 40)
    assert [one.lock for one in made] == [None, stacks.load("cpu").lock] and made[1].commit == "c" * 40


def test_what_cannot_be_built_is_no_answer_and_a_full_disk_is_the_end(
    tmp_path: Path, made: list[Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = workshop(tmp_path)
    alpha = differences(found.good, found.bad)[0]

    def refuse(sentence: str) -> Callable[..., SideSpec]:
        def prepared(*_: object) -> SideSpec:
            raise Refusal(sentence)

        return prepared

    monkeypatch.setattr(variants, "prepared", refuse("alpha 2 is gone"))
    assert found.candidate("head", [alpha]) == NoAnswer("cannot be built: alpha 2 is gone")
    with pytest.raises(Refusal, match="is gone"):
        found.end("head", [alpha])
    monkeypatch.setattr(variants, "prepared", refuse("x: cannot be built (No space left on device); free space"))
    with pytest.raises(Refusal, match="No space left"):
        found.candidate("head", [alpha])


@pytest.mark.parametrize(
    ("said", "stops"),
    [
        ("Failed to fetch: https://x/alpha.whl / Caused by: error sending request / dns error", True),
        ("Failed to fetch: https://x/alpha.whl / HTTP status server error (503 Service Unavailable)", True),
        ("Network connectivity is disabled, but the requested data wasn't found in the cache", True),
        ("Failed to fetch: https://x/alpha.whl / HTTP status client error (404 Not Found)", False),
        ("No solution found: there is no version of alpha==2", False),
    ],
)
def test_an_index_that_cannot_be_reached_is_the_end_and_a_wheel_that_is_gone_no_answer(
    tmp_path: Path, made: list[Variant], monkeypatch: pytest.MonkeyPatch, said: str, stops: bool
) -> None:
    found = workshop(tmp_path)

    def prepared(*_: object) -> SideSpec:
        raise Refusal(said)

    monkeypatch.setattr(variants, "prepared", prepared)
    if stops:
        with pytest.raises(Refusal, match="the index cannot be reached, which says nothing of a change"):
            found.candidate("head", [differences(found.good, found.bad)[0]])
    else:
        assert isinstance(found.candidate("head", [differences(found.good, found.bad)[0]]), NoAnswer)


def test_each_side_has_the_variables_that_it_states_and_no_other(tmp_path: Path, made: list[Variant]) -> None:
    found = workshop(tmp_path)
    found.good = replace(found.good, environment={"ONLY_GOOD": "1"})
    assert (found.end("base", []).unset, found.end("head", differences(found.good, found.bad)).unset) == (
        ("V",),
        ("ONLY_GOOD",),
    )


def test_an_environment_that_is_not_ours_has_commits_and_no_locks(
    tmp_path: Path, made: list[Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, asked = workshop(tmp_path), list[Variant]()

    def unpinned(variant: Variant, *_: object) -> SideSpec:
        asked.append(variant)
        return SideSpec(variant.name, Path(), tmp_path, {}, "cpu", False, "fast", "")

    monkeypatch.setattr(variants, "unpinned", unpinned)
    found.request = CompareRequest(profile="fast", unpinned=Path("python"))
    assert isinstance(found.candidate("head", [], "c" * 40), SideSpec)
    assert (asked[0].commit, asked[0].lock) == ("c" * 40, None)


def test_every_side_begins_with_empty_caches(tmp_path: Path, made: list[Variant]) -> None:
    found = workshop(tmp_path)
    side = SideSpec("head", Path(), Path(), {"TRITON_CACHE_DIR": "/mine"}, "cpu", False, "fast", "")
    one, other = found.with_caches(side), found.with_caches(side)
    name = "TORCHINDUCTOR_CACHE_DIR"
    assert one.environment["TRITON_CACHE_DIR"] == "/mine" and one.environment[name] != other.environment[name]
    assert list(Path(one.environment[name]).iterdir()) == []
    found.sweep_caches()
    assert list((tmp_path / "caches").iterdir()) == []


def test_room_is_made_by_what_was_used_longest_ago(tmp_path: Path) -> None:
    said: list[str] = []
    for age, name in enumerate(("bisect-new", "bisect-held", "bisect-old", "base-other")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    make_room(1, {tmp_path / "bisect-held" / "src"}, said.append, tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["base-other", "bisect-held", "bisect-new"]
    assert said == ["more than 1 trees are kept: bisect-old is taken away"]

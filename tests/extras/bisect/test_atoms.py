"""The difference of two sides as a list, and any mixture of it as a lock that can be read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.extras.bisect.atoms import AtomKind, End, differences, lock_text, mixed
from stackproof.stack import lockfile
from tests.extras.bisect.locks import lock, pin


@pytest.fixture
def ends(tmp_path: Path) -> tuple[End, End]:
    """Return two ends that differ in everything that an end has."""
    good = lock(tmp_path / "good.lock", pin("alpha", "1.0"), pin("beta", "2.0"), pin("gamma", "3.0"), pin("same", "1"))
    bad = lock(
        tmp_path / "bad.lock", pin("alpha", "1.1"), pin("beta", "2.0", "built anew"), pin("same", "1"), pin("zeta", "9")
    )
    before = End("a" * 40, good, {"KEPT": "1", "MOVED": "old", "GONE": "x"}, {"pkg": Path("/src/one")})
    after = End("b" * 40, bad, {"KEPT": "1", "MOVED": "new"}, {"pkg": Path("/src/two")})
    return before, after


def test_every_difference_is_an_atom(ends: tuple[End, End]) -> None:
    labels = [atom.label for atom in differences(*ends)]
    assert labels[0] == "alpha 1.0 -> 1.1" and labels[1].startswith("beta 2.0 (")
    assert labels[2:4] == ["gamma 3.0 -> none", "zeta none -> 9"]
    assert labels[4:] == [
        "GONE=x -> none", "MOVED=old -> new", "pkg from /src/one -> /src/two", "commits aaaaaaaaaa..bbbbbbbbbb"
    ]  # fmt: skip


def test_equal_ends_have_no_atom(ends: tuple[End, End]) -> None:
    assert differences(ends[0], ends[0]) == []


def test_more_files_of_a_release_are_no_change(tmp_path: Path) -> None:
    first, second = pin("alpha", "1.0"), pin("alpha", "1.0", "more").splitlines()[1]
    good = lock(tmp_path / "good.lock", first)
    bad = lock(tmp_path / "bad.lock", first.rstrip("\n") + " \\\n" + second + "\n")
    assert differences(End("", good), End("", bad)) == []


def test_a_mixture_has_what_was_moved_and_nothing_else(ends: tuple[End, End], tmp_path: Path) -> None:
    atoms = {atom.name: atom for atom in differences(*ends)}
    some = mixed(*ends, [atoms["alpha"], atoms["gamma"], atoms["GONE"]])
    assert {one.name: one.version for one in some.pins} == {"alpha": "1.1", "beta": "2.0", "same": "1"}
    assert some.environment == {"KEPT": "1", "MOVED": "old"} and some.commit == "a" * 40
    path = tmp_path / "mixture.lock"
    path.write_text(lock_text(ends[0].lock, some.pins))
    assert [one.requirement for one in lockfile.read(path).pins] == ["alpha==1.1", "beta==2.0", "same==1"]
    whole = mixed(*ends, list(atoms.values()))
    assert sorted(one.text for one in whole.pins) == sorted(one.text for one in ends[1].lock.pins)
    assert (whole.commit, whole.environment, whole.sources) == (ends[1].commit, ends[1].environment, ends[1].sources)


def test_kinds_are_told_apart(ends: tuple[End, End]) -> None:
    kinds = [atom.kind for atom in differences(*ends)]
    assert kinds.count(AtomKind.PACKAGE) == 4 and kinds.count(AtomKind.VARIABLE) == 2


def test_a_pin_for_another_python_is_no_change(tmp_path: Path) -> None:
    both = [pin("alpha", "1.0").replace(" \\", " ; python_full_version < '3.12' \\", 1)]
    both.append(pin("alpha", "2.0").replace(" \\", " ; python_full_version >= '3.12' \\", 1))
    good, bad = End("", lock(tmp_path / "good.lock", pin("alpha", "1.0"))), End("", lock(tmp_path / "bad.lock", *both))
    assert differences(good, bad, lockfile.environment_of("3.11")) == []
    assert [one.label for one in differences(good, bad, lockfile.environment_of("3.12"))] == ["alpha 1.0 -> 2.0"]

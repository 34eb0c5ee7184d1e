"""The difference of two sides as a list, and any mixture of it as a lock that can be read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stackproof.extras.bisect.endpoints import (
    ChangeKind,
    Endpoint,
    OneChange,
    differences,
    lock_text,
    mixed,
    requirements_of,
    units,
)
from stackproof.stack import lockfile
from tests.extras.bisect.locks import lock, pin


@pytest.fixture
def ends(tmp_path: Path) -> tuple[Endpoint, Endpoint]:
    """Return two ends that differ in everything that an end has."""
    good = lock(tmp_path / "good.lock", pin("alpha", "1.0"), pin("beta", "2.0"), pin("gamma", "3.0"), pin("same", "1"))
    bad = lock(
        tmp_path / "bad.lock", pin("alpha", "1.1"), pin("beta", "2.0", "built anew"), pin("same", "1"), pin("zeta", "9")
    )
    before = Endpoint("a" * 40, good, {"KEPT": "1", "MOVED": "old", "GONE": "x"}, {"pkg": Path("/src/one")})
    after = Endpoint("b" * 40, bad, {"KEPT": "1", "MOVED": "new"}, {"pkg": Path("/src/two")})
    return before, after


def test_every_difference_is_an_atom(ends: tuple[Endpoint, Endpoint]) -> None:
    labels = [atom.label for atom in differences(*ends)]
    assert labels[0] == "alpha 1.0 -> 1.1" and labels[1].startswith("beta 2.0 (")
    assert labels[2:4] == ["gamma 3.0 -> none", "zeta none -> 9"]
    assert labels[4:] == [
        "GONE=x -> none", "MOVED=old -> new", "pkg from /src/one -> /src/two", "commits aaaaaaaaaa..bbbbbbbbbb"
    ]  # fmt: skip


def test_equal_ends_have_no_atom(ends: tuple[Endpoint, Endpoint]) -> None:
    assert differences(ends[0], ends[0]) == []


def test_more_files_of_a_release_are_no_change(tmp_path: Path) -> None:
    first, second = pin("alpha", "1.0"), pin("alpha", "1.0", "more").splitlines()[1]
    good = lock(tmp_path / "good.lock", first)
    bad = lock(tmp_path / "bad.lock", first.rstrip("\n") + " \\\n" + second + "\n")
    assert differences(Endpoint("", good), Endpoint("", bad)) == []


def test_a_mixture_has_what_was_moved_and_nothing_else(ends: tuple[Endpoint, Endpoint], tmp_path: Path) -> None:
    atoms = {atom.name: atom for atom in differences(*ends)}
    some = mixed(*ends, [atoms["alpha"], atoms["gamma"], atoms["GONE"]])
    assert {one.name: one.version for one in some.lock.pins} == {"alpha": "1.1", "beta": "2.0", "same": "1"}
    assert some.environment == {"KEPT": "1", "MOVED": "old"} and some.commit == "a" * 40
    path = tmp_path / "mixture.lock"
    path.write_text(lock_text(some.lock))
    assert [one.requirement for one in lockfile.read(path).pins] == ["alpha==1.1", "beta==2.0", "same==1"]
    whole = mixed(*ends, list(atoms.values()))
    assert sorted(one.text for one in whole.lock.pins) == sorted(one.text for one in ends[1].lock.pins)
    assert (whole.commit, whole.environment, whole.sources) == (ends[1].commit, ends[1].environment, ends[1].sources)


def test_kinds_are_told_apart(ends: tuple[Endpoint, Endpoint]) -> None:
    kinds = [atom.kind for atom in differences(*ends)]
    assert kinds.count(ChangeKind.PACKAGE) == 4 and kinds.count(ChangeKind.VARIABLE) == 2


def test_a_pin_for_another_python_is_no_change(tmp_path: Path) -> None:
    both = [pin("alpha", "1.0").replace(" \\", " ; python_full_version < '3.12' \\", 1)]
    both.append(pin("alpha", "2.0").replace(" \\", " ; python_full_version >= '3.12' \\", 1))
    good, bad = (
        Endpoint("", lock(tmp_path / "good.lock", pin("alpha", "1.0"))),
        Endpoint("", lock(tmp_path / "bad.lock", *both)),
    )
    assert differences(good, bad, lockfile.environment_of("3.11")) == []
    assert [one.label for one in differences(good, bad, lockfile.environment_of("3.12"))] == ["alpha 1.0 -> 2.0"]


def atom(name: str, before: str, after: str) -> OneChange:
    """Return a changed package."""
    return OneChange(ChangeKind.PACKAGE, name, before, after)


def asked(**rows: str) -> dict[str, list[Requirement]]:
    """Return what packages ask for, by name."""
    return {name: [Requirement(line) for line in lines.split("; ")] for name, lines in rows.items()}


ATOMS = [
    atom("numpy", "2.1", "2.2"), atom("tokenizers", "0.22", "0.23"), atom("torch", "2.14", "2.15"),
    atom("transformers", "5.20", "5.23"), atom("triton", "3.6", "3.7")
]  # fmt: skip
GOOD = asked(torch="triton==3.6; numpy", transformers="tokenizers<0.24; numpy>=2")
BAD = asked(torch="triton==3.7; numpy", transformers="tokenizers>=0.23,<0.25; numpy>=2")


def test_what_asks_for_an_exact_version_moves_with_it() -> None:
    found = {unit.name: unit for unit in units(ATOMS, GOOD, BAD)}
    assert set(found) == {"numpy", "tokenizers", "torch+triton", "transformers"}
    assert [atom.name for atom in found["torch+triton"].changes] == ["torch", "triton"]
    assert found["numpy"].needs == frozenset()


def test_what_needs_another_comes_after_it_and_not_the_other_way_round() -> None:
    found = units(ATOMS, GOOD, BAD)
    names = [unit.name for unit in found]
    by_name = {unit.name: unit for unit in found}
    assert by_name["transformers"].needs == {"tokenizers"} and by_name["tokenizers"].needs == frozenset()
    assert names.index("tokenizers") < names.index("transformers")


def test_an_old_wheel_that_does_not_take_the_new_one_must_move_first() -> None:
    found = {unit.name: unit for unit in units(ATOMS, asked(transformers="numpy<2.2"), {})}
    assert found["numpy"].needs == {"transformers"}


def test_what_is_new_comes_with_who_asks_for_it() -> None:
    atoms = [atom("fresh", "none", "1"), atom("gone", "1", "none"), atom("user", "1", "2")]
    found = {unit.name: unit for unit in units(atoms, asked(user="gone"), asked(user="fresh>=1"))}
    assert found["user"].needs == {"fresh"} and found["gone"].needs == {"fresh", "user"}


def test_needs_are_followed_over_several_steps() -> None:
    atoms = [atom(name, "1", "2") for name in "abc"]
    found = {unit.name: unit for unit in units(atoms, {}, asked(a="b>=2", b="c>=2"))}
    assert found["a"].needs == {"b", "c"}


def test_a_label_of_many_names_two() -> None:
    (unit,) = units([atom(name, "1", "2") for name in "abc"], {}, asked(a="b==2; c==2", b="a==2", c="a==2"))
    assert unit.label == "a 1 -> 2; b 1 -> 2; and 1 that move with them"


def test_metadata_is_read_where_packages_lie(tmp_path: Path) -> None:
    info = tmp_path / "My_Package-1.0.dist-info"
    info.mkdir()
    rows = (
        "Name: My_Package",
        "Version: 1.0",
        "Requires-Dist: alpha>=1",
        "Requires-Dist: beta; extra == 'more'",
        "Requires-Dist: ???",
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(rows) + "\n")
    assert {name: [str(row) for row in found] for name, found in requirements_of(tmp_path).items()} == {
        "my-package": ["alpha>=1"]
    }

"""What must move together, from what wheels ask for; and units, each after those that it needs."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement

from stackproof.extras.bisect.atoms import Atom, AtomKind
from stackproof.extras.bisect.needs import asked_by, units


def atom(name: str, before: str, after: str) -> Atom:
    """Return a changed package."""
    return Atom(AtomKind.PACKAGE, name, before, after)


def asked(**rows: str) -> dict[str, list[Requirement]]:
    """Return what packages ask for, by name."""
    return {name: [Requirement(line) for line in lines.split("; ")] for name, lines in rows.items()}


ATOMS = [
    atom("numpy", "2.1", "2.2"), atom("tokenizers", "0.22", "0.23"), atom("torch", "2.14", "2.15"),
    atom("transformers", "5.20", "5.23"), atom("triton", "3.6", "3.7"),
]  # fmt: skip
GOOD = asked(torch="triton==3.6; numpy", transformers="tokenizers<0.24; numpy>=2")
BAD = asked(torch="triton==3.7; numpy", transformers="tokenizers>=0.23,<0.25; numpy>=2")


def test_what_asks_for_an_exact_version_moves_with_it() -> None:
    found = {unit.name: unit for unit in units(ATOMS, GOOD, BAD)}
    assert set(found) == {"numpy", "tokenizers", "torch+triton", "transformers"}
    assert [atom.name for atom in found["torch+triton"].atoms] == ["torch", "triton"]
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
    assert {name: [str(row) for row in found] for name, found in asked_by(tmp_path).items()} == {
        "my-package": ["alpha>=1"]
    }

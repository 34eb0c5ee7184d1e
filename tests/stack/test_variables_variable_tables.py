"""The shipped tables of variables: strict, consistent with themselves, each with its source."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.base.places import ROOT
from stackproof.stack import findings, stacks, variables
from stackproof.stack.variables import Grammar

FAMILIES = variables.families()
HEAD = 'title = "X"\nlink = "https://x"\nread_by = []\nprefixes = ["X_"]\n'
COMBINATIONS = variables.combinations()
GRAMMARS = [(f.name, v.name, v.grammar) for f in FAMILIES.values() for v in f.variables.values() if v.grammar]


def test_every_family_of_the_stacks_is_there() -> None:
    assert set(FAMILIES) == {
        "ccl",
        "cuda",
        "fi",
        "hf",
        "hip",
        "i_mpi",
        "nccl",
        "omp",
        "onednn",
        "pytorch",
        "sim",
        "stackproof",
        "torch",
        "wandb",
        "ze",
    }


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_family_has_a_source_and_its_own_names(name: str) -> None:
    family = FAMILIES[name]
    assert family.link.startswith("https://") or (ROOT / family.link).is_file()
    assert len(family.variables) > 10
    assert any(row.grammar for row in family.variables.values())
    assert sum(known.startswith(family.prefixes) for known in family.variables) > len(family.variables) / 2
    head = (variables.TABLES / f"{name}.toml").read_text(encoding="utf-8").partition("title")[0]
    assert "Names" in head


@pytest.mark.parametrize(("family", "name", "grammar"), GRAMMARS)
def test_an_example_obeys_its_grammar(family: str, name: str, grammar: Grammar) -> None:
    assert grammar.compiled.fullmatch(grammar.example)
    assert not grammar.compiled.fullmatch("no such value, ever")
    assert not grammar.says.endswith(".")


@pytest.mark.parametrize("row", COMBINATIONS, ids=lambda row: re.sub(r"[^A-Za-z0-9]+", "-", row.sentence)[:50])
def test_a_combination_can_speak(row: variables.Combination) -> None:
    assert row.when or row.all_set or row.any_set or row.differ or row.lacking
    certain = {*row.when, *row.all_set, *row.differ}
    groups = {group for pattern in row.when.values() for group in pattern.groupindex}
    fields = {
        field for text in (row.sentence, row.remedy) for _, field, _, _ in string.Formatter().parse(text) if field
    }
    assert fields <= certain | groups
    assert row.link.startswith("https://")
    assert row.sentence[-1] not in ".!"


def test_remedies_are_settings_that_the_tables_accept() -> None:
    for row in COMBINATIONS:
        for name, value in re.findall(r"export ([A-Z_]+)=([^\s{};]+)(?=\s|$)", row.remedy):
            if "$" not in value:
                assert [slip.sentence for slip in findings.examine({name: value}) if name in slip.variables] == []


def test_our_own_variables_are_all_known() -> None:
    """What a misspelt one is held against; `tests` and `tools` have a few of their own."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("plugin.toml"), ROOT / "noxfile.py"]
    read = {name for path in sources for name in re.findall(r"\bSTACKPROOF_[A-Z_]+", path.read_text(encoding="utf-8"))}
    assert read == set(FAMILIES["stackproof"].variables)
    (slip,) = findings.examine({"STACKPROOF_HOTS": "x"})
    assert slip.misspelt and "STACKPROOF_HOST is" in slip.sentence


def test_every_stack_knows_its_families() -> None:
    for stack in stacks.load_all():
        families = variables.relevant(stack)
        assert {"omp", "pytorch", "torch"} <= set(families)
        if stack.backend == "simccl":  # a double: no library and no vendor's page to take names from
            continue
        assert (stack.backend == "gloo") == ("fi" not in families)
        if stack.visibility:
            assert any(stack.visibility in FAMILIES[name].variables for name in families)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            HEAD + "nmaes = []\n",
            "'nmaes' is not a known key",
        ),
        (
            HEAD + '[values]\nflga = ["X_A"]\n',
            "'values.flga' is not a known key",
        ),
        (
            HEAD + '[[variable]]\nname = "X_A"\npattern = "("\nsays = "s"\nexample = "e"\n',
            "is not a regular expression",
        ),
        (
            HEAD + '[[variable]]\nname = "X_A"\nchoices = ["a"]\nlevel = "bad"\n',
            "'variable[0].level' is 'bad'",
        ),
    ],
)
def test_a_broken_table_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refusal) as refusal:
        variables.family_of(path)
    assert str(path) in str(refusal.value)
    assert said in str(refusal.value)

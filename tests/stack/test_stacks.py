"""Stack definitions: the shipped ones load, a bad one is refused in one sentence, a new one is found."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.base.places import STACKS
from stackproof.stack import stacks

from .. import fakes

SHIPPED = ("cpu", "cpu-ipex", "cuda", "dcu", "xpu", "xpu-native")


def load(root: Path, definition: str) -> stacks.Stack:
    fakes.stack(root, "tiny", definition)
    return stacks.load("tiny", root / "stacks")


def changed(old: str, new: str) -> str:
    assert fakes.TINY.count(old) >= 1
    return fakes.TINY.replace(old, new, 1)


VENDOR = '\n[[vendor]]\nname = "torch"\nversion = "9.1.0+x"\n'

REFUSED: dict[str, tuple[str, list[str]]] = {
    "broken TOML": (changed("title = ", "title "), ["not valid TOML", "line 1"]),
    "unknown key": (
        changed("backend =", "prioritty = 1\nbackend ="),
        ["'prioritty' is not a known key", "did you mean 'priority'?", "allowed: "],
    ),
    "unknown key of a table": (
        changed('hip = "unset"', 'hipp = "unset"'),
        ["'flavour.hipp' is not a known key", "did you mean 'hip'?"],
    ),
    "wrong type": (changed("priority = 1", 'priority = "1"'), ["'priority' is '1'", "a whole number"]),
    "missing key": (changed('backend = "gloo"\n', ""), ["'backend' is missing", "a string"]),
    "missing table": (changed("[expected]\nsmoke = 1\n", ""), ["'expected' is missing"]),
    "bad python": (changed(f'["{fakes.THIS_PYTHON}"]', '["3"]'), ["'python' contains '3'", "'3.10'"]),
    "exact python": (changed(f'["{fakes.THIS_PYTHON}"]', '["3.11.4"]'), ["'python' contains '3.11.4'"]),
    "python that is too old": (changed(f'["{fakes.THIS_PYTHON}"]', '["3.9"]'), ["'3.9'", "or newer"]),
    "no python": (changed(f'["{fakes.THIS_PYTHON}"]', "[]"), ["'python' is empty"]),
    "device with an index": (changed('device = "cpu"', 'device = "xpu:0"'), ["'device' is 'xpu:0'"]),
    "full-width device": (changed('device = "cpu"', 'device = "xpu：0"'), ["'device' is", "lower-case"]),
    "empty backend": (changed('backend = "gloo"', 'backend = ""'), ["'backend' is ''", "lower-case"]),
    "bad precision": (
        changed('["float32"]', '["float32", "flaot16"]'),
        ["'precisions' is 'flaot16'", "did you mean 'float16'?", "allowed: 'float64', 'float32'"],
    ),
    "bad toolkit state": (
        changed('hip = "unset"', 'hip = "off"'),
        ["'flavour.hip' is 'off'", "allowed: 'set', 'unset', 'any'"],
    ),
    "host row that sees nothing": (
        fakes.TINY + '\n[[host]]\nwhat = "a card"\n',
        ["'host[0].what'", "give 'paths', 'tools' or 'pci_vendors'"],
    ),
    "host row without words": (fakes.TINY + '\n[[host]]\npaths = ["/x"]\n', ["'host[0].what' is missing"]),
    "vendor without source": (
        fakes.TINY + VENDOR,
        ["'vendor[0].index' and 'file' are both missing", "name one"],
    ),
    "vendor with two sources": (
        fakes.TINY + VENDOR + 'index = "https://i"\nfile = "https://f"\n',
        ["'vendor[0].index' and 'file' are both given", "name one"],
    ),
    "another backend first": (
        changed('backend = "gloo"', 'backend = "gloo"\nbackends = ["nccl", "gloo"]'),
        ["'backends' is ['nccl', 'gloo']", "the stack's own backend, 'gloo', comes first"],
    ),
    "no expected checks": (changed("smoke = 1", "smoke = 0"), ["'expected.smoke' is 0", "1 or more"]),
    "a suite that does not exist": (changed("smoke = 1", "smokes = 1"), ["'expected.smokes' is not a known key"]),
    "no checks in the rehearsal": (
        fakes.TINY + "\n[rehearsal.expected]\nsmoke = 0\n",
        ["'rehearsal.expected.smoke' is 0", "1 or more"],
    ),
    "fewer than no checks": (changed("smoke = 1", "smoke = -1"), ["'expected.smoke' is -1"]),
    "environment of numbers": (
        fakes.TINY.replace("[flavour]", "[environment]\nA = 1\n[flavour]", 1),
        ["'environment.A' is 1", "a string"],
    ),
    "a variable that cannot be": (changed('visibility = ""', 'visibility = "A B=C"'), ["'visibility' is 'A B=C'"]),
    "several keys missing": (
        changed('title = "Tiny: a stack for tests"\n', "").replace("priority = 1\n", "", 1),
        ["'title' is missing; it must be a string; so are 'priority' (a whole number)"],
    ),
    "nothing at all": (
        "",
        ["'title' is missing", "'flavour' (a table)", "'expected' (a table)", "'rehearsal.flavour' (a table)"],
    ),
    "a device that torch does not know": (
        changed('device = "cpu"', 'device = "tpu"'),
        ["'device' is 'tpu'", "'imports'"],
    ),
    "rehearsal device": (
        fakes.TINY.replace('[rehearsal]\ndevice = "cpu"', '[rehearsal]\ndevice = "CPU"'),
        ["'rehearsal.device' is 'CPU'"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_definition_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    definition, words = REFUSED[name]
    with pytest.raises(Refusal) as caught:
        load(tmp_path, definition)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'stacks' / 'tiny' / 'stack.toml'}: ")
    assert [word for word in words if word not in said] == []
    assert "\n" not in said
    assert caught.value.exit_code == 2


def test_a_rehearsal_may_promise_fewer_checks(tmp_path: Path) -> None:
    definition = fakes.TINY.replace("smoke = 1", "smoke = 9\nmemory = 6", 1) + "\n[rehearsal.expected]\nmemory = 3\n"
    stack = load(tmp_path, definition)
    assert (stack.expected["smoke"], stack.expected["memory"]) == (9, 6)
    assert (stack.rehearse().expected["smoke"], stack.rehearse().expected["memory"]) == (9, 3)


def test_a_rehearsal_promises_what_its_stack_does(tmp_path: Path) -> None:
    stack = load(tmp_path, fakes.TINY.replace("smoke = 1", "smoke = 9", 1))
    assert stack.rehearse().expected == stack.expected


def test_a_folder_that_init_would_not_make_is_no_stack(tmp_path: Path) -> None:
    fakes.stack(tmp_path, "Mine+X")
    with pytest.raises(Refusal, match=r"stacks/Mine\+X: 'Mine\+X' is no name for a stack; write small letters"):
        stacks.load("Mine+X", tmp_path / "stacks")


def test_refused_definition_is_read_again(tmp_path: Path) -> None:
    with pytest.raises(Refusal):
        load(tmp_path, "title = 1\n")
    assert load(tmp_path, fakes.TINY).title == "Tiny: a stack for tests"


def test_shipped_stacks_load() -> None:
    assert set(SHIPPED) <= set(stacks.names())
    for stack in stacks.load_all():
        assert stack.lock.is_file()
        assert stack.rehearse().lock.is_file()


@pytest.mark.parametrize(
    ("typed", "meant"), [("xpuu", "xpu"), ("cpu_ipex", "cpu-ipex"), ("DCU", "dcu"), ("kitchen", None)]
)
def test_unknown_name_suggests_the_nearest(typed: str, meant: str | None) -> None:
    with pytest.raises(Refusal) as caught:
        stacks.load(typed)
    said = str(caught.value)
    assert f"there is no stack '{typed}'" in said
    assert ("did you mean" in said) == (meant is not None)
    assert meant is None or f"did you mean '{meant}'?" in said
    assert all(name in said for name in SHIPPED)


@pytest.mark.parametrize("name", ["", "..", "../stacks/cpu", "/", "cpu/", "."])
def test_names_that_are_paths_are_no_stacks(name: str) -> None:
    with pytest.raises(Refusal, match="there is no stack"):
        stacks.load(name)


def test_only_folders_with_a_definition_are_stacks(tmp_path: Path) -> None:
    fakes.stack(tmp_path, "a")
    (tmp_path / "stacks" / "notes").mkdir()
    (tmp_path / "stacks" / "README").write_text("x", encoding="utf-8")
    assert stacks.names(tmp_path / "stacks") == ("a",)
    assert stacks.names(tmp_path / "absent") == ()


def test_load_all_puts_the_preferred_first(tmp_path: Path) -> None:
    for name, priority in (("b", 1), ("a", 1), ("c", 7)):
        fakes.stack(tmp_path, name, changed("priority = 1", f"priority = {priority}"))
    assert [stack.name for stack in stacks.load_all(tmp_path / "stacks")] == ["c", "a", "b"]
    fakes.stack(tmp_path, "d", "title = 1\n")
    with pytest.raises(Refusal, match=r"d/stack\.toml"):
        stacks.load_all(tmp_path / "stacks")


@pytest.mark.parametrize("name", SHIPPED)
def test_rehearsal_cannot_be_mistaken_for_the_stack(name: str) -> None:
    stack = stacks.load(name)
    rehearsed = stack.rehearse()
    assert (rehearsed.device, rehearsed.backend, rehearsed.host, rehearsed.vendor) == ("cpu", "gloo", (), ())
    assert rehearsed.label == f"{name} (rehearsed on cpu, not verified on {stack.hardware})"
    assert stack.label == name
    assert (rehearsed.hardware, rehearsed.pythons) == (stack.hardware, stack.pythons)
    assert rehearsed.lock.name == ("rehearsal.lock" if stack.rehearsal.substitutes else "requirements.lock")


def test_vendor_wheels_come_from_somewhere() -> None:
    sources = [row.index or row.file for stack in stacks.load_all() for row in stack.vendor]
    assert sources
    assert [source for source in sources if not source.startswith("https://")] == []


PAGE = ROOT / "docs" / "adding-a-stack.md"
GIVEN = {"name", "folder", "hardware", "rehearsed"}
"""Fields of a stack that its file does not have."""


def test_the_page_has_a_row_for_every_key() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| key | meaning |")[2].partition("\n\n")[0]
    keys = {key for row in table.splitlines() for key in re.findall(r"`\[*(\w+)\]*`", row.partition(" | ")[0])}
    fields = {field.name for field in dataclasses.fields(stacks.Stack)} - GIVEN
    assert keys == fields - {"pythons"} | {"python"}


def test_the_page_has_a_line_for_every_file() -> None:
    rows = re.findall(r"^\| (`\w+\.\w+`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+\.\w+)`", row)}
    assert named == {path.name for path in STACKS.glob("*/*.*")}


def test_the_smallest_stack_of_the_page_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "adding-a-stack.md").read_text(encoding="utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "stack.toml").write_text(text, encoding="utf-8")
    assert stacks.load("mine", tmp_path).rehearse().backend == "gloo"

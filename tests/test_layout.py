"""Where things stand: every test file names what it tests, and no class name stands for two ideas."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from stackproof import ROOT
from stackproof.stack import stacks

SOURCE, TESTS = ROOT / "src" / "stackproof", ROOT / "tests"

ELSEWHERE = {
    "test_layout.py": "this file: it is about src and tests as a whole",
    "test_noxfile.py": "noxfile.py",
    "test_results.py": "the records in results/",
    "gate/test_faults.py": "the rows of the drill that are planted in a side of the gate",
    "gate/test_action.py": "action.yml and the workflow of the example",
    "test_wheel.py": "the wheel, in an empty environment",
    "test_containers.py": "the images in containers/ and the dev container",
    "test_vendor_container.py": "the words of docs/start.md for a vendor's container",
    "test_slurm.py": "the batch templates in slurm/",
    "simulated/test_*.py": "the simulated accelerator in fixtures/simulated",
    "ranks/test_ccl.py": "one backend through the whole of ranks and the verbs, with a double of its library",
    "triage/test_fuzz.py": "every reader of triage, on logs that are damaged",
    "ranks/test_two_hosts.py": "the whole of ranks over two hosts",
}
"""Tests that name no module of src or tools, and what they are about."""


def named(path: Path) -> bool:
    """Whether a test is called tests/PACKAGE/test_MODULE[_TOPIC].py after a module of src/stackproof or tools."""
    package, name = path.parent.relative_to(TESTS), path.stem.removeprefix("test_")
    folder = ROOT / package if package.parts[:1] == ("tools",) else SOURCE / package
    return any(name == module.stem or name.startswith(f"{module.stem}_") for module in folder.glob("*.py"))


def test_every_test_file_names_what_it_tests() -> None:
    files = [path for path in TESTS.rglob("test_*.py") if not named(path)]
    unnamed = {str(path.relative_to(TESTS)) for path in files}
    assert [name for name in unnamed if not any(fnmatchcase(name, pattern) for pattern in ELSEWHERE)] == []
    assert [pattern for pattern in ELSEWHERE if not any(fnmatchcase(name, pattern) for name in unnamed)] == []


def test_a_file_that_names_nothing_is_seen() -> None:
    assert named(TESTS / "base" / "test_processes_hostload.py")
    assert not named(TESTS / "base" / "test_process.py") and not named(TESTS / "nothing" / "test_errors.py")


def classes() -> Iterator[tuple[str, str]]:
    """Return the public classes at the top of every module of src, with the module."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, str(path.relative_to(SOURCE))


def test_no_class_name_stands_for_two_ideas() -> None:
    found = defaultdict(list)
    for name, module in classes():
        found[name].append(module)
    assert {name: sorted(modules) for name, modules in found.items() if len(modules) > 1} == {}
    assert len(found) > 200


def told(path: Path) -> str:
    """Return what is wrong with a module's length or its docstring; nothing if all is well."""
    text = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    if len(text.splitlines()) > 600:
        return f"{path}: has over 600 lines; part it by its ideas"
    if not docstring or docstring.count("\n\n") > 2 or len(docstring.splitlines()) > 8:
        return f"{path}: says no one idea in few sentences; facts belong to the function that they concern"
    return ""


def test_each_module_is_one_idea_that_fits_a_few_sentences(tmp_path: Path) -> None:
    assert [said for path in SOURCE.rglob("*.py") if (said := told(path))] == []
    pasted = tmp_path / "pasted.py"
    pasted.write_text('"""One.\n\nTwo.\n\nThree.\n\nFour.\n"""\n', encoding="utf-8")
    assert "one idea" in told(pasted)
    pasted.write_text('"""One."""\n' + "x = 1\n" * 600, encoding="utf-8")
    assert "over 600 lines" in told(pasted)


def branches(source: str) -> list[str]:
    """Return the comparisons with a word that names a type of device or a stack."""
    compared = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare)]
    words = [(node, one.value) for node in compared for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return [ast.unparse(node) for node, word in words if word in {*stacks.names(), *stacks.TOOLKITS, "cpu"}]


def imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules of ours that a module imports, anywhere in it."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & modules.keys() if inner & modules.keys() else {str(node.module)}
    return found & modules.keys()


def in_circles(links: dict[str, set[str]]) -> set[str]:
    """Return who remains when those are taken away, again and again, that import nobody who remains or are imported by none."""
    while True:
        imported = {other for others in links.values() for other in others}
        left = {
            name: others & links.keys() for name, others in links.items() if others & links.keys() and name in imported
        }
        if left.keys() == links.keys():
            return set(links)
        links = left


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in SOURCE.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    links = {name: imports(path, modules) - {name, SOURCE.name} for name, path in modules.items()}
    assert in_circles(links) == set()
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b", "c"}


def test_nothing_branches_on_a_device_or_a_stack() -> None:
    files = [path for top in ("src", "suites", "tools") for path in (ROOT / top).rglob("*.py")] + [ROOT / "noxfile.py"]
    found = {str(path.relative_to(ROOT)): branches(path.read_text(encoding="utf-8")) for path in files}
    assert {name: told for name, told in found.items() if told} == {}
    assert branches("if stack.name in ('xpu', other): pass") == ["stack.name in ('xpu', other)"]


def by_hand(source: str) -> bool:
    """Whether a module writes a table of Markdown, or the root of an SVG, in its own strings."""
    return bool(re.search(r'<svg|\|---|"\| [{"]', source))


def test_tables_and_pictures_are_made_in_one_place() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    found = {name for name, text in files.items() if by_hand(text)}
    assert found == {"record/outline.py"}
    assert by_hand("yield '| a | b |\\n|---|---|'") and by_hand('f"<svg>"') and not by_hand("a | b")

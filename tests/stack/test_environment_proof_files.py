"""The proof of an environment to the byte: every file against its wheel, and what could shadow it or run before it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from stackproof.base import places
from stackproof.stack import environments, installed_files

from .proving import Scene


def edit_same_size(scene: Scene) -> None:
    path = scene.site / "numpy.py"
    before = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("2.0", "2.1"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def edit_record_too(scene: Scene) -> None:
    path, record = scene.site / "numpy.py", scene.site / "numpy-2.0.dist-info" / "RECORD"
    old = installed_files.hash_of(path, "sha256")
    path.write_text("version = '2.2'\n", encoding="utf-8")
    text = record.read_text(encoding="utf-8").replace(old, installed_files.hash_of(path, "sha256"))
    record.write_text(text, encoding="utf-8")


def stray(name: str, text: str = "x = 1\n") -> Callable[[Scene], None]:
    def put(scene: Scene) -> None:
        path = scene.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return put


def put_a_pipe(scene: Scene) -> None:
    """Put a pipe that nobody writes to in the place of a package's file."""
    (scene.site / "numpy.py").unlink()
    os.mkfifo(scene.site / "numpy.py")


def damaged_stamp(scene: Scene) -> None:
    """Leave half of what the build noted: the environment would be nobody's, and compared with nothing."""
    path = scene.site.parents[2] / environments.STAMP
    path.write_text(path.read_text(encoding="utf-8")[:40], encoding="utf-8")


def deep_stamp(scene: Scene) -> None:
    (scene.site.parents[2] / environments.STAMP).write_text("[" * 100_000, encoding="utf-8")


BESIDE: dict[str, tuple[Callable[[Scene], None], str]] = {
    "same size": (edit_same_size, "numpy.py is not the file that its wheel held"),
    "record too": (edit_record_too, "a RECORD is not the one that the build left"),
    "a pipe": (put_a_pipe, "numpy.py is no file"),
    "damaged stamp": (damaged_stamp, "its stackproof.json is damaged"),
    "deep stamp": (deep_stamp, "its stackproof.json is damaged"),
    "module": (stray("helper.py"), "helper.py: is in no wheel's RECORD"),
    "inside a package": (stray("torch/extra.py"), "torch/extra.py: is in no wheel's RECORD"),
    "start-up line": (stray("more.pth", "import os\n"), "more.pth: is in no wheel's RECORD"),
    "start-up module": (stray("sitecustomize.py"), "sitecustomize.py: is in no wheel's RECORD"),
    "entry point": (stray("torch-9.1.0.dist-info/entry_points.txt", "[pytest11]\nx = os\n"), "entry_points.txt"),
    "library": (stray("torch/_C.so", ""), "torch/_C.so: is in no wheel's RECORD"),
    "the system's library": (stray("torch/lib/libm.so.6", ""), "torch/lib/libm.so.6: is in no wheel's RECORD"),
    "a place that comes first": (
        stray("torch/lib/glibc-hwcaps/x86-64-v3/libc10.so.2.1", ""),
        "libc10.so.2.1: is in no",
    ),
    "beside the packages": (stray("../../libmkl_rt.so.2", ""), "../../../lib/libmkl_rt.so.2: is in no wheel's RECORD"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BESIDE)
def test_an_environment_is_its_lock_to_the_byte(scene: Scene, name: str) -> None:
    break_it, words = BESIDE[name]
    scene.stamp(**installed_files.seals(scene.site))
    assert scene.prove()[0] == 0
    break_it(scene)
    code, said = scene.prove()
    assert (code, words in said) == (4, True), said


def test_a_wheel_whose_record_is_wrong_is_taken_as_it_was_built(scene: Scene) -> None:
    edit_same_size(scene)
    scene.stamp(**installed_files.seals(scene.site))
    code, said = scene.prove()
    assert (code, json.loads(said)["files"]["flawed"]) == (0, 1)
    with (scene.site / "numpy.py").open("a", encoding="utf-8") as stream:
        stream.write("#")
    assert scene.prove()[0] == 4


def test_files_are_hashed_once(scene: Scene) -> None:
    first, second = (json.loads(scene.prove()[1])["files"] for _ in range(2))
    assert first["read"] == first["files"] > 0
    assert second == {**first, "read": 0}


def test_a_path_that_shadows_the_environment_is_refused(scene: Scene) -> None:
    folder = scene.root / "elsewhere"
    folder.mkdir()
    (folder / "own_tool.py").write_text("", encoding="utf-8")
    assert scene.prove(PYTHONPATH=str(folder))[0] == 0
    (folder / "numpy.py").write_text("", encoding="utf-8")
    code, said = scene.prove(PYTHONPATH=str(folder))
    assert (code, "numpy would be imported from" in said) == (4, True)


def test_start_up_code_that_is_not_ours_is_refused(scene: Scene) -> None:
    folder = scene.root / "planted"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("", encoding="utf-8")
    code, said = scene.prove(PYTHONPATH=str(folder))
    assert (code, "runs whenever Python starts" in said) == (4, True)
    assert scene.prove(PYTHONPATH=str(folder), **{places.FIRED: str(scene.root / "signs")})[0] == 0

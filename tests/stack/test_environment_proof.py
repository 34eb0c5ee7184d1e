"""The proof of an environment: which packages, of which versions and flavour, file by file, and nothing that could shadow them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.base.errors import EnvironmentMismatchError
from stackproof.stack import environment_proof, environments, installed_files, lockfile, stacks

from .. import fakes
from .proving import Scene, install


def test_environment_that_is_its_lock_is_proved(scene: Scene) -> None:
    code, said = scene.prove()
    assert code == 0
    found = json.loads(said)
    assert (found["pinned"], found["packages"], found["torch_version"]) == (True, 2, "9.1.0")
    assert found["toolkits"] == {}
    assert found["lock_digest"] == lockfile.read(scene.stack.lock).digest
    assert found["sentence"].startswith("2 packages equal tiny/requirements.lock (")


Break = Callable[[Scene], object]


def installs(name: str, version: str, files: dict[str, str] | None = None) -> Break:
    return lambda scene: install(scene, fakes.wheel(scene.root / "more", name, version, files or {}))


def removes(name: str) -> Break:
    uninstall = [str(environments.find_uv()), "pip", "uninstall", "--quiet", "--python"]
    return lambda scene: fakes.run([*uninstall, str(scene.python), name])


def stamps(**other: object) -> Break:
    return lambda scene: scene.stamp(**other)


def writes(name: str, text: str) -> Break:
    def put(scene: Scene) -> None:
        path = scene.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return put


def relock(scene: Scene) -> None:
    body = scene.stack.lock.read_text(encoding="utf-8").partition("content:")[2].partition("\n")[2]
    fakes.lock(scene.stack.folder, f"{body}# other\n")


def lose_a_file(scene: Scene) -> None:
    """Lose a file of torch; its distribution still claims it, and another module is called so."""
    (scene.site / "torch" / "__init__.py").unlink()
    (scene.site / "torch.py").write_text("", encoding="utf-8")
    (scene.site / "version.py").write_text(VERSION, encoding="utf-8")


VERSION = fakes.TORCH["torch/version.py"]
CLAIM = "Metadata-Version: 2.1\nName: torch\nVersion: 9.0.0\n"
OTHER_TOOLKIT = writes("torch/version.py", VERSION.replace("hip = None", "hip = '6.1'"))
PATCHED = writes("torch/__init__.py", fakes.TORCH["torch/__init__.py"] + "# patched\n")
DISOWNED: Break = lambda scene: shutil.rmtree(scene.site / "torch-9.1.0.dist-info")  # noqa: E731

BREAKS: dict[str, tuple[Break, str]] = {
    "lock made anew": (relock, "lock digest: built from"),
    "other digest": (stamps(lock_digest="0" * 64), "lock digest: built from 000000000000"),
    "extra package": (installs("sneaky", "0.1"), "+ sneaky==0.1 (installed, not in the lock)"),
    "lost package": (removes("numpy"), "- numpy==2.0 (in the lock, not installed)"),
    "other version": (installs("numpy", "2.1"), "! numpy: lock 2.0, installed 2.1"),
    "torch swapped": (installs("torch", "9.1.0+cu1", fakes.TORCH), "! torch: lock 9.1.0, installed 9.1.0+cu1"),
    "other stack": (stamps(stack="other"), "built for 'other' from requirements.lock, not for 'tiny'"),
    "other lock": (
        stamps(lock="rehearsal.lock"),
        "built for 'tiny' from rehearsal.lock, not for 'tiny' from requirements.lock",
    ),
    "other toolkit": (OTHER_TOOLKIT, "! torch 9.1.0: torch.version.hip is 6.1, the stack wants it unset"),
    "torch patched": (PATCHED, "torch/__init__.py "),
    "file lost": (lose_a_file, "torch/__init__.py "),
    "version lost": (lambda scene: (scene.site / "torch/version.py").unlink(), "version.py: cannot be read"),
    "version broken": (writes("torch/version.py", "__version__ = ("), "version.py: cannot be read"),
    "disowned": (DISOWNED, "- torch==9.1.0 (in the lock, not installed)"),
    "claimed twice": (
        writes("torch-9.0.0.dist-info/METADATA", CLAIM),
        "! torch: lock 9.1.0, installed 9.0.0 and 9.1.0",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKS)
def test_broken_environment_is_refused_with_the_difference(scene: Scene, name: str) -> None:
    break_it, words = BREAKS[name]
    break_it(scene)
    code, said = scene.prove()
    assert (code, words in said) == (4, True), said
    assert any(
        words in said for words in ("torch is damaged", "delete that folder and run the session again", "add --locked")
    )
    assert ("leave that folder as it is" in said) == (name in ("other stack", "other lock"))


def test_all_differences_are_shown_up_to_a_dozen(scene: Scene) -> None:
    for number in range(15):
        info = scene.site / f"extra{number}-1.0.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: extra{number}\nVersion: 1.0\n"
        (info / "METADATA").write_text(text, encoding="utf-8")
    removes("numpy")(scene)
    code, said = scene.prove()
    assert code == 4
    assert "- numpy==2.0" in said
    assert said.count("+ extra") == 11
    assert said.endswith("... and 4 more")


def test_torch_from_pythonpath_does_not_pass_for_the_environments(scene: Scene) -> None:
    other = scene.root / "shadow"
    for name, text in fakes.TORCH.items():
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(text, encoding="utf-8")
    code, said = scene.prove(PYTHONPATH=str(other))
    assert code == 4
    assert f"! torch would be imported from {other}, not from the environment" in said


def test_versions_are_compared_as_versions(scene: Scene) -> None:
    metadata = scene.site / "numpy-2.0.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: NumPy\nVersion: 02.00\n", encoding="utf-8")
    record = metadata.parent / "RECORD"
    rows = record.read_text(encoding="utf-8").splitlines()
    kept = [f"{row.split(',')[0]},," if "METADATA" in row else row for row in rows]
    record.write_text("\n".join(kept), encoding="utf-8")
    assert scene.prove()[0] == 0


def test_installed_checkout_is_not_an_extra_package(scene: Scene) -> None:
    install(scene, fakes.wheel(scene.root / "more", "stackproof", "0.1.0", {"unused.txt": ""}))
    assert scene.prove()[0] == 0


def test_companions_of_a_foreign_environment_are_told(scene: Scene) -> None:
    scene.unstamp()
    assert "not what tiny asks for" not in scene.prove()[1]
    (scene.stack.folder / "requirements.in").write_text("torch>=1\nnumpy<2\n", encoding="utf-8")
    fakes.lock(scene.stack.folder, "torch==9.1.0\nnumpy==1.26.4\n")
    code, said = scene.prove()
    found = json.loads(said)
    assert (code, found["pinned"]) == (0, False)
    assert found["sentence"].endswith("; not what tiny asks for: numpy 2.0 (locked 1.26.4, asked for <2)")
    assert found["companions"] in found["sentence"]


def test_foreign_environment_is_unpinned(scene: Scene) -> None:
    installs("sneaky", "0.1")(scene)
    scene.unstamp()
    code, said = scene.prove()
    assert code == 0
    found = json.loads(said)
    assert (found["pinned"], found["lock_digest"], found["unhashed"]) == (False, "", [])
    assert found["sentence"].startswith("unpinned: ")


@pytest.mark.parametrize("break_it", [OTHER_TOOLKIT, PATCHED, DISOWNED], ids=["toolkit", "patched", "disowned"])
def test_foreign_environment_with_the_wrong_torch_is_refused(scene: Scene, break_it: Break) -> None:
    scene.unstamp()
    break_it(scene)
    code, said = scene.prove()
    assert code == 4
    assert "torch" in said
    assert "delete" not in said


def test_environment_without_torch(scene: Scene) -> None:
    removes("torch")(scene)
    scene.unstamp()
    code, said = scene.prove()
    assert code == 3
    assert "there is no torch in" in said


def test_unhashed_wheels_are_said(scene: Scene) -> None:
    body = scene.stack.lock.read_text(encoding="utf-8").partition("content:")[2].partition("\n")[2]
    head, _, rest = body.partition("numpy==2.0")
    fakes.lock(scene.stack.folder, f"torch==9.1.0\nnumpy==2.0{rest}")
    assert "torch==9.1.0" in head
    scene.stamp()
    code, said = scene.prove()
    assert code == 0
    found = json.loads(said)
    assert found["unhashed"] == ["torch==9.1.0"]
    assert "1 package without a hash" in found["sentence"]


def test_cli_ends_with_exit_code_4_and_the_difference(tmp_path: Path) -> None:
    root = fakes.checkout(tmp_path / "checkout")
    folder, wheels = fakes.stack(root), tmp_path / "wheels"
    fakes.lock(folder, fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    python = fakes.venv(tmp_path / "environment", wheels / "torch-9.1.0-py3-none-any.whl")
    facts = {
        "stack": "tiny",
        "lock": "requirements.lock",
        "lock_digest": lockfile.read(folder / "requirements.lock").digest,
    }
    (python.parent.parent / environments.STAMP).write_text(json.dumps(facts), encoding="utf-8")
    uv, sneaky = str(environments.find_uv()), str(fakes.wheel(wheels, "sneaky", "0.1"))
    fakes.run([uv, "pip", "install", "--quiet", "--no-index", "--python", str(python), sneaky])
    env = {"PYTHONPATH": f"{root / 'src'}:{fakes.borrowed(tmp_path / 'borrowed')}"}
    ended = fakes.attempt([str(python), "-m", "stackproof", "smoke", "--stack", "tiny"], env=env, cwd=tmp_path)
    assert ended.returncode == 4
    assert "+ sneaky==0.1 (installed, not in the lock)" in ended.stdout
    (record,) = (root / "results" / "local" / "tiny").glob("*/record.json")
    found = json.loads(record.read_text(encoding="utf-8"))
    assert found["verdict"] == "mismatched"
    assert "sneaky" in found["checks"][-1]["reason"]


def test_refusal_is_a_mismatch() -> None:
    stack = stacks.load("cpu")
    environment_proof._refuse(stack, [], "remedy")
    with pytest.raises(EnvironmentMismatchError) as caught:
        environment_proof._refuse(stack, ["x"], "remedy")
    assert str(caught.value).startswith(f"the environment {sys.prefix} is not stack 'cpu'")
    assert str(caught.value).endswith("; remedy:\n  x")


def edit_same_size(scene: Scene) -> None:
    """Edit a file without a trace in its size and its time."""
    path = scene.site / "numpy.py"
    seen = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("2.0", "2.1"), encoding="utf-8")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def edit_record_too(scene: Scene) -> None:
    path, record = scene.site / "numpy.py", scene.site / "numpy-2.0.dist-info" / "RECORD"
    old = installed_files.hash_of(path, "sha256")
    path.write_text("version = '2.2'\n", encoding="utf-8")
    text = record.read_text(encoding="utf-8").replace(old, installed_files.hash_of(path, "sha256"))
    record.write_text(text, encoding="utf-8")


def put_a_pipe(scene: Scene) -> None:
    """Put a pipe that nobody writes to in the place of a package's file."""
    (scene.site / "numpy.py").unlink()
    os.mkfifo(scene.site / "numpy.py")


def link_a_folder(scene: Scene) -> None:
    """Let a package lie where no wheel put it."""
    (scene.site / "mine").symlink_to(scene.site.parent, target_is_directory=True)


HALF_A_STAMP = writes(f"../../../{environments.STAMP}", '{"stack": "tiny", "lock"')
DEEP_STAMP = writes(f"../../../{environments.STAMP}", "[" * 100_000)

BESIDE: dict[str, tuple[Break, str]] = {
    "same size": (edit_same_size, "numpy.py is not the file that its wheel held"),
    "record too": (edit_record_too, "a RECORD is not the one that the build left"),
    "a pipe": (put_a_pipe, "numpy.py is no file"),
    "damaged stamp": (HALF_A_STAMP, "its stackproof.json is damaged"),
    "deep stamp": (DEEP_STAMP, "its stackproof.json is damaged"),
    "module": (writes("helper.py", "x = 1\n"), "helper.py: is in no wheel's RECORD"),
    "inside a package": (writes("torch/extra.py", "x = 1\n"), "torch/extra.py: is in no wheel's RECORD"),
    "linked folder": (link_a_folder, "mine: is in no wheel's RECORD"),
    "start-up line": (writes("more.pth", "import os\n"), "more.pth: is in no wheel's RECORD"),
    "start-up module": (writes("sitecustomize.py", "x = 1\n"), "sitecustomize.py: is in no wheel's RECORD"),
    "entry point": (writes("torch-9.1.0.dist-info/entry_points.txt", "[pytest11]\nx = os\n"), "entry_points.txt"),
    "library": (writes("torch/_C.so", ""), "torch/_C.so: is in no wheel's RECORD"),
    "the system's library": (writes("torch/lib/libm.so.6", ""), "torch/lib/libm.so.6: is in no wheel's RECORD"),
    "a place that comes first": (
        writes("torch/lib/glibc-hwcaps/x86-64-v3/libc10.so.2.1", ""),
        "libc10.so.2.1: is in no",
    ),
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


@pytest.mark.parametrize(
    ("wanted", "version", "toolkits", "words"),
    [
        (stacks.Flavour(cuda="set"), "2.8.0+cu128", {"cuda": "12.8"}, []),
        (stacks.Flavour(cuda="set", hip="unset"), "2.8.0", {}, ["cuda is None, the stack wants it set"]),
        (stacks.Flavour(hip="set", cuda="unset"), "2.4.1", {"cuda": "12.1"}, ["hip is None", "cuda is 12.1"]),
        (stacks.Flavour("dtk", hip="set"), "2.4.1+rocm6", {"hip": "6"}, ["contains 'dtk'"]),
        (stacks.Flavour("+xpu", xpu="set"), "2.8.0+xpu", {"xpu": "20250101"}, []),
    ],
)
def test_flavour_differences(wanted: stacks.Flavour, version: str, toolkits: dict[str, str], words: list[str]) -> None:
    said = environment_proof.flavour_differences(wanted, version, toolkits)
    assert len(said) == len(words)
    assert [word for word in words if not any(word in line for line in said)] == []


def test_this_environment_has_its_own_torch() -> None:
    from importlib import metadata

    version, toolkits = environment_proof.torch_flavour()
    assert version.split("+")[0] == metadata.version("torch").split("+")[0]
    assert "hip" not in toolkits

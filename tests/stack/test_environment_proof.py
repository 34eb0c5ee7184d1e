"""The proof of an environment against its lock: which packages, of which versions, built for which stack."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof.base.errors import EnvironmentMismatchError
from stackproof.stack import environment_proof, environments, lockfile, stacks

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


def add_extra(scene: Scene) -> None:
    install(scene, fakes.wheel(scene.root / "more", "sneaky", "0.1"))


def drop(scene: Scene) -> None:
    fakes.run([str(environments.find_uv()), "pip", "uninstall", "--quiet", "--python", str(scene.python), "numpy"])


def other_version(scene: Scene) -> None:
    install(scene, fakes.wheel(scene.root / "more", "numpy", "2.1"))


def swap_torch(scene: Scene) -> None:
    install(scene, fakes.wheel(scene.root / "more", "torch", "9.1.0+cu1", fakes.TORCH))


def tamper_lock(scene: Scene) -> None:
    """Make the lock anew after the environment was built from the old one."""
    body = scene.stack.lock.read_text(encoding="utf-8").partition("content:")[2].partition("\n")[2]
    fakes.lock(scene.stack.folder, f"{body}# other\n")


def tamper_digest(scene: Scene) -> None:
    scene.stamp(lock_digest="0" * 64)


def wrong_stack(scene: Scene) -> None:
    scene.stamp(stack="other")


def wrong_lock(scene: Scene) -> None:
    scene.stamp(lock="rehearsal.lock")


def overwrite_version(scene: Scene) -> None:
    text = fakes.TORCH["torch/version.py"].replace("hip = None", "hip = '6.1'")
    (scene.site / "torch" / "version.py").write_text(text, encoding="utf-8")


def overwrite_torch(scene: Scene) -> None:
    with (scene.site / "torch" / "__init__.py").open("a", encoding="utf-8") as stream:
        stream.write("# patched\n")


def delete_file(scene: Scene) -> None:
    """Lose a file of torch; its distribution still claims it."""
    (scene.site / "torch" / "__init__.py").unlink()
    (scene.site / "torch.py").write_text("", encoding="utf-8")
    (scene.site / "version.py").write_text(fakes.TORCH["torch/version.py"], encoding="utf-8")


def delete_version(scene: Scene) -> None:
    (scene.site / "torch" / "version.py").unlink()


def break_version(scene: Scene) -> None:
    (scene.site / "torch" / "version.py").write_text("__version__ = (", encoding="utf-8")


def disown(scene: Scene) -> None:
    for path in (scene.site / "torch-9.1.0.dist-info").iterdir():
        path.unlink()
    (scene.site / "torch-9.1.0.dist-info").rmdir()


def twice(scene: Scene) -> None:
    (scene.site / "torch-9.0.0.dist-info").mkdir()
    text = "Metadata-Version: 2.1\nName: torch\nVersion: 9.0.0\n"
    (scene.site / "torch-9.0.0.dist-info" / "METADATA").write_text(text, encoding="utf-8")


BREAKS: dict[Callable[[Scene], None], list[str]] = {
    tamper_lock: ["lock digest: built from"],
    tamper_digest: ["lock digest: built from 000000000000"],
    add_extra: ["+ sneaky==0.1 (installed, not in the lock)"],
    drop: ["- numpy==2.0 (in the lock, not installed)"],
    other_version: ["! numpy: lock 2.0, installed 2.1"],
    swap_torch: ["! torch: lock 9.1.0, installed 9.1.0+cu1"],
    wrong_stack: ["built for 'other' from requirements.lock, not for 'tiny'"],
    wrong_lock: ["built for 'tiny' from rehearsal.lock, not for 'tiny' from requirements.lock"],
    overwrite_version: ["! torch 9.1.0: torch.version.hip is 6.1, the stack wants it unset"],
    overwrite_torch: ["torch/__init__.py "],
    delete_file: ["torch/__init__.py "],
    delete_version: ["version.py: cannot be read", "torch is damaged"],
    break_version: ["version.py: cannot be read", "torch is damaged"],
    disown: ["- torch==9.1.0 (in the lock, not installed)"],
    twice: ["! torch: lock 9.1.0, installed 9.0.0 and 9.1.0"],
}


@pytest.mark.slow
@pytest.mark.parametrize("break_it", BREAKS, ids=lambda function: function.__name__)
def test_broken_environment_is_refused_with_the_difference(scene: Scene, break_it: Callable[[Scene], None]) -> None:
    break_it(scene)
    code, said = scene.prove()
    assert code == 4
    assert [word for word in BREAKS[break_it] if word not in said] == []
    assert "damaged" in said or "delete that folder and run the session again" in said


def test_all_differences_are_shown_up_to_a_dozen(scene: Scene) -> None:
    for number in range(15):
        info = scene.site / f"extra{number}-1.0.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: extra{number}\nVersion: 1.0\n"
        (info / "METADATA").write_text(text, encoding="utf-8")
    drop(scene)
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
    assert f"! torch would be imported from {other / 'torch'}" in said


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
    add_extra(scene)
    scene.unstamp()
    code, said = scene.prove()
    assert code == 0
    found = json.loads(said)
    assert (found["pinned"], found["lock_digest"], found["unhashed"]) == (False, "", [])
    assert found["sentence"].startswith("unpinned: ")


@pytest.mark.parametrize("break_it", [overwrite_version, overwrite_torch, disown], ids=lambda f: f.__name__)
def test_foreign_environment_with_the_wrong_torch_is_refused(scene: Scene, break_it: Callable[[Scene], None]) -> None:
    scene.unstamp()
    break_it(scene)
    code, said = scene.prove()
    assert code == 4
    assert "torch" in said
    assert "delete" not in said


def test_environment_without_torch(scene: Scene) -> None:
    fakes.run([str(environments.find_uv()), "pip", "uninstall", "--quiet", "--python", str(scene.python), "torch"])
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
    assert "unhashed: 1 vendor wheels, completed by `nox -s lock -- tiny`" in found["sentence"]


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

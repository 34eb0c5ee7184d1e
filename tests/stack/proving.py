"""A stack named 'tiny' and a real environment with a small torch of our own, which tests damage and prove."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from stackproof import ROOT
from stackproof.stack import environments, lockfile, stacks

from .. import fakes

PROVE = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from stackproof.stack import environment_proof
from stackproof.stack import stacks
from stackproof.base.errors import Refusal
stack = stacks.load("tiny", Path(sys.argv[1]))
try:
    found = environment_proof.prove(stack)
    print(json.dumps({**asdict(found), "sentence": found.sentence(stack)}))
except Refusal as refusal:
    print(refusal)
    sys.exit(refusal.exit_code)
assert "torch" not in sys.modules
"""


@dataclass
class Scene:
    """A stack and an environment that is, at first, its lock."""

    root: Path
    stack: stacks.Stack
    python: Path

    @property
    def site(self) -> Path:
        return next(self.python.parent.parent.glob("lib/python3*/site-packages"))

    def stamp(self, **other: object) -> None:
        facts = {
            "stack": "tiny",
            "lock": "requirements.lock",
            "lock_digest": lockfile.read(self.stack.lock).digest,
        }
        text = json.dumps({**facts, **other})
        (self.python.parent.parent / environments.STAMP).write_text(text, encoding="utf-8")

    def unstamp(self) -> None:
        (self.python.parent.parent / environments.STAMP).unlink()

    def prove(self, **env: str) -> tuple[int, str]:
        """Prove the environment from inside it; return exit code and what was said."""
        path = f"{ROOT / 'src'}:{fakes.borrowed(self.root / 'borrowed')}"
        env["PYTHONPATH"] = f"{env['PYTHONPATH']}:{path}" if "PYTHONPATH" in env else path
        ended = fakes.attempt([str(self.python), "-c", PROVE, str(self.root / "stacks")], env=env)
        assert ended.stderr == ""
        return ended.returncode, ended.stdout.strip()


def make(tmp_path: Path) -> Scene:
    """Build an environment with torch 9.1.0 and numpy 2.0, pinned by the lock of the stack."""
    wheels = tmp_path / "wheels"
    both = [fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH), fakes.wheel(wheels, "numpy", "2.0")]
    folder = fakes.stack(tmp_path)
    fakes.lock(folder, "".join(map(fakes.pin, both)))
    python = fakes.venv(tmp_path / "environment", *both)
    made = Scene(tmp_path, stacks.load("tiny", tmp_path / "stacks"), python)
    made.stamp()
    return made


def install(scene: Scene, wheel: Path) -> None:
    command = [str(environments.find_uv()), "pip", "install", "--quiet", "--no-index", "--no-deps"]
    fakes.run([*command, "--reinstall", "--python", str(scene.python), str(wheel)])

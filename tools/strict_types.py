"""Check types with mypy, strictly: `python -m tools.strict_types`, which `pre-commit` runs.

mypy reads torch's and NumPy's own types where the stack `cpu` has them; without those, nearly every file is in error.
"""

from __future__ import annotations

import subprocess
import sys

from stackproof.stack import environments, stacks


def main(words: list[str]) -> int:
    """Run mypy of this Python against the environment of `cpu`, which is built where it is not there."""
    python = environments.prepare(stacks.load(stacks.DEVELOPMENT), lambda said: print(said, file=sys.stderr))  # noqa: T201
    return subprocess.run([sys.executable, "-m", "mypy", "--python-executable", str(python), *words]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

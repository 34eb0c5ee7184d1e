"""The releases of one package between two of its versions, as the index has them today, each as a pin with its hashes."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.version import InvalidVersion, Version

from stackproof.base.errors import Refusal
from stackproof.base.text import tail
from stackproof.extras.bisect.atoms import Atom, AtomKind
from stackproof.stack import environments
from stackproof.stack.lockfile import Pin

_MOST = 60
_ASK_S = 60.0
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


def searchable(atoms: list[Atom], pins: Iterable[Pin]) -> Atom | None:
    """Return the package whose releases can be tried one by one: one that moves alone, from a version to a later one.

    `pins`: of both locks. What is a file, has no hash or is one vendor's build (`+xpu`) came from no index that is asked here: whatever
    that has under the name may be somebody else's.
    """
    if len(atoms) != 1 or atoms[0].kind is not AtomKind.PACKAGE:
        return None
    if any(pin.path or pin.unhashed or "+" in pin.version for pin in pins if pin.name == atoms[0].name):
        return None
    try:
        return atoms[0] if Version(atoms[0].before) < Version(atoms[0].after) else None
    except InvalidVersion:  # several versions for several Pythons, or none at one end
        return None


def between(atom: Atom, uv: Path, python: str) -> list[Pin]:
    """Return the releases after the good version and before the bad one, oldest first; none where there is no installer.

    The index is asked for the newest one below the last that it gave, which works with every index that the installer knows.

    Raises:
        Refusal: the index cannot be reached.
    """
    found: list[Pin] = []
    upper = atom.after
    while len(found) < _MOST and (pin := _newest(f"{atom.name}>{atom.before},<{upper}", atom, uv, python)):
        found.append(pin)
        upper = pin.version
    return found[::-1]


def _newest(wanted: str, atom: Atom, uv: Path, python: str) -> Pin | None:
    early = any(Version(one).is_prerelease for one in (atom.before, atom.after))
    command = [str(uv), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--no-deps", "--generate-hashes"]
    command += ["--only-binary", ":all:", "--python-version", python, "--prerelease", "allow" if early else "disallow"]
    with tempfile.TemporaryDirectory(prefix="stackproof-releases-") as folder:
        source = Path(folder) / "wanted.in"
        source.write_text(f"{wanted}\n", encoding="utf-8")
        try:
            ended = subprocess.run(
                [*command, str(source)], capture_output=True, text=True, errors="replace", timeout=_ASK_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Refusal(f"the index does not answer within {_ASK_S:.0f} s") from error
        except OSError:
            return None
    if ended.returncode and environments.unreached(ended.stderr):
        raise Refusal(f"the index cannot be reached: {tail(ended.stderr)}")
    head = _PIN.search(ended.stdout)
    hashes = tuple(_HASH.findall(ended.stdout))
    if ended.returncode or head is None or not hashes:
        return None
    lines = [f"{atom.name}=={head[2]}", *(f"    --hash={one}" for one in hashes)]
    return Pin(atom.name, head[2], "", hashes, "", " \\\n".join(lines) + "\n")

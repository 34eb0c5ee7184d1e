"""A wheel built anew with one file edited, under a version of its own, and the lock that names it in place of the published one."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.stack import lockfile

FRESH = ".post1"
"""A release of its own: a local version (`+rebuilt`) would do for a lock that pins the published one."""


def wheel(package: str, environment: Path, edit: tuple[str, str, str], target: Path) -> Path:
    """Write a wheel of a pure-Python package as it is installed, with one text replaced by another in one file.

    Args:
        package: its canonical name.
        environment: the site-packages that it is installed in.
        edit: the file below site-packages, the text, and what it becomes.
        target: the folder for the wheel.

    Raises:
        Refusal: the text is not in the file exactly once.
    """
    stem = package.replace("-", "_")
    (info,) = environment.glob(f"{stem}-*.dist-info")
    version = info.name.removesuffix(".dist-info").partition("-")[2]
    fresh = f"{stem}-{version}{FRESH}"
    files = {name: _edited(environment, name, edit) for name in _listed(info)}
    inside = {name.replace(info.name, f"{fresh}.dist-info"): data for name, data in files.items()}
    told = f"{fresh}.dist-info/METADATA"
    inside[told] = inside[told].replace(f"Version: {version}\n".encode(), f"Version: {version}{FRESH}\n".encode(), 1)
    record = "".join(f"{name},sha256={_encoded(data)},{len(data)}\n" for name, data in inside.items())
    inside[f"{fresh}.dist-info/RECORD"] = f"{record}{fresh}.dist-info/RECORD,,\n".encode()
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{fresh}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in inside.items():
            packed.writestr(zipfile.ZipInfo(name), data)
    return path


def _listed(info: Path) -> list[str]:
    """Return what the wheel brought: not its scripts, nor what the installer wrote."""
    names = [row.split(",")[0] for row in (info / "RECORD").read_text(encoding="utf-8").splitlines()]
    written = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
    return [name for name in names if not name.startswith("..") and not name.endswith((".pyc", *written))]


def _edited(environment: Path, name: str, edit: tuple[str, str, str]) -> bytes:
    data = (environment / name).read_bytes()
    if name != edit[0]:
        return data
    if data.count(edit[1].encode()) != 1:
        raise Refusal(f"{name}: holds {edit[1]!r} {data.count(edit[1].encode())} times; the edit needs it once")
    return data.replace(edit[1].encode(), edit[2].encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def relock(lock: Path, package: str, built: Path, target: Path) -> None:
    """Write a lock that names the wheel that was built in place of the published one."""
    found = lockfile.read(lock)
    text = "".join(_pin(pin, built) if pin.name == package else pin.text for pin in found.pins)
    header = {**found.header, "content": lockfile.content_digest(text)}
    head = "".join(f"# {key}: {header[key]}\n" for key in lockfile.HEADER_KEYS)
    target.write_text(head + text, encoding="utf-8")


def _pin(pin: lockfile.Pin, built: Path) -> str:
    digest = hashlib.sha256(built.read_bytes()).hexdigest()
    marker = f" ; {pin.marker}" if pin.marker else ""
    return f"{pin.name}=={pin.version}{FRESH}{marker} \\\n    --hash=sha256:{digest}\n"

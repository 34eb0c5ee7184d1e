"""A stack's lock as a bill of materials in CycloneDX 1.6 JSON: what is in it, from where, with which hashes and licences.

Two calls with one lock and the same environments write the same bytes. Source: https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from packaging.utils import canonicalize_name

from stackproof import __version__
from stackproof.stack.licences import Licence, Licences
from stackproof.stack.lockfile import Lock, Pin
from stackproof.stack.stacks import Stack, Vendor

UNKNOWN = "unknown"
_OURS = uuid.UUID("6f0c2b1e-6b0c-5d3c-9f6e-2f3d1a7f9c11")
_SPACE = "stackproof:"


def bill(stack: Stack, lock: Lock, licences: Licences) -> dict[str, Any]:
    """Return the whole document; a package whose licence nobody could read says so in a property."""
    vendors: dict[str, Vendor] = {canonicalize_name(row.name): row for row in stack.vendor}
    parts = {_purl(pin, vendors.get(pin.name)): pin for pin in lock.pins}
    root = f"{stack.name}@{lock.digest[:12]}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_OURS, lock.digest)}",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "stackproof", "version": __version__}]},
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": f"stack {stack.name}",
                "description": stack.title,
            }
            | {"version": lock.digest[:12], "properties": _properties(_of_lock(lock))},
        },
        "components": [_component(ref, pin, licences.get((pin.name, pin.version))) for ref, pin in parts.items()],
        "dependencies": [{"ref": root, "dependsOn": list(parts)}],
    }


def _of_lock(lock: Lock) -> dict[str, str]:
    kept = {key: lock.header[key] for key in ("kind", "python", "platform", "unhashed")}
    return {"lock": lock.path.name, "lock.sha256": lock.digest, **kept}


def _purl(pin: Pin, vendor: Vendor | None) -> str:
    """Return the package's address in the way of purl, which tells where a vendor's wheel comes from."""
    place = ""
    if vendor:
        place = (
            f"?repository_url={_escaped(vendor.index)}" if vendor.index else f"?download_url={_escaped(vendor.file)}"
        )
    return f"pkg:pypi/{pin.name}@{_escaped(pin.version)}{place}"


def _escaped(text: str) -> str:
    return quote(text, safe="")


def _component(ref: str, pin: Pin, licence: Licence | None) -> dict[str, Any]:
    facts = {"marker": pin.marker, "unhashed": "true" if pin.unhashed else "", "licence": "" if licence else UNKNOWN}
    made: dict[str, Any] = {"type": "library", "bom-ref": ref, "name": pin.name, "version": pin.version, "purl": ref}
    if licence:
        made["licenses"] = _choice(licence)
    if pin.hashes:
        hashes = [{"alg": "SHA-256", "content": one.partition(":")[2]} for one in pin.hashes]
        told = "any file of this release with one of these digests"
        made["externalReferences"] = [{"type": "distribution", "url": ref, "comment": told, "hashes": hashes}]
    if properties := _properties({key: value for key, value in facts.items() if value}):
        made["properties"] = properties
    return made


def _choice(licence: Licence) -> list[dict[str, Any]]:
    if licence.expression:
        return [{"expression": licence.expression, "acknowledgement": "declared"}]
    return [{"license": {"name": name, "acknowledgement": "declared"}} for name in licence.names]


def _properties(facts: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": f"{_SPACE}{key}", "value": value} for key, value in facts.items()]


def summary(lock: Lock, licences: Licences) -> dict[str, list[str]]:
    """Return the packages of each licence, the commonest first; those whose licence is not known come last.

    Of a package that the lock has in several versions, one for each Python, the one that is installed speaks.
    """
    found: dict[str, list[str]] = {}
    told = {pin.name for pin in lock.pins if (pin.name, pin.version) in licences}
    for pin in (pin for pin in lock.pins if (pin.name, pin.version) in licences or pin.name not in told):
        found.setdefault(str(licences.get((pin.name, pin.version)) or UNKNOWN), []).append(pin.name)
    return dict(sorted(found.items(), key=lambda row: (row[0] == UNKNOWN, -len(row[1]), row[0])))
